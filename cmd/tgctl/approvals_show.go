package main

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// showLines limits the lines of arguments on a terminal, so that more important lines
// stay on the screen.
const showLines = 200

func (a *app) approvalsShowCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "show ID [flags]",
		Short: "Show one question in full",
		Long: `Show everything about one question. Arguments are shown as the server would
read them; characters that a terminal would act on or hide, or that look like
others, are escaped by number, as \u{202e}. For a waiting question, show also
prints the differences from the last approved call of that tool, and the
previous calls of the session.`,
		Example: `  $ tgctl approvals show A-17
  $ tgctl approvals show A-17 | less`,
		Args:              ui.Exactly("ID"),
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.GetApproval(ctx, approvalID(args[0]))
			if err != nil {
				return approvalFailure(args[0], err)
			}
			if a.AsJSON {
				return a.PrintJSON(q)
			}
			return a.showApproval(ctx, c, q)
		}),
	}, &pb.Approval{})
}

func (a *app) showApproval(ctx context.Context, c *client.Client, q *pb.Approval) error {
	s := a.questionSheet(q)
	addTraces(s, q)
	if err := a.PrintSheet(s); err != nil {
		return err
	}
	id := display.Name(q.GetId())
	if err := a.showParams(q.GetArguments(), "tgctl approvals show "+id+" | less"); err != nil {
		return err
	}
	if !approval.IsOpen(q) {
		return nil
	}
	if err := a.PrintLines(readPast(ctx, c, q).lines(q, a.Now(), a.Width())); err != nil {
		return err
	}
	a.PrintMessage("\nAnswer with: tgctl approvals approve %s\n         or: tgctl approvals deny %s --reason \"...\"", id, id)
	return nil
}

// questionSheet lists what a person needs to judge a question, except its params.
func (a *app) questionSheet(q *pb.Approval) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("question", display.Name(q.GetId())+", "+a.stateLine(q))
	s.Add("call", display.Name(q.GetMethod())+ui.Spaced(display.Name(q.GetTool())))
	s.Add("server", display.Name(q.GetServer()))
	s.Add("agent", ui.AgentLine(q.GetAgent(), q.GetSession()))
	s.Add("because", display.Text(q.GetReason()))
	s.Add("asked by", display.Text(q.GetRule()))
	s.Add("workflow", display.Name(q.GetWorkflow()))
	s.Add("approval", levelLine(q))
	for _, fact := range q.GetFacts() {
		s.Add("fact", display.Text(fact))
	}
	s.Add("equal calls", ui.Choose(q.GetWaiting() > 1, ui.Plural(q.GetWaiting(), "waits", "wait")+"; approval forwards the oldest", ""))
	s.Add("repetition", a.repetition(q))
	s.Add("asked", display.Moment(q.GetCreated().AsTime(), a.Now()))
	if q.GetDecided() != nil {
		s.Add("decided", display.Moment(q.GetDecided().AsTime(), a.Now()))
		s.Add("by", display.Text(q.GetDecider())+ui.Spaced(ui.Parens(display.Name(q.GetSurface()))))
		s.Add("approver", ui.Claimed(q.GetApprover(), q.GetSurface()))
		s.Add("note", display.Text(q.GetNote()))
		s.Add("arguments", ui.Choose(q.GetEdited(), "changed by the approver", ""))
	}
	return s
}

// levelLine describes the proof that an approval needs or needed.
func levelLine(q *pb.Approval) display.Safe {
	switch {
	case q.GetLevel() != approval.LevelPresence:
		return ""
	case approval.IsOpen(q):
		return "needs your passphrase or a code (presence); denying does not"
	}
	return "needed a passphrase or a code (presence)"
}

// addTraces adds the identifiers by which a question can be found again.
func addTraces(s *ui.Sheet, q *pb.Approval) {
	s.Add("in the log", display.Name(q.GetCall()))
	s.Add("launch", display.Name(q.GetLaunch()))
	s.Add("subject", display.Safe(hex.EncodeToString(q.GetSubject())))
}

// showParams prints raw params in full. On a terminal it prints the beginning and how
// many lines are missing.
func (a *app) showParams(params []byte, whole display.Safe) error {
	if len(params) == 0 {
		return nil
	}
	lines := jsonLines("params", params, a.Width())
	if rest := len(lines) - 1 - showLines; a.OutTerminal && rest > 0 {
		lines = append(lines[:1+showLines], "… "+ui.Plural(rest, "more line", "more lines")+"; "+whole)
	}
	return a.PrintLines(lines)
}

// jsonLines lays out raw JSON in full, below a line with its title and length.
func jsonLines(what display.Safe, raw []byte, columns int) []display.Safe {
	const indent = "  "
	lines := display.Wrap(what+", "+ui.Plural(len(raw), "byte", "bytes")+":", columns)
	for line := range strings.SplitSeq(string(display.JSON(raw, ui.Behind(len(indent), columns))), "\n") {
		lines = append(lines, indent+display.Safe(line))
	}
	return lines
}

// stateLine describes the state of a question.
func (a *app) stateLine(q *pb.Approval) display.Safe {
	state := stateWord(q)
	switch {
	case approval.IsOpen(q):
		return state + ", " + display.Span(q.GetExpires().AsTime().Sub(a.Now())) + " left"
	case q.GetDecided() != nil:
		return state + " " + display.Span(a.Now().Sub(q.GetDecided().AsTime())) + " ago"
	}
	return state
}

// repetition describes what happens if the agent repeats a parked call.
func (a *app) repetition(q *pb.Approval) display.Safe {
	switch {
	case q.GetGood() != nil && !q.GetSpent() && q.GetGood().AsTime().After(a.Now()):
		return "the answer is kept until the agent repeats the call, at most " + display.Span(q.GetGood().AsTime().Sub(a.Now()))
	case q.GetGood() != nil && !q.GetSpent():
		return "the agent did not repeat the call in time"
	case approval.IsOpen(q) && q.GetParked() && q.GetWaiting() == 0:
		return "the call is parked: the agent was told to repeat it"
	}
	return ""
}
