package backend

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// ask is a request of the server that a client has not answered.
type ask struct {
	m      *Member
	id     int64 // the id that the client sees
	method string
	ours   bool   // sent by the pool, not by the server
	key    string // the server's id, as wire.Key returns it
	raw    []byte // the server's id, raw
	token  string // the server's progress token, as wire.Key returns it; may be empty
}

// ask handles a request of the server. mu must be held.
func (in *instance) ask(line []byte, e *wire.Envelope) {
	key := e.Key(line)
	raw := e.ID.Of(line)
	switch {
	case in.asks[key] != nil:
		in.drop("a request of the server with an id that is already open")
		return
	case in.modern:
		in.drop("a request of a server of the modern era")
		return
	case e.Method == "ping":
		in.talk.pushAnswer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, raw))
		return
	case in.greeting == nil || !in.greeting.can(e.Method):
		in.talk.pushAnswer(mcp.RefuseUnread(raw, mcp.CodeUnknownMethod, "Method not found"))
		return
	}
	m := in.asked(line, e)
	if m == nil || len(m.asks) >= maxOpenRequests {
		in.drop("a request of the server that belongs to no client")
		in.talk.pushAnswer(mcp.RefuseUnread(raw, mcp.CodeInternal,
			"The server is shared by several clients, and the client that this request is for is unknown. Send it while exactly one client has an open call."))
		return
	}
	m.lastAsk++
	a := &ask{m: m, id: m.lastAsk, method: e.Method, key: key, raw: bytes.Clone(raw)}
	a.token, _ = wire.Key(e.ProgressToken.Of(line))
	in.asks[key], m.asks[a.id] = a, a
	in.remember(in.elicitations, m, elicitationID(line, e.Params))
	in.splice(m, line, wire.Edit{Span: e.ID, With: strconv.AppendInt(nil, a.id, 10)})
}

// asked returns the client that a request of the server is for, or nil if that can't be determined.
func (in *instance) asked(line []byte, e *wire.Envelope) *Member {
	if id, ok := relatedTask(line, e); ok {
		if t := in.tasks[id]; t != nil {
			return t.owner
		}
		return nil
	}
	if strings.HasPrefix(e.Method, "tasks/") && e.TaskID.Present() {
		id, err := wire.Unquote(e.TaskID, line)
		if err != nil {
			return nil
		}
		return in.clientTasks[id]
	}
	owners := slices.Collect(maps.Keys(in.turns))
	if e.Method == "roots/list" { // it is not about any one client
		if m := in.addressee(owners); m != nil && !m.moving {
			return m
		}
		// All of them have the same roots.
		return in.memberThat(func(m *Member) bool { return m.ready && !m.moving })
	}
	in.suspect(in.turns)
	return in.addressee(owners)
}

// reply handles a client's answer to a request of the server. mu must be held.
func (in *instance) reply(m *Member, line []byte, e *wire.Envelope) {
	a := m.asks[number(e.ID.Of(line))]
	if a == nil || in.talk == nil {
		in.drop("an answer without a request")
		return
	}
	in.forget(a)
	if a.method == "roots/list" && !in.rooting(m, a, line, e) {
		return
	}
	if e.CreatedTask.Present() {
		if id, ok := memberText(line, e.CreatedTask, "taskId"); ok {
			if other := in.clientTasks[id]; other != nil && other != m {
				in.talk.push(mcp.RefuseUnread(a.raw, mcp.CodeInternal, "Another client of the shared server has a task with this id"))
				return
			}
			in.remember(in.clientTasks, m, id)
		}
	}
	if spliced, err := wire.Splice(line, wire.Edit{Span: e.ID, With: a.raw}); err == nil {
		in.talk.push(spliced)
	}
}

func (in *instance) forget(a *ask) {
	if !a.ours {
		delete(in.asks, a.key)
	}
	delete(a.m.asks, a.id)
	in.pump() // calls of a client with open asks go first
}

// remember records the owner of an id. If there are too many, the owner is not recorded, and
// messages for the id are dropped.
func (in *instance) remember(owners map[string]*Member, m *Member, id string) {
	if id != "" && len(owners) < mostClasses {
		owners[id] = m
	}
}

// serverCancels handles a cancellation by the server: of its request, or in the modern era of a
// subscription.
func (in *instance) serverCancels(line []byte, e *wire.Envelope) {
	if in.modern {
		r := in.open[number(e.RequestID.Of(line))]
		if r == nil || r.m == nil || r.method != "subscriptions/listen" {
			in.drop("a cancellation without an open request")
			return
		}
		in.splice(r.m, line, wire.Edit{Span: e.RequestID, With: r.id})
		return
	}
	key, err := wire.Key(e.RequestID.Of(line))
	a := in.asks[key]
	if err != nil || a == nil {
		in.drop("a cancellation without an open request")
		return
	}
	in.forget(a)
	in.splice(a.m, line, wire.Edit{Span: e.RequestID, With: strconv.AppendInt(nil, a.id, 10)})
}

// notification handles a notification of m. mu must be held.
func (in *instance) notification(m *Member, line []byte, e *wire.Envelope) {
	switch e.Method {
	case "notifications/initialized":
		if !in.modern {
			in.initialized(m, line)
			return
		}
	case "notifications/cancelled":
		in.cancel(m, line, e)
		return
	case "notifications/progress":
		s, err := wire.Member(line, e.Params, "progressToken")
		token, keyErr := wire.Key(s.Of(line))
		if err != nil || keyErr != nil || !m.isAsked(token) {
			in.drop("progress without an open request")
			return
		}
	case "notifications/tasks/status":
		if id, err := wire.Unquote(e.TaskID, line); err != nil || in.clientTasks[id] != m {
			in.drop("a notification about an unknown task")
			return
		}
	case "notifications/roots/list_changed":
		if !in.rootsChanged(m) {
			return
		}
	}
	if in.ready {
		in.talk.push(bytes.Clone(line))
	}
}

func (m *Member) isAsked(token string) bool {
	for _, a := range m.asks {
		if a.token == token {
			return true
		}
	}
	return false
}

// memberText returns the string member name of the object at s, or false if there is none.
func memberText(line []byte, s wire.Span, name string) (string, bool) {
	value, err := wire.Member(line, s, name)
	if err != nil {
		return "", false
	}
	text, err := wire.Unquote(value, line)
	return text, err == nil
}
