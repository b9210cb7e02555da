package main

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// showLines limits the lines of arguments on a terminal, so that more important lines
// stay on the screen.
const showLines = 200

func (a *app) approvalsShowCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "show ID [flags]",
		Short: "Show one question in full",
		Long: `Show everything about one question. Arguments are shown as the server would
read them; characters that a terminal would act on or hide, or that look like
others, are escaped by number, as \u{202e}. For a waiting question, show also
prints the differences from the last approved call of that tool, and the
previous calls of the session.`,
		Example: `  $ tgctl approvals show A-17
  $ tgctl approvals show A-17 | less`,
		Args:              exactly("ID"),
		ValidArgsFunction: a.completeApprovals,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.GetApproval(ctx, approvalID(args[0]))
			if err != nil {
				return approvalFailure(args[0], err)
			}
			if a.asJSON {
				return a.printJSON(q)
			}
			return a.showApproval(ctx, c, q)
		}),
	}, &pb.Approval{})
}

func (a *app) showApproval(ctx context.Context, c *client.Client, q *pb.Approval) error {
	s := a.questionSheet(q)
	addTraces(s, q)
	if err := a.printSheet(s); err != nil {
		return err
	}
	id := display.Name(q.GetId())
	if err := a.showParams(q.GetArguments(), "tgctl approvals show "+id+" | less"); err != nil {
		return err
	}
	if !isOpen(q) {
		return nil
	}
	if err := a.printLines(readPast(ctx, c, q).lines(q, a.now(), a.width())); err != nil {
		return err
	}
	a.printMessage("\nAnswer with: tgctl approvals approve %s\n         or: tgctl approvals deny %s --reason \"...\"", id, id)
	return nil
}

// questionSheet lists what a person needs to judge a question, except its params.
func (a *app) questionSheet(q *pb.Approval) *sheet {
	s := &sheet{}
	s.add("question", display.Name(q.GetId())+", "+a.stateLine(q))
	s.add("call", display.Name(q.GetMethod())+spaced(display.Name(q.GetTool())))
	s.add("server", display.Name(q.GetServer()))
	s.add("agent", agentLine(q.GetAgent(), q.GetSession()))
	s.add("because", display.Text(q.GetReason()))
	s.add("asked by", display.Text(q.GetRule()))
	s.add("workflow", display.Name(q.GetWorkflow()))
	s.add("approval", levelLine(q))
	for _, fact := range q.GetFacts() {
		s.add("fact", display.Text(fact))
	}
	if n := q.GetWaiting(); n > 1 {
		s.add("equal calls", display.Safe(plural(int(n), "waits", "wait"))+"; approval forwards the oldest")
	}
	s.add("repetition", a.repetition(q))
	s.add("asked", display.Moment(q.GetCreated().AsTime(), a.now()))
	if q.GetDecided() != nil {
		s.add("decided", display.Moment(q.GetDecided().AsTime(), a.now()))
		s.add("by", display.Text(q.GetDecider())+spaced(parens(display.Name(q.GetSurface()))))
		s.add("approver", claimed(q.GetApprover(), q.GetSurface()))
		s.add("note", display.Text(q.GetNote()))
		if q.GetEdited() {
			s.add("arguments", "changed by the approver")
		}
	}
	return s
}

// levelLine describes the proof that an approval needs or needed.
func levelLine(q *pb.Approval) display.Safe {
	switch {
	case q.GetLevel() != levelPresence:
		return ""
	case isOpen(q):
		return "needs your passphrase or a code (presence); denying does not"
	}
	return "needed a passphrase or a code (presence)"
}

// addTraces adds the identifiers by which a question can be found again.
func addTraces(s *sheet, q *pb.Approval) {
	s.add("in the log", display.Name(q.GetCall()))
	s.add("launch", display.Name(q.GetLaunch()))
	s.add("subject", display.Safe(hex.EncodeToString(q.GetSubject())))
}

// showParams prints raw params in full. On a terminal it prints the beginning and how
// many lines are missing.
func (a *app) showParams(params []byte, whole display.Safe) error {
	if len(params) == 0 {
		return nil
	}
	lines := jsonLines("params", params, a.width())
	if rest := len(lines) - 1 - showLines; a.outTerminal && rest > 0 {
		lines = append(lines[:1+showLines], "… "+plural(rest, "more line", "more lines")+"; "+whole)
	}
	return a.printLines(lines)
}

// jsonLines lays out raw JSON in full, below a line with its title and length.
func jsonLines(what display.Safe, raw []byte, columns int) []display.Safe {
	const indent = "  "
	lines := display.Wrap(what+", "+plural(len(raw), "byte", "bytes")+":", columns)
	for line := range strings.SplitSeq(string(display.JSON(raw, behind(len(indent), columns))), "\n") {
		lines = append(lines, indent+display.Safe(line))
	}
	return lines
}

// stateLine describes the state of a question.
func (a *app) stateLine(q *pb.Approval) display.Safe {
	state := stateWord(q)
	switch {
	case isOpen(q):
		return state + ", " + display.Span(q.GetExpires().AsTime().Sub(a.now())) + " left"
	case q.GetDecided() != nil:
		return state + " " + display.Span(a.now().Sub(q.GetDecided().AsTime())) + " ago"
	}
	return state
}

// repetition describes what happens if the agent repeats a parked call.
func (a *app) repetition(q *pb.Approval) display.Safe {
	switch {
	case q.GetGood() != nil && !q.GetSpent() && q.GetGood().AsTime().After(a.now()):
		return "the answer is kept until the agent repeats the call, at most " + display.Span(q.GetGood().AsTime().Sub(a.now()))
	case q.GetGood() != nil && !q.GetSpent():
		return "the agent did not repeat the call in time"
	case isOpen(q) && q.GetParked() && q.GetWaiting() == 0:
		return "the call is parked: the agent was told to repeat it"
	}
	return ""
}

// agentLine names an agent and its session.
func agentLine(agent, session string) display.Safe {
	line := display.Name(agent)
	if session != "" {
		if line != "" {
			line += ", "
		}
		line += "session " + display.Name(session)
	}
	return line
}

// claimed names the approver as reported by a surface that several people use.
func claimed(approver, surface string) display.Safe {
	if approver == "" {
		return ""
	}
	return display.Name(approver) + ", as reported by " + display.Name(surface)
}

// spaced puts a space before s, unless s is empty.
func spaced(s display.Safe) display.Safe {
	if s == "" {
		return ""
	}
	return " " + s
}

// parens puts s into parentheses, unless s is empty.
func parens(s display.Safe) display.Safe {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
