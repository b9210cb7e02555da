package relay

import (
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// unknownTask is why what is told of a task does not pass.
const unknownTask = "an extension has to see its result, and nobody knows any more which call it came of"

// taskOf is the id of the task that a message is about, empty for none.
func taskOf(e *wire.Envelope, line []byte) string {
	id, err := wire.Unquote(e.TaskID, line)
	if err != nil || !e.TaskID.Present() {
		return ""
	}
	return id
}

// callOf returns the call whose result the answer e to r is, if extensions want to
// see it; known is false when it can't be told whether they do.
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

// goesOn takes note of the task that the result e of call says that it goes on as.
func (t *turn) goesOn(call *origin, line []byte, e *wire.Envelope) {
	ids := []wire.Span{e.CreatedTaskID}
	if e.CreatedTask.Present() {
		id, err := wire.Member(line, e.CreatedTask, "taskId")
		if err != nil { // nobody knows which of them the agent asks for
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

// isJudged reports whether an answer has to be judged. Of errors that is the one by
// which a server sends a person to a page.
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

// setOrigin notes what a line came of, nil for nothing that anybody wants to see.
func (w *waiting) setOrigin(call *origin) {
	if call != nil {
		w.about, w.request = call.seq, call.sentLine
	}
}

// announced returns line, which answers a request, with what the agent is to be told
// before its content.
func (w *waiting) announced(line []byte) []byte {
	var e wire.Envelope
	if w.notice == "" || wire.Read(line, fromServer, &e) != nil || e.Kind != wire.Result {
		return line
	}
	return mcp.Announce(line, &e, w.notice)
}

// refused is what whoever asked gets in place of an answer that was refused.
func (w *waiting) refused(v gate.Verdict) []byte {
	if v.Answer != nil {
		return v.Answer
	}
	return mcp.RefuseUnread(w.id, mcp.CodeGate, "the answer was refused: "+v.Reason)
}

// outcomeOf is what an answer is to a call.
func outcomeOf(e *wire.Envelope) string {
	switch {
	case e.Kind == wire.Error:
		return "protocol_error"
	case e.IsError:
		return "tool_error"
	}
	return "ok"
}

// outcome has put on record what came of a judged request, once its answer was
// written.
func (t *turn) outcome(r *request, outcome string) {
	if r.seq > 0 {
		t.gate.Ended(r.seq, outcome)
		t.add(&ended{r.seq, outcome})
	}
}
