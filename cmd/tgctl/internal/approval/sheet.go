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
	s.AddIn(ui.ToneOf(StateWord(q)), "question", display.Name(q.GetId())+", "+StateLine(q, now))
	AddCore(s, q, now)
	AddContext(s, q, now)
	return s
}

// AddCore adds what a person decides by: the call, why it is asked about, what is dangerous about it, and
// what an approval does.
func AddCore(s *ui.Sheet, q *pb.Approval, now time.Time) {
	s.AddIn(display.Strong, "call", display.Name(q.GetMethod())+ui.Spaced(display.Name(q.GetTool())))
	s.Add("server", display.Name(q.GetServer()))
	s.Add("agent", ui.AgentLine(q.GetAgent(), q.GetSession()))
	s.AddIn(display.Warn, "machine", Machine(q))
	s.AddIn(display.Held, "because", display.Text(q.GetReason()))
	for _, fact := range q.GetFacts() {
		s.AddIn(display.Warn, "fact", FactText(fact))
	}
	s.Add("if approved", ifApproved(q))
	s.Add("approval", LevelLine(q))
	s.Add("repetition", repetition(q, now))
}

// AddContext adds where a question comes from, and how it ended.
func AddContext(s *ui.Sheet, q *pb.Approval, now time.Time) {
	s.Add("asked by", display.Text(q.GetRule()))
	s.Add("workflow", display.Name(q.GetWorkflow()))
	s.Add("asked", ui.When(q.GetCreated().AsTime(), now))
	if q.GetDecided() != nil {
		s.Add("decided", ui.When(q.GetDecided().AsTime(), now))
		s.Add("by", answeredBy(q))
		s.Add("note", display.Text(q.GetNote()))
		s.Add("arguments", ui.Choose(q.GetEdited(), "changed by the approver", ""))
	}
}

// ifApproved says what the approval of a waiting question does.
func ifApproved(q *pb.Approval) display.Safe {
	to := ui.Choose(q.GetServer() != "", " to "+display.Name(q.GetServer()), "")
	switch {
	case !IsOpen(q):
		return ""
	case MovedOn(q):
		return WhenMovedOn
	case q.GetOnlyColleagues():
		return "only a colleague can approve it; you can deny it"
	case q.GetDevice() != "":
		return "signs an approval of exactly this call, once; it is executed on the other machine"
	case q.GetWaiting() > 1:
		return "forwards the oldest of " + display.Count(q.GetWaiting()) + " equal calls" + to + ", once"
	}
	return "forwards exactly this call" + to + ", once"
}

// Machine names the machine on which the call would be executed, if it is another one.
func Machine(q *pb.Approval) display.Safe {
	if q.GetDevice() == "" {
		return ""
	}
	return "another one of your fleet, " + display.Name(q.GetDevice())
}

// LevelLine describes the proof that an approval needs or needed.
func LevelLine(q *pb.Approval) display.Safe {
	switch {
	case q.GetLevel() == LevelPresence && q.GetOnlyColleagues() && IsOpen(q):
		return "needs a security key that the colleague touches"
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
		return state + " " + ui.Ago(q.GetDecided().AsTime(), now)
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
	}
	return ""
}
