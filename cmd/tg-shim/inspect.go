package main

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Extensions may want to see what a call comes to. The verdict on the call says so,
// and then its result is submitted before the agent gets it, together with the call
// that it came of. A call that goes on as a task gives its result to whoever asks
// for it later: that is submitted as the call's.

const (
	// mostTasks and mostTaskBytes bound the calls that are kept because they go on
	// as tasks. When there are more the result of a task that is not known any more
	// does not pass.
	mostTasks     = 1024
	mostTaskBytes = 16 << 20
)

// running knows which task is which call, of those whose results extensions want.
type running struct {
	mu    sync.Mutex // guards what follows
	tasks map[string]*call
	order []string // the ids, oldest first
	bytes int
	lost  bool // not all are known any more
}

// note takes note of the task that the result e of c says that c goes on as.
func (t *running) note(c *call, line []byte, e *wire.Envelope) {
	ids := []wire.Span{e.CreatedTaskID}
	if e.CreatedTask.Present() {
		id, err := wire.Member(line, e.CreatedTask, "taskId")
		if err != nil { // nobody knows which of them the agent asks for
			t.mu.Lock()
			t.lost = true
			t.mu.Unlock()
			return
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if name, err := wire.Unquote(id, line); err == nil && id.Present() {
			t.add(name, c)
		}
	}
}

func (t *running) add(id string, c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tasks == nil {
		t.tasks = map[string]*call{}
	}
	if other, ok := t.tasks[id]; ok {
		if other != nil && other != c { // a server that gives an id twice can't be followed
			t.tasks[id] = nil
			t.bytes -= len(other.wrote)
		}
		return
	}
	t.tasks[id] = c
	t.order = append(t.order, id)
	t.bytes += len(c.wrote)
	for len(t.order) > mostTasks || t.bytes > mostTaskBytes {
		if old := t.tasks[t.order[0]]; old != nil {
			t.bytes -= len(old.wrote)
		}
		delete(t.tasks, t.order[0])
		t.order = t.order[1:]
		t.lost = true
	}
}

// of returns the call that goes on as the task. It is nil when extensions do not
// want its result; known is false when nobody can tell.
func (t *running) of(id string) (c *call, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.tasks[id]
	if ok {
		return c, c != nil
	}
	return nil, !t.lost
}

// taskOf is the id of the task that a message is about, empty for none.
func taskOf(e *wire.Envelope, line []byte) string {
	id, err := wire.Unquote(e.TaskID, line)
	if err != nil || !e.TaskID.Present() {
		return ""
	}
	return id
}

// cameOf returns the call whose result the answer e to r is, if extensions want to
// see it; known is false when it can't be told whether they do.
func (p *proxy) cameOf(r *request, line []byte, e *wire.Envelope) (c *call, known bool) {
	if e.Kind != wire.Result || r.side != wire.FromAgent {
		return nil, true
	}
	if r.task != "" {
		return p.running.of(r.task)
	}
	c = p.ledger.judgement(r)
	if c == nil || !c.inspect {
		return nil, true
	}
	p.running.note(c, line, e)
	return c, true
}

// wanted reports whether the daemon must see an answer before the peer does. Of
// errors that is the one by which a server sends a person to a page.
func (p *proxy) wanted(rule mcp.Rule, r *request, line []byte, e *wire.Envelope) bool {
	if e.Kind == wire.Error {
		return r.side == wire.FromAgent && e.Code == mcp.CodeURLRequired
	}
	switch rule.Treatment {
	case mcp.Filter, mcp.Judge:
		return true
	case mcp.Inspect:
		return mcp.Asks(line, e) || mcp.AsksWithin(line, e, r.method)
	}
	return false
}

// toldOf returns the call that goes on as the task of which a server's notification
// tells, as cameOf does.
func (p *proxy) toldOf(side wire.Side, line []byte, e *wire.Envelope) (c *call, known bool) {
	id := taskOf(e, line)
	if side == wire.FromAgent || id == "" {
		return nil, true
	}
	return p.running.of(id)
}

// unknownTask is why what is told of a task does not pass.
const unknownTask = "an extension has to see its result, and nobody knows any more which call it came of"

// withhold gives the agent an error in place of the answer to r.
func (p *proxy) withhold(side wire.Side, line []byte, r *request) error {
	p.refused(side, line, unknownTask)
	p.outcome(r, pb.Outcome_OUTCOME_LOST)
	p.onward(side).insert(mcp.RefuseUnread(r.id, mcp.CodeExtension, "The result is withheld: "+unknownTask))
	return nil
}

// announced returns the answer to r with what the agent is to be told before its
// content. e is what line says, nil where it was not read.
func (p *proxy) announced(r *request, line []byte, e *wire.Envelope) []byte {
	c := p.ledger.judgement(r)
	if c == nil || c.notice == "" {
		return line
	}
	if e == nil {
		e = new(wire.Envelope)
		if wire.Read(line, wire.FromServer, e) != nil {
			return line
		}
	}
	if e.Kind != wire.Result {
		return line
	}
	return mcp.Announce(line, e, c.notice)
}
