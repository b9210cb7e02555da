package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// grantFlags holds the flags of approve that describe a grant.
type grantFlags struct {
	span  string
	times uint64
	match []string
	in    string
}

// usualGrant is how long a grant lasts by default.
const usualGrant = time.Hour

func (f *grantFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.span, "for", "", "grant further calls for a `TIME`, as 1h or 7d, 30d at most")
	flags.Uint64Var(&f.times, "times", 0, "grant `N` further calls, as many as come when left out")
	flags.StringArrayVar(&f.match, "match", nil, "`WHAT` of further calls must be equal: tool, args or arg=NAME, which may come again")
	flags.StringVar(&f.in, "in", "", "`WHERE` they are granted: session, project or always")
}

// terms returns the terms of the grant that the flags ask for, nil for no grant.
func (f *grantFlags) terms() (*pb.GrantTerms, error) {
	if f.span == "" && f.times == 0 && len(f.match) == 0 && f.in == "" {
		return nil, nil
	}
	span := usualGrant
	if f.span != "" {
		var err error
		if span, err = parseSpan(f.span); err != nil || span <= 0 || span > 30*24*time.Hour {
			return nil, fmt.Errorf("--for %q: give a time of 30 days at most, as 1h or 7d", f.span)
		}
	}
	terms := &pb.GrantTerms{For: durationpb.New(span), Times: f.times}
	for _, m := range f.match {
		name, isArg := strings.CutPrefix(m, "arg=")
		switch {
		case isArg && name != "":
			terms.Match, terms.Arguments = pb.GrantMatch_GRANT_MATCH_SOME, append(terms.Arguments, name)
		case m == "args":
			terms.Match = pb.GrantMatch_GRANT_MATCH_ARGUMENTS
		case m == "tool":
			terms.Match = pb.GrantMatch_GRANT_MATCH_TOOL
		default:
			return nil, fmt.Errorf("--match %q: it can be tool, args or arg=NAME", m)
		}
	}
	if len(f.match) > 1 && len(terms.GetArguments()) < len(f.match) {
		return nil, fmt.Errorf("--match: only arg=NAME may come more than once, and with nothing else")
	}
	switch f.in {
	case "", "session":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_SESSION
	case "project":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_PROJECT
	case "always":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_ALWAYS
	default:
		return nil, fmt.Errorf("--in %q: it can be session, project or always", f.in)
	}
	return terms, nil
}

// grantGiven describes what was granted, for how long, and how to revoke it.
func grantGiven(g *pb.Grant) display.Safe {
	id := display.Name(g.GetId())
	return "Granted as " + id + ": " + grantTerms(g, g.GetExpires().AsTime().Sub(g.GetCreated().AsTime())) +
		".\nTo undo that: tgctl grants revoke " + id
}

// grantTerms describes the calls that a grant approves, and for how long.
func grantTerms(g *pb.Grant, term time.Duration) display.Safe {
	return "further " + choose(g.GetTimes() > 0, plural(g.GetTimes(), "call", "calls"), "calls") + " with " + grantBounds(g) + ", for " + display.Span(term)
}
