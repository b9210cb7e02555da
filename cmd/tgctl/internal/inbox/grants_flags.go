package inbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
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

// usualGrantTyped is usualGrant as a person types it.
const usualGrantTyped = "1h"

func (f *grantFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.span, "for", "", "grant further calls for a `TIME` such as 1h or 7d, at most 30d")
	flags.Uint64Var(&f.times, "times", 0, "grant `N` further calls; without it, any number")
	flags.StringArrayVar(&f.match, "match", nil, "`WHAT` must be equal in further calls: args, arg=NAME (may be repeated) or tool; for a command of the agent's shell also verb or program")
	flags.StringVar(&f.in, "in", "", "`WHERE` further calls are granted: session, project or always")
	ui.CompleteFlag(cmd, "in", ui.OneOf("session", "project", "always"))
	ui.CompleteFlag(cmd, "match", ui.OneOf("args", "tool", "verb", "program"))
}

// terms returns the terms of the grant that the flags ask for, nil for no grant.
func (f *grantFlags) terms() (*pb.GrantTerms, error) {
	if f.span == "" && f.times == 0 && len(f.match) == 0 && f.in == "" {
		return nil, nil
	}
	span := usualGrant
	if f.span != "" {
		var err error
		if span, err = ui.ParseSpan(f.span); err != nil || span <= 0 || span > 30*24*time.Hour {
			return nil, fmt.Errorf("invalid --for %q: use a time such as 1h or 7d, at most 30d", f.span)
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
		case m == "verb":
			terms.Match = pb.GrantMatch_GRANT_MATCH_VERB
		case m == "program":
			terms.Match = pb.GrantMatch_GRANT_MATCH_PROGRAM
		default:
			return nil, fmt.Errorf("invalid --match %q: use args, arg=NAME, tool, verb or program", m)
		}
	}
	if len(f.match) > 1 && len(terms.GetArguments()) < len(f.match) {
		return nil, fmt.Errorf("--match: only arg=NAME can be repeated, and with nothing else")
	}
	switch f.in {
	case "", "session":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_SESSION
	case "project":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_PROJECT
	case "always":
		terms.Scope = pb.GrantScope_GRANT_SCOPE_ALWAYS
	default:
		return nil, fmt.Errorf("invalid --in %q: use session, project or always", f.in)
	}
	return terms, nil
}

// offerLines lists the grants with which a command can be approved, and says why there is none that is
// wider.
func (a *app) offerLines(q *pb.Approval) []display.Safe {
	if len(q.GetOffers()) == 0 {
		return nil
	}
	var lines []display.Safe
	for _, o := range q.GetOffers() {
		match, what := display.Safe("args"), display.Safe("exactly this command")
		if g := o.GetGrain(); g != nil {
			match, what = ui.Choose(o.GetMatch() == pb.GrantMatch_GRANT_MATCH_VERB, "verb", "program"), a.tilde(approval.GrainText(g))
		}
		flag := "  --match " + padded(match, 7, false) + "  "
		lines = append(lines, ui.Hanging(flag+what, a.Width(), display.Width(flag))...)
		lines = append(lines, display.Safe(strings.Repeat(" ", display.Width(flag)))+coveredBefore(q, o))
	}
	if why := q.GetAlone(); why != "" {
		lines = append(lines, ui.Hanging("  no wider grant is possible: "+display.Text(why), a.Width(), 4)...)
	}
	return lines
}

// coveredBefore says how many earlier calls a grant would have covered.
func coveredBefore(q *pb.Approval, o *pb.GrantOffer) display.Safe {
	return "would have covered " + display.Count(o.GetCovers()) + ui.Choose(q.GetSession() == "", " of the calls before it", " of this session's calls")
}

// tilde shortens the paths in a text.
func (a *app) tilde(text display.Safe) display.Safe { return display.Safe(a.TildeIn(string(text))) }

// grantGiven describes what was granted, for how long, and how to revoke it.
func grantGiven(g *pb.Grant) display.Safe {
	id := display.Name(g.GetId())
	return "Granted as " + id + ": " + grantTerms(g, g.GetExpires().AsTime().Sub(g.GetCreated().AsTime())) +
		".\nTo revoke it: tgctl grants revoke " + id
}

// grantTerms describes the calls that a grant approves, and for how long.
func grantTerms(g *pb.Grant, term time.Duration) display.Safe {
	return "further " + ui.Choose(g.GetTimes() > 0, ui.Plural(g.GetTimes(), "call", "calls"), "calls") + " " + approval.GrantBounds(g) + ", for " + display.Span(term)
}
