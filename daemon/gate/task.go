package gate

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostTasks is how many tasks of one attachment are remembered.
const mostTasks = 1024

// tasks knows which tool runs as which task, so that what is said to a task is
// judged as a call of that tool. The attachment's mutex guards it.
type tasks struct {
	tools map[string]string // by the task's id
	order []string          // the ids, oldest first
}

// runs takes note of a result by which a server says that a call goes on as a
// task.
func (a *Attachment) runs(c *Call) {
	if c.Envelope.Kind != wire.Result || !c.Envelope.CreatedTaskID.Present() {
		return
	}
	id, err := wire.Unquote(c.Envelope.CreatedTaskID, c.Line)
	a.mu.Lock()
	defer a.mu.Unlock()
	call, ok := a.done[c.Answers]
	if err != nil || !ok || call.method != "tools/call" {
		return
	}
	t := &a.tasks
	if t.tools == nil {
		t.tools = map[string]string{}
	}
	if _, ok := t.tools[id]; ok { // a server that gives an id twice can't be followed
		delete(t.tools, id)
		return
	}
	t.tools[id] = call.subject
	if t.order = append(t.order, id); len(t.order) > mostTasks {
		delete(t.tools, t.order[0])
		t.order = slices.Delete(t.order, 0, 1)
	}
}

// subjectOf is the Subject of a call that was judged here or by an earlier daemon,
// empty when it is not known.
func (a *Attachment) subjectOf(seq uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, ok := a.done[seq]; ok {
		return d.subject
	}
	return a.earlier[seq].Tool
}
