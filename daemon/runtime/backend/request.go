package backend

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// request is one request to the server, from its arrival to its answer.
type request struct {
	number int64   // its id at the server, and its progress token
	owner  uint64  // number of the member; 0 for a request of the pool
	m      *Member // nil if no client waits for the answer any more
	key    string  // the client's id, as wire.Key returns it
	id     []byte  // the client's id, raw
	method string
	line   []byte // as sent to the server; nil after that
	size   int    // of line
	since  time.Time

	class     string // by which the pool learns whether such calls ask; empty if it takes no turn
	exclusive bool   // runs only while no other client's call does
	sent      bool
	counted   bool // in busy
	cancelled bool
	settled   time.Time // when a cancelled request counts as settled

	// done, if set, gets the answer instead of the client.
	done func(line []byte, e *wire.Envelope)
	// swallow, if set, gets the answer that the client would get.
	swallow func(answer []byte)
	// then, if set, is called with whether the server answered with a result.
	then func(ok bool)
}

// token is a client's progress token.
type token struct {
	m    *Member
	text []byte // raw
}

// request handles a request of m. mu must be held.
func (in *instance) request(m *Member, line []byte, e *wire.Envelope) {
	key := e.Key(line)
	if m.open[key] != nil { // an error would look like the answer to the first request
		in.drop("a request with an id that is already open")
		return
	}
	r := &request{owner: m.number, m: m, key: key, id: bytes.Clone(e.ID.Of(line)), method: e.Method, since: time.Now()}
	if refusal := in.refuses(m, r, line, e); refusal != nil {
		in.deliver(m, refusal)
		return
	}
	m.open[key] = r
	if !e.Modern && !in.modern {
		switch e.Method {
		case "initialize":
			in.initialize(r, line, e)
			return
		case "logging/setLevel":
			in.setLevel(r, line, e)
			return
		case "resources/subscribe":
			in.subscribe(r, line, e)
			return
		case "resources/unsubscribe":
			in.unsubscribe(r, line, e)
			return
		}
		r.class = in.classOf(line, e)
	}
	in.send(r, line, e)
}

// refuses returns the error for a request that is not sent to the server, or nil.
func (in *instance) refuses(m *Member, r *request, line []byte, e *wire.Envelope) []byte {
	switch {
	case in.failed != nil:
		return mcp.RefuseUnread(r.id, in.failedCode(), in.failedText())
	case len(m.open)+m.cancelled >= maxOpenRequests:
		return mcp.RefuseUnread(r.id, mcp.CodeGate, fmt.Sprintf("more than %d requests are open", maxOpenRequests))
	case m.waiting+len(line) > mostBytes && m.waiting > 0:
		return mcp.RefuseUnread(r.id, mcp.CodeGate, "too much data waits for the shared MCP server")
	case !e.Modern && !in.modern && m.hello == "" && !m.coming && e.Method != "initialize" && e.Method != "server/discover" && e.Method != "ping":
		return mcp.RefuseUnread(r.id, mcp.CodeInvalid, "the handshake has not been made")
	case e.TaskID.Present() && strings.HasPrefix(e.Method, "tasks/"):
		id, err := wire.Unquote(e.TaskID, line)
		if t := in.tasks[id]; err != nil || t == nil || t.owner != m {
			return mcp.RefuseUnread(r.id, mcp.CodeInvalidParams, "Task not found")
		}
	}
	return nil
}

// send queues a client's request for the server, with an id of the pool and edits applied. mu must
// be held.
func (in *instance) send(r *request, line []byte, e *wire.Envelope, edits ...wire.Edit) {
	r.number = in.pool.last.Add(1)
	number := strconv.AppendInt(nil, r.number, 10)
	edits = append(edits, wire.Edit{Span: e.ID, With: number})
	if e.ProgressToken.Present() {
		edits = append(edits, wire.Edit{Span: e.ProgressToken, With: number})
		if in.tokens[r.number] == nil {
			in.tokens[r.number] = &token{r.m, bytes.Clone(e.ProgressToken.Of(line))}
		}
	}
	spliced, err := wire.Splice(line, edits...)
	if err != nil { // can't happen: spans of one line do not overlap
		delete(in.tokens, r.number)
		in.answer(r, mcp.RefuseUnread(r.id, mcp.CodeInternal, err.Error()))
		return
	}
	in.enqueue(r, spliced)
}

