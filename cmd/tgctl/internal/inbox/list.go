package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ApprovalsCommand returns the command approvals.
func ApprovalsCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("approvals", "List waiting questions and answer them",
		a.approvalsListCmd(), a.approvalsShowCmd(), a.approveCmd(), a.denyCmd(), a.watchCmd())
	cmd.Long = `A call that the policy holds becomes a question, with an id such as A-17. It
waits until somebody answers it, it expires, or the agent cancels the call.
Without a command, approvals lists the waiting questions.`
	cmd.Example = `  $ tgctl approvals
  $ tgctl approvals show A-17
  $ tgctl approvals approve A-17`
	return cmd
}

func (a *app) approvalsListCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the waiting questions",
		Long: `List the waiting questions, oldest first: how long each has waited, how much
time is left, what the agent wants to do, and why you are asked. Long arguments
are shortened and marked as such, also with --json; "show" prints them in full.`,
		Example: `  $ tgctl approvals list
  $ tgctl approvals list --all --json | jq -r 'select(.note != "") | .id'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			questions, err := c.ListApprovals(ctx, all)
			if err == nil {
				err = ui.PrintList(a, questions, nil, "No question is waiting.", a.approvalsTable)
			}
			if err == nil && len(questions) > 0 && approval.IsOpen(questions[0]) {
				a.PrintNext("Answer with `tgctl approvals approve ID` or `deny ID`; `show ID` shows one in full.")
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list decided questions, newest first")
	return a.WithJSON(cmd, &pb.Approval{})
}

// approvalsTable lists questions, each followed by its arguments and the reason it is
// asked.
func (a *app) approvalsTable(questions []*pb.Approval) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "ID"}, {Head: "AGE", Right: true}, {Head: "LEFT", Right: true, Tone: ui.ToneOf},
		{Head: "AGENT", Shrink: 8, Repeats: true}, {Head: "SERVER", Shrink: 8, Repeats: true}, {Head: "CALL", Shrink: 12, Tone: strong},
	}}
	indent := slices.Max(ui.Map(questions, func(q *pb.Approval) int { return len(q.GetId()) + 2 }))
	for _, q := range questions {
		left := approval.StateWord(q)
		if approval.IsOpen(q) {
			left = display.Span(q.GetExpires().AsTime().Sub(a.Now()))
		}
		t.Add(display.Name(q.GetId()), a.Age(q.GetCreated()), left,
			ui.OrDash(q.GetAgent()), display.Name(q.GetServer()), ui.CallName(q.GetMethod(), q.GetTool()))
		t.Note(ui.ShortParams(q.GetMethod(), q.GetArguments(), cmp.Or(ui.Behind(indent, a.Width()), ui.ShortRoom), "tgctl approvals show "+display.Name(q.GetId())))
		if n := q.GetArgumentsBytes(); n > 0 {
			t.NoteIn(display.Warn, display.Text(fmt.Sprintf("shortened from %d bytes; in full: tgctl approvals show %s", n, q.GetId())))
		}
		t.NoteIn(display.Warn, approval.Danger(q.GetFacts()))
		t.NoteIn(display.Held, approval.Because(q))
		t.NoteIn(display.Held, ui.Choose(approval.IsOpen(q) && q.GetOnlyColleagues(), "only a colleague can approve it; you can deny it", ""))
		t.NoteIn(display.Faint, ui.Choose(approval.MovedOn(q), approval.WhenMovedOn, ""))
		t.NoteIn(display.Warn, ui.Choose(approval.NeedsProof(q), "approval "+approval.LevelLine(q), ""))
	}
	return t
}

// strong is the tone of what a row is about.
func strong(display.Safe) display.Tone { return display.Strong }

// questionLine describes in one line what a question is about.
func questionLine(q *pb.Approval) display.Safe {
	return display.Name(q.GetId()) + ": " + ui.CallName(q.GetMethod(), q.GetTool()) + " on " + display.Name(q.GetServer()) +
		ui.Choose(q.GetAgent() != "", " for "+display.Name(q.GetAgent()), "")
}
