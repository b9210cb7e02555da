package phone

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Limits of the texts of a message. A push service may carry 4,000 bytes with the buttons, so there is room for
// escapes.
const (
	maxTitle  = 72   // columns
	maxLine   = 160  // columns of a line that is not about values
	maxValues = 1000 // bytes of the values
	maxText   = 1800 // bytes of all
)

// What a button does, as the first word of the answer that it publishes.
const (
	pressApprove = "approve"
	pressDeny    = "deny"
	pressShow    = "show"
)

// Priorities of ntfy.
const (
	priorityMin    = 1 // only in the list
	priorityLow    = 2 // without a sound
	priorityNormal = 3
	priorityHigh   = 4
)

// messageOf returns the message about a question, of normal priority. w is the question's workflow, nil if
// there is none any more. It depends on the time only as far as a date does.
func (p *phone) messageOf(c *card, w *pb.PolicyWorkflow) *message {
	m := &message{Topic: p.s.Topic, Sequence: p.s.sequence(c.ID, c.Subject), Priority: priorityNormal}
	if !c.open() {
		m.Title, m.Message = string(display.Name(c.ID)), string(endLine(c.q))
		if c.late != "" {
			m.Title = "Too late to " + string(c.late) + " " + m.Title
		}
		return m
	}
	t := p.textOf(c)
	id, show := display.Name(c.ID), "tgctl approvals show "+display.Name(c.ID)
	approve := false
	switch {
	case t.login != "":
		t.add("Nobody can approve this. Log in, in a terminal: " + t.login)
	case c.q.GetLevel() == approval.LevelPresence || w.GetRequire() == approval.LevelPresence:
		t.add("Approval needs your passphrase or a code, in a terminal: tgctl approvals approve " + id)
	case !slices.Contains(w.GetSurfaces(), surface):
		t.add("To approve it, use a terminal: " + show)
	case !t.values:
		t.add("Its arguments are not sent, so it is approved in a terminal: " + show)
	case t.cut:
		t.add("Too long to approve here: " + show)
	default:
		approve = true
	}
	m.Title, m.Message = string(t.title), strings.Join(t.lines, "\n")
	if approve {
		m.Actions = append(m.Actions, p.button("Approve", pressApprove, c))
	}
	m.Actions = append(m.Actions, p.button("Deny", pressDeny, c))
	if !c.detail {
		m.Actions = append(m.Actions, p.button("Show", pressShow, c))
	}
	return m
}

// button returns a button of a question.
func (p *phone) button(label, verb string, c *card) action {
	return p.s.button(label, verb, c.ID, c.Subject)
}

// button returns a button that publishes an answer, once. The phone has no use for what it publishes, so the server
// is asked not to push that any further.
func (s *settings) button(label, verb, id string, subject []byte) action {
	return action{
		Action: "http", Label: label, URL: s.Server + "/" + s.Answers, Method: "POST", Headers: map[string]string{"X-Firebase": "no"},
		Body: verb + " " + id + " " + s.code(verb, id, subject), Clear: verb != pressShow,
	}
}

// text is the text about a question.
type text struct {
	title  display.Safe
	lines  []string
	login  display.Safe // the command that answers it, if it asks for a login
	values bool         // it has the values of the call
	cut    bool         // a part of it is left out
}

// add appends a line that is not cut.
func (t *text) add(line display.Safe) {
	if line != "" {
		t.lines = append(t.lines, string(line))
	}
}

// fit appends a line, or as much of it as there is room for.
func (t *text) fit(line display.Safe) { t.add(t.shortened(line, maxLine)) }

func (t *text) shortened(s display.Safe, columns int) display.Safe {
	short := display.Fit(s, columns)
	t.cut = t.cut || short != s
	return short
}

// textOf describes an open question. Without values it says nothing that follows from the arguments.
func (p *phone) textOf(c *card) *text {
	q := c.q
	t := &text{values: p.s.Values && !c.plain, login: approval.LoginCommand(q)}
	t.title = t.shortened(display.Name(c.ID)+": "+callOf(q, t.values)+" on "+display.Name(q.GetServer()), maxTitle)
	if c.problem != "" {
		t.add("Nothing was decided: " + display.Fit(c.problem, maxLine))
	}
	if t.values {
		t.addValues(approval.ShownParams(q), q.GetArgumentsBytes() != 0)
	}
	t.fit(approval.Because(q))
	for _, fact := range q.GetFacts() {
		if c.detail || t.values || approval.IsGrave(fact) {
			t.fit(ui.Choose(t.values, approval.FactText(fact), approval.FactWords(fact)))
		}
	}
	if c.detail {
		t.fit("workflow: " + display.Name(q.GetWorkflow()))
		t.fit("session: " + ui.OrDash(q.GetSession()))
		t.fit("asked: " + display.Time(q.GetCreated().AsTime(), p.o.Now()))
	}
	t.fit(ui.Choose(approval.MovedOn(q), approval.WhenMovedOn, ""))
	t.fit("asked by " + ui.OrDash(q.GetAgent()) + "; subject " + approval.ShortSubject(q.GetSubject()) + ", until " + display.Time(q.GetExpires().AsTime(), p.o.Now()))
	for len(strings.Join(t.lines, "\n")) > maxText {
		t.lines, t.cut = t.lines[:len(t.lines)-1], true
	}
	return t
}

// addValues appends the values of a call. beginning is whether params are only their beginning.
func (t *text) addValues(params []byte, beginning bool) {
	if len(params) == 0 {
		return
	}
	all := display.JSON(params, 0)
	if beginning || len(all) > maxValues || strings.Contains(string(all), "…") { // in text from outside it is escaped
		t.cut, all = true, display.JSONLine(params, maxLine, "")
	}
	t.add(all)
}

// callOf names what is called. A URI is a value.
func callOf(q *pb.Approval, values bool) display.Safe {
	if values || isNamed(q.GetMethod()) {
		return ui.CallName(q.GetMethod(), q.GetTool())
	}
	return display.Name(q.GetMethod())
}

// isNamed reports whether calls of a method are about something that a server has named.
func isNamed(method string) bool { return method == ui.ToolCall || method == "prompts/get" }

// endLine says how a question ended, without its note, which may have been typed about a value.
func endLine(q *pb.Approval) display.Safe {
	short := &pb.Approval{Id: q.GetId(), State: q.GetState(), Method: q.GetMethod(), Decider: q.GetDecider(), Surface: q.GetSurface(), Approver: q.GetApprover()}
	if isNamed(q.GetMethod()) {
		short.Tool = q.GetTool()
	}
	return approval.EndLine(short)
}

// summaryOf returns the message about questions that have no message of their own.
func (p *phone) summaryOf(n int) *message {
	m := &message{Topic: p.s.Topic, Sequence: p.s.sequence("summary", nil), Priority: priorityNormal}
	m.Title, m.Message = string(ui.Plural(n, "more question waits", "more questions wait")), "Answer them in a terminal: tgctl queue"
	if n == 0 {
		m.Title, m.Message, m.Priority = "No more questions wait", "They have ended, or have a message of their own.", priorityMin
	}
	return m
}