// enqueue queues r for the server. mu must be held.
func (in *instance) enqueue(r *request, line []byte) {
	r.line, r.size = line, len(line)
	if r.m != nil {
		r.m.waiting += r.size
	}
	in.waiting = append(in.waiting, r)
	in.pump()
	if !r.sent {
		in.wake() // to set its timeout
	}
}

// own sends a request of the pool to the server. done gets the answer. mu must be held.
func (in *instance) own(t *talk, method, params string, done func(line []byte, e *wire.Envelope)) {
	r := &request{number: in.pool.last.Add(1), method: method, sent: true, done: done}
	in.open[r.number] = r
	t.push(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, r.number, method, params))
}

// pump sends the requests that may be sent. mu must be held.
func (in *instance) pump() {
	if !in.ready || in.talk == nil {
		return
	}
	blocked := false
	kept := in.waiting[:0]
	for _, r := range in.waiting {
		if r.m != nil && r.m.held {
			kept = append(kept, r)
			continue
		}
		if r.class != "" && !in.admits(r, blocked) {
			blocked = true
			kept = append(kept, r)
			continue
		}
		in.pass(r)
	}
	clear(in.waiting[len(kept):])
	in.waiting = kept
}

// pass sends r. mu must be held.
func (in *instance) pass(r *request) {
	if r.m != nil {
		r.m.waiting -= r.size
	}
	if in.first == 0 {
		in.first = r.owner
	}
	in.many = in.many || in.first != r.owner
	r.sent = true
	in.open[r.number] = r
	if r.method != "subscriptions/listen" { // which stays open as long as its client
		in.busy[r.owner]++
		r.counted = true
	}
	if r.class != "" {
		in.takeTurn(r)
	}
	in.talk.push(r.line)
	r.line = nil
}

// answer delivers line to the client as the answer to r, which is then not open any more. mu must
// be held.
func (in *instance) answer(r *request, line []byte) {
	if r.m == nil {
		return
	}
	if other := r.m.open[r.key]; other == r {
		delete(r.m.open, r.key)
	} else if other != nil { // the id is in use again
		in.drop("a late answer")
		return
	}
	if r.swallow != nil {
		r.swallow(line)
		return
	}
	in.deliver(r.m, line)
}

// answerWith answers r with an answer of the server that has its id at span.
func (in *instance) answerWith(r *request, line []byte, span wire.Span, edits ...wire.Edit) {
	spliced, err := wire.Splice(line, append(edits, wire.Edit{Span: span, With: r.id})...)
	if err != nil {
		spliced = mcp.RefuseUnread(r.id, mcp.CodeInternal, err.Error())
	}
	in.answer(r, spliced)
}

// succeed answers r with an empty result.
func (in *instance) succeed(r *request) {
	in.answer(r, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, r.id))
}

// cancel handles a notification of m that cancels one of its requests. mu must be held.
func (in *instance) cancel(m *Member, line []byte, e *wire.Envelope) {
	key, err := wire.Key(e.RequestID.Of(line))
	r := m.open[key]
	if err != nil || r == nil || r.method == "initialize" {
		in.drop("a cancellation without an open request")
		return
	}
	delete(m.open, key)
	if !in.withdraw(r) {
		in.pump()
		return
	}
	spliced, err := wire.Splice(line, wire.Edit{Span: e.RequestID, With: strconv.AppendInt(nil, r.number, 10)})
	if err == nil && in.talk != nil {
		in.talk.push(spliced)
	}
}

// unqueue removes r from the waiting requests. mu must be held.
func (in *instance) unqueue(r *request) {
	in.waiting = slices.DeleteFunc(in.waiting, func(other *request) bool { return other == r })
	if r.m != nil {
		r.m.waiting -= r.size
	}
}

