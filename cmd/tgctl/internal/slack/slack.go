// Package slack asks people on Slack and takes their answers.
//
// It is a surface, and as such a client of the daemon's Approvals service. Unlike the others it is
// a destination of workflows, whose approvers the daemon checks. Each open question of such a
// workflow becomes one message with buttons in its channel. When the question ends, the message is
// updated to say how. Presses arrive over Socket Mode, an outgoing connection, so nothing listens
// on a port.
//
// Three rules hold:
//
//   - Messages are reconciled. A card holds a question as the daemon knows it and the
//     message as Slack shows it. Whatever differs is sent, and retried if that fails.
//   - The daemon checks who may answer, against the configuration in force. This package
//     only reports who pressed.
//   - Text from outside stands in code spans, with Slack's control characters escaped, so
//     that it cannot format, link or mention anything.
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

// Sheet is what a person sees of a question in order to decide it.
type Sheet struct {
	Call   display.Safe // the call
	Rows   []Row
	Values []byte // raw JSON; empty when the question has ended
}

// Row is one line of a sheet.
type Row struct{ Label, Text display.Safe }

// Options configures Run and Check. All fields except Every are required.
type Options struct {
	Gate   inbox.Daemon
	Getenv func(string) string
	State  string                        // absolute path of a private directory; created with mode 0700
	Sheet  func(*pb.Approval) Sheet      // lays out a question; safe for concurrent use
	Say    func(format string, a ...any) // reports an event in one line; safe for concurrent use
	Every  time.Duration                 // minimum interval between two messages to a channel; 0 means a second
}

// Problem is an error and what to do about it.
type Problem struct {
	Err  error
	Hint string
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// surface is the surface of the answers that are given here.
const surface = "slack"

// Run asks on Slack until ctx ends, and then returns nil. It returns after all its goroutines
// have ended. Run returns an error for problems that waiting does not solve: no workflow asks
// on Slack, a token is missing or not accepted, or another process asks with the same app.
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
		for _, part := range []func(context.Context) error{a.watchQuestions, a.listen, a.deliver} {
			work.Go(func() error { return part(ctx) })
		}
	}
	return work.Wait()
}

var errNoWorkflow = &Problem{
	Err:  errors.New("no workflow in force asks on Slack"),
	Hint: "Give a workflow `destination: {type: slack, ...}` in thoughtgate.yaml, then: tgctl daemon reload",
}

// signInAll signs in to every Slack app that a workflow in force names. The caller must close
// the memories of apps, also if err is not nil.
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

// names holds the names of the two tokens of a Slack app.
type names struct{ bot, app string }

// tokensOf returns the token names that a workflow gives.
func tokensOf(w *pb.PolicyWorkflow) names {
	return names{w.GetSlack().GetBotToken(), w.GetSlack().GetAppToken()}
}

// acceptsApproval reports whether a workflow accepts approvals from Slack.
func acceptsApproval(w *pb.PolicyWorkflow) bool {
	return len(w.GetSurfaces()) == 0 || slices.Contains(w.GetSurfaces(), surface)
}

// workflows returns the workflows in force that ask on Slack, by name.
func workflows(ctx context.Context, g inbox.Daemon) (map[string]*pb.PolicyWorkflow, error) {
	flows, err := inbox.Workflows(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("read the workflows that ask on Slack: %w", err)
	}
	maps.DeleteFunc(flows, func(_ string, w *pb.PolicyWorkflow) bool { return w.GetSlack() == nil })
	return flows, nil
}

// anyWorkflows is like workflows, but returns an error if there are none.
func anyWorkflows(ctx context.Context, g inbox.Daemon) (map[string]*pb.PolicyWorkflow, error) {
	flows, err := workflows(ctx, g)
	if err == nil && len(flows) == 0 {
		err = errNoWorkflow
	}
	return flows, err
}

// tokenNames returns the pairs of token names in flows, without duplicates and sorted.
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
