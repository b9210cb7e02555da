package backend

import (
	"bytes"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// task is a call that continues as an MCP task. The client that made the call owns it: no other
// client can name it, and messages about it go to the owner.
type task struct {
	owner *Member
	token int64 // of the call that created it
}

const relatedTaskID = "io.modelcontextprotocol/related-task"

// relatedTask returns the id of the task that a message names as its own, or false if it names
// none.
func relatedTask(line []byte, e *wire.Envelope) (string, bool) {
	if !e.Meta.Present() || line[e.Meta.Start] != '{' || !bytes.Contains(e.Meta.Of(line), []byte("related-task")) {
		return "", false
	}
	s, err := wire.Member(line, e.Meta, relatedTaskID)
	if err != nil {
		return "", true // belongs to no task
	}
	if !s.Present() {
		return "", false
	}
	id, _ := memberText(line, s, "taskId")
	return id, true
}

// createdTask records the owner of a task that the answer to r creates. An id that has an owner
// keeps it.
func (in *instance) createdTask(r *request, line []byte, e *wire.Envelope) {
	var id string
	switch {
	case strings.HasPrefix(r.method, "tasks/"):
		return
	case e.CreatedTask.Present():
		id, _ = memberText(line, e.CreatedTask, "taskId")
	case e.CreatedTaskID.Present():
		id, _ = wire.Unquote(e.CreatedTaskID, line)
	}
	if id == "" || in.tasks[id] != nil {
		return
	}
	m := r.m
	if len(m.tasks) >= mostTasks {
		in.forgetTask(m.tasks[0])
		m.tasks = slices.Delete(m.tasks, 0, 1)
	}
	m.tasks = append(m.tasks, id)
	in.tasks[id] = &task{m, r.number}
}

func (in *instance) forgetTask(id string) {
	if t := in.tasks[id]; t != nil {
		delete(in.tokens, t.token)
		delete(in.tasks, id)
	}
}

// tokenOfTask reports whether the progress token of a call now belongs to a task.
func (in *instance) tokenOfTask(number int64) bool {
	t := in.tokens[number]
	if t == nil || t.m == nil || len(t.m.tasks) == 0 {
		return false
	}
	last := in.tasks[t.m.tasks[len(t.m.tasks)-1]]
	return last != nil && last.token == number
}

// ownTasks returns the edits that remove the tasks of other clients from a list of tasks.
func (in *instance) ownTasks(r *request, line []byte, e *wire.Envelope) []wire.Edit {
	if r.method != "tasks/list" {
		return nil
	}
	list, err := wire.Member(line, e.Result, "tasks")
	if err != nil || !list.Present() {
		return nil
	}
	items, err := wire.Elements(line, list)
	if err != nil {
		return []wire.Edit{{Span: list, With: []byte("[]")}}
	}
	return items.Cut(func(i int) bool {
		id, ok := memberText(line, items[i], "taskId")
		t := in.tasks[id]
		return !ok || t == nil || t.owner != r.m
	})
}

// taskNews delivers a notification about a task to its owner.
func (in *instance) taskNews(line []byte, e *wire.Envelope) {
	id, err := wire.Unquote(e.TaskID, line)
	t := in.tasks[id]
	if err != nil || t == nil {
		in.drop("a notification about an unknown task")
		return
	}
	in.deliver(t.owner, line)
}

// elicitationID returns the id of a page that a person is asked to visit, or "".
func elicitationID(line []byte, s wire.Span) string {
	if !s.Present() || !bytes.Contains(s.Of(line), []byte("elicitationId")) {
		return ""
	}
	id, _ := memberText(line, s, "elicitationId")
	return id
}

// expectPages records that an error sends m to pages.
func (in *instance) expectPages(m *Member, line []byte, e *wire.Envelope) {
	data, err := wire.Member(line, e.Error, "data")
	if err != nil || !data.Present() || line[data.Start] != '{' {
		return
	}
	list, err := wire.Member(line, data, "elicitations")
	if err != nil || !list.Present() {
		return
	}
	items, _ := wire.Elements(line, list)
	for _, item := range items {
		if line[item.Start] == '{' {
			in.remember(in.elicitations, m, elicitationID(line, item))
		}
	}
}

// pageDone delivers a notification about a page to the client that showed it.
func (in *instance) pageDone(line []byte, e *wire.Envelope) {
	id := elicitationID(line, e.Params)
	m := in.elicitations[id]
	if id == "" || m == nil {
		in.drop("a notification about an unknown page")
		return
	}
	delete(in.elicitations, id)
	in.deliver(m, line)
}
