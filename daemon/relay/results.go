package relay

import (
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// unknownTask is why a message about a task is not forwarded.
const unknownTask = "an extension must see the result, and the call that it belongs to is no longer known"

// taskOf returns the id of the task that a message is about, empty for none.
func taskOf(e *wire.Envelope, line []byte) string {
	id, err := wire.Unquote(e.TaskID, line)
	if err != nil || !e.TaskID.Present() {
		return ""
	}
	return id
}

// callOf returns the call whose result the answer e to r is, if extensions want to see it.
// known is false if it is not known whether they do.
func (t *turn) callOf(r *request, line []byte, e *wire.Envelope) (call *origin, known bool) {
	switch {
	case e.Kind != wire.Result || r.side != fromAgent:
		return nil, true
	case r.task != "":
		return t.state.tasks.of(r.task)
	case !r.inspect:
		return nil, true
	}
	call = &origin{r.seq, r.sentLine}
	t.goesOn(call, line, e)
	return call, true
}

// goesOn remembers the tasks as which, according to the result e, call continues.
func (t *turn) goesOn(call *origin, line []byte, e *wire.Envelope) {
	ids := []wire.Span{e.CreatedTaskID}
	if e.CreatedTask.Present() {
		id, err := wire.Member(line, e.CreatedTask, "taskId")
		if err != nil { // it is not clear which of them the agent will ask for
			t.add(&became{lost: true})
			return
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if name, err := wire.Unquote(id, line); err == nil && id.Present() {
			t.add(&became{task: name, call: *call})
		}
	}
}

// isJudged reports whether an answer must be judged. The only judged error is the one by which
// a server sends the user to a page.
func isJudged(rule mcp.Rule, r *request, line []byte, e *wire.Envelope) bool {
	if e.Kind == wire.Error {
		return r.side == fromAgent && e.Code == mcp.CodeURLRequired
	}
	switch rule.Treatment {
	case mcp.Filter, mcp.Judge:
		return true
	case mcp.Inspect:
		return mcp.Asks(line, e) || mcp.AsksWithin(line, e, r.method)
	}
	return false
}

// setOrigin sets the call behind a line; nil if no extension wants to see it.
func (w *waiting) setOrigin(call *origin) {
	if call != nil {
		w.about, w.request = call.seq, call.sentLine
	}
}

// announced returns line, the answer to a request, with the notice for the agent before its
// content.
func (w *waiting) announced(line []byte) []byte {
	var e wire.Envelope
	if w.notice == "" || wire.Read(line, fromServer, &e) != nil || e.Kind != wire.Result {
		return line
	}
	return mcp.Announce(line, &e, w.notice)
}

// refused returns what the requester gets in place of a denied answer.
func (w *waiting) refused(v gate.Verdict) []byte {
	if v.Answer != nil {
		return v.Answer
	}
	return mcp.RefuseUnread(w.id, mcp.CodeGate, "the answer was denied: "+v.Reason)
}

// outcomeOf returns the outcome of a call with this answer.
func outcomeOf(e *wire.Envelope) string {
	switch {
	case e.Kind == wire.Error:
		return "protocol_error"
	case e.IsError:
		return "tool_error"
	}
	return "ok"
}

// outcome has the outcome of a judged request recorded when its answer has been written.
func (t *turn) outcome(r *request, outcome string) {
	if r.seq > 0 {
		t.gate.CloseCall(r.seq, outcome)
		t.add(&ended{r.seq, outcome})
	}
}
