// Package slack asks people on Slack and takes their answers.
//
// It is a surface like any other: a client of the daemon's Approvals. Each open
// question of a workflow whose destination is Slack becomes one message in its
// channel, with buttons, and the message says in the end what became of it.
// Presses come back over Socket Mode, a connection that goes out from here, so
// that nothing listens.
//
// Three rules hold. What is asked and what is said of it is brought level, not
// told once: a card holds a question as the daemon knows it and the message as
// Slack shows it, and whatever differs is sent, again if need be. Who may answer
// is checked by the daemon, against the configuration in force; here it is only
// said who pressed. And text that somebody else chose stands in code spans with
// what Slack would read in it written out, so that it formats, links and mentions
// nothing.
package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Sheet is what a person judges a question by.
type Sheet struct {
	Call   display.Safe // what is called
	Rows   []Row
	Values []byte // raw JSON; empty when the question has ended
}

// Row is one line of a sheet.
type Row struct{ Label, Text display.Safe }

// Options say with what to work. All but Every are needed.
type Options struct {
	Gate   inbox.Daemon
	Getenv func(string) string
	State  string                        // absolute path of a folder of our own; made with mode 0700
	Sheet  func(*pb.Approval) Sheet      // lays out a question; safe for concurrent use
	Say    func(format string, a ...any) // says what happened in one line; safe for concurrent use
	Every  time.Duration                 // least time between two messages to a channel; a second when 0
}

// Problem is an error and what to do about it.
type Problem struct {
	Err  error
	Hint string
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// surface is what answers from here are said to come from.
const surface = "slack"

// Run asks on Slack until ctx ends, which is no error. It returns when all that it
// began has ended. An error is of what no waiting would put right: no workflow that
// asks on Slack, a token that is missing or not accepted, a second process that asks
// with the same one.
func Run(ctx context.Context, o Options) error {
	o.Every = cmp.Or(o.Every, time.Second)
	apps, err := signInAll(ctx, &o)
	for _, a := range apps {
		defer a.memory.close()
	}
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	for _, a := range apps {
		for _, part := range []func(context.Context) error{a.follow, a.listen, a.deliver} {
			work.Go(func() error { return part(ctx) })
		}
	}
	return work.Wait()
}

var errNoWorkflow = &Problem{
	Err:  errors.New("no workflow in force asks on Slack"),
	Hint: "Give one `destination: {type: slack, ...}` in thoughtgate.yaml, then: tgctl daemon reload",
}

// signInAll signs in to every Slack app that a workflow in force names. The caller
// closes their memories, also beside an error.
func signInAll(ctx context.Context, o *Options) (apps []*app, err error) {
	flows, err := anyWorkflows(ctx, o.Gate)
	if err != nil {
		return nil, err
	}
	for _, n := range tokenNames(flows) {
		a, err := signIn(ctx, o, n)
		if err != nil {
			return apps, err
		}
		a.all = tokenNames(flows)
		apps = append(apps, a)
		if a.memory, err = remember(o.State, a.me.TeamID+"-"+a.me.UserID); err != nil {
			return apps, err
		}
		a.recall(flows)
		o.Say("asking on Slack as %s in %s, for %s", display.Name(a.me.User), display.Text(a.me.Team), a.serves(flows))
	}
	return apps, nil
}

// names are those of the two tokens of a Slack app.
type names struct{ bot, app string }

// tokensOf are the names that a workflow gives.
func tokensOf(w *pb.PolicyWorkflow) names {
	return names{w.GetSlack().GetBotToken(), w.GetSlack().GetAppToken()}
}

// takesYes reports whether a workflow takes a yes from Slack.
func takesYes(w *pb.PolicyWorkflow) bool {
	return len(w.GetSurfaces()) == 0 || slices.Contains(w.GetSurfaces(), surface)
}

// workflows reads those of the configuration in force that ask on Slack, by name.
func workflows(ctx context.Context, g inbox.Daemon) (map[string]*pb.PolicyWorkflow, error) {
	flows, err := inbox.Workflows(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("read which workflows ask on Slack: %w", err)
	}
	maps.DeleteFunc(flows, func(_ string, w *pb.PolicyWorkflow) bool { return w.GetSlack() == nil })
	return flows, nil
}

// anyWorkflows is workflows, of which there must be one.
func anyWorkflows(ctx context.Context, g inbox.Daemon) (map[string]*pb.PolicyWorkflow, error) {
	flows, err := workflows(ctx, g)
	if err == nil && len(flows) == 0 {
		err = errNoWorkflow
	}
	return flows, err
}

// tokenNames lists the pairs of names in flows, each once, in a fixed order.
func tokenNames(flows map[string]*pb.PolicyWorkflow) []names {
	var all []names
	for _, w := range flows {
		if n := tokensOf(w); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b names) int { return slices.Compare([]string{a.bot, a.app}, []string{b.bot, b.app}) })
	return all
}
