package approval

import (
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Sheet lists what a person needs to judge a question, except its params.
func Sheet(q *pb.Approval, now time.Time) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("question", display.Name(q.GetId())+", "+StateLine(q, now))
	s.Add("call", display.Name(q.GetMethod())+ui.Spaced(display.Name(q.GetTool())))
	s.Add("server", display.Name(q.GetServer()))
	s.Add("agent", ui.AgentLine(q.GetAgent(), q.GetSession()))
	s.Add("because", display.Text(q.GetReason()))
	s.Add("asked by", display.Text(q.GetRule()))
	s.Add("workflow", display.Name(q.GetWorkflow()))
	s.Add("approval", LevelLine(q))
	for _, fact := range q.GetFacts() {
		s.Add("fact", display.Text(fact))
	}
	s.Add("equal calls", ui.Choose(q.GetWaiting() > 1, ui.Plural(q.GetWaiting(), "waits", "wait")+"; approval forwards the oldest", ""))
	s.Add("repetition", repetition(q, now))
	s.Add("asked", display.Moment(q.GetCreated().AsTime(), now))
	if q.GetDecided() != nil {
		s.Add("decided", display.Moment(q.GetDecided().AsTime(), now))
		s.Add("by", display.Text(q.GetDecider())+ui.Spaced(ui.Parens(display.Name(q.GetSurface()))))
		s.Add("approver", ui.Claimed(q.GetApprover(), q.GetSurface()))
		s.Add("note", display.Text(q.GetNote()))
		s.Add("arguments", ui.Choose(q.GetEdited(), "changed by the approver", ""))
	}
	return s
}

// LevelLine describes the proof that an approval needs or needed.
func LevelLine(q *pb.Approval) display.Safe {
	switch {
	case q.GetLevel() != LevelPresence:
		return ""
	case IsOpen(q):
		return "needs your passphrase or a code (presence); denying does not"
	}
	return "needed a passphrase or a code (presence)"
}

// StateLine describes the state of a question.
func StateLine(q *pb.Approval, now time.Time) display.Safe {
	state := StateWord(q)
	switch {
	case IsOpen(q):
		return state + ", " + display.Span(q.GetExpires().AsTime().Sub(now)) + " left"
	case q.GetDecided() != nil:
		return state + " " + display.Span(now.Sub(q.GetDecided().AsTime())) + " ago"
	}
	return state
}

// repetition describes what happens if the agent repeats a parked call.
func repetition(q *pb.Approval, now time.Time) display.Safe {
	switch {
	case q.GetGood() != nil && !q.GetSpent() && q.GetGood().AsTime().After(now):
		return "the answer is kept until the agent repeats the call, at most " + display.Span(q.GetGood().AsTime().Sub(now))
	case q.GetGood() != nil && !q.GetSpent():
		return "the agent did not repeat the call in time"
	case IsOpen(q) && q.GetParked() && q.GetWaiting() == 0:
		return "the call is parked: the agent was told to repeat it"
	}
	return ""
}