// withdraw marks r as cancelled, and reports whether the server must be notified. mu must be held.
func (in *instance) withdraw(r *request) bool {
	r.cancelled = true
	delete(in.tokens, r.number)
	if !r.sent {
		in.unqueue(r)
		return false
	}
	if r.done != nil { // other clients may wait for it too
		return false
	}
	r.settled = time.Now().Add(in.options.Settle)
	in.cancelled = append(in.cancelled, r)
	if r.m != nil {
		r.m.cancelled++
	}
	in.wake()
	return true
}

// settle marks that messages of the server are not caused by r any more. mu must be held.
func (in *instance) settle(r *request) {
	if r.cancelled && r.counted && r.m != nil {
		r.m.cancelled--
	}
	if r.counted {
		r.counted = false
		if in.busy[r.owner]--; in.busy[r.owner] == 0 {
			delete(in.busy, r.owner)
		}
	}
	in.endTurn(r)
}

// mostClasses is how many classes are remembered. When it is reached, all are forgotten.
const mostClasses = 4096

// class is what is known about calls of one kind, usually of one tool.
type class uint8

const (
	unknown class = iota
	quiet         // has answered without asking the client
	asking        // has asked the client, or may have
)

// turn counts the open calls of one client that may make the server ask.
type turn struct {
	exclusive int
	all       int
}

// classOf returns the key under which the pool learns whether such requests of the legacy era make
// the server ask. It is empty for a request that takes no turn since it is assumed not to: one that
// lists, completes, logs, or follows a task, in which the server's requests name the task.
func (in *instance) classOf(line []byte, e *wire.Envelope) string {
	if in.greeting == nil || !in.greeting.asks {
		return ""
	}
	switch e.Method {
	case "ping", "server/discover", "completion/complete", "tools/list", "resources/list", "resources/templates/list",
		"prompts/list", "skills/list", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel":
		return ""
	case "tools/call", "prompts/get":
		if name, err := wire.Unquote(e.Name, line); err == nil {
			return e.Method + " " + name
		}
	}
	return e.Method
}

// admits reports whether r may be sent now. blocked reports that an earlier call waits. mu must be
// held.
func (in *instance) admits(r *request, blocked bool) bool {
	r.exclusive = in.classes[r.class] != quiet
	if time.Since(r.since) >= in.options.Turn {
		return true
	}
	if blocked && (r.m == nil || len(r.m.asks) == 0 || in.turns[r.owner].exclusive == 0) {
		return false // but a client with an open ask may need the server in order to answer
	}
	for owner, t := range in.turns {
		if owner != r.owner && (r.exclusive || t.exclusive > 0) {
			return false
		}
	}
	return true
}

func (in *instance) takeTurn(r *request) {
	t := in.turns[r.owner]
	t.all++
	if r.exclusive {
		t.exclusive++
	}
	in.turns[r.owner] = t
}

// endTurn ends the turn of r, if it has one. mu must be held.
func (in *instance) endTurn(r *request) {
	if r.class == "" || !r.sent {
		return
	}
	t := in.turns[r.owner]
	t.all--
	if r.exclusive {
		t.exclusive--
	}
	in.turns[r.owner] = t
	if t.all <= 0 {
		delete(in.turns, r.owner)
	}
	r.class = ""
}

// learn records whether calls of a class make the server ask.
func (in *instance) learn(name string, c class) {
	if name == "" || in.classes[name] == asking {
		return
	}
	if len(in.classes) >= mostClasses {
		clear(in.classes)
	}
	in.classes[name] = c
}

// suspect records that the server has asked while calls of these clients were open. The suspects
// are those calls not known to be quiet, or all calls if all are quiet.
func (in *instance) suspect(owners map[uint64]turn) {
	all := true
	for _, r := range in.open {
		if _, ok := owners[r.owner]; ok && r.class != "" && in.classes[r.class] != quiet {
			all = false
		}
	}
	for _, r := range in.open {
		if _, ok := owners[r.owner]; ok && r.class != "" && (all || in.classes[r.class] != quiet) {
			in.learn(r.class, asking)
		}
	}
}
