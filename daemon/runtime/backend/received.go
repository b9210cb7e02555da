package backend

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// handleServerLine handles one line that the server wrote to t.
func (in *instance) handleServerLine(t *talk, l *wire.Line) {
	var e wire.Envelope
	err := error(nil)
	if l.Refusal != nil {
		err = l.Refusal
	} else {
		err = wire.Read(l.Data, wire.FromServer, &e)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.talk != t {
		return
	}
	if err != nil {
		in.unreadable(l, err)
		return
	}
	switch e.Kind {
	case wire.Request:
		in.ask(l.Data, &e)
	case wire.Notification:
		in.announce(l.Data, &e)
	default:
		in.answered(l.Data, &e)
	}
}

// unreadable handles a line that can't be forwarded. If it is the answer to a request, the request
// is answered with an error.
func (in *instance) unreadable(l *wire.Line, err error) {
	in.drop("an unreadable line")
	id := l.ID
	if l.TooLong && !l.Answers {
		return
	}
	if refusal, ok := err.(*wire.Refusal); ok && refusal.ID.Present() && !refusal.Answer {
		id = refusal.ID.Of(l.Data)
	}
	if r := in.open[number(id)]; r != nil {
		in.fail(r, mcp.CodeGate, "The answer of the shared MCP server was refused: "+err.Error())
	}
}

// number returns the pool's own id in a raw id, or 0 if it is not one.
func number(id []byte) int64 {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// answered handles an answer of the server. mu must be held.
func (in *instance) answered(line []byte, e *wire.Envelope) {
	if !e.ID.Present() { // an error about no request in particular
		if m := in.addressee(in.busyOwners()); m != nil {
			in.deliver(m, line)
		} else {
			in.drop("an error without an id")
		}
		return
	}
	r := in.open[number(e.ID.Of(line))]
	if r == nil {
		in.drop("an answer without a request")
		return
	}
	in.finish(r, line, e)
}

// finish completes r with an answer that contains the pool's id. mu must be held.
func (in *instance) finish(r *request, line []byte, e *wire.Envelope) {
	delete(in.open, r.number)
	if r.cancelled {
		in.cancelled = slices.DeleteFunc(in.cancelled, func(other *request) bool { return other == r })
	} else if e.Kind == wire.Result && r.class != "" && in.classes[r.class] == unknown {
		in.learn(r.class, quiet)
	}
	in.settle(r)
	if r.m != nil && r.m.moving {
		in.wake() // it may be the last request that kept the client here
	}
	defer in.pump()
	var edits []wire.Edit
	if r.m != nil && e.Kind == wire.Result {
		in.createdTask(r, line, e)
		edits = in.ownTasks(r, line, e)
	}
	if t := in.tokens[r.number]; t != nil && !in.tokenOfTask(r.number) {
		delete(in.tokens, r.number)
	}
	if r.then != nil {
		r.then(e.Kind == wire.Result)
	}
	switch {
	case r.done != nil:
		r.done(line, e)
	case r.m == nil:
		in.drop("an answer that no client waits for")
	default:
		if e.Kind == wire.Error && e.Code == mcp.CodeURLRequired {
			in.expectPages(r.m, line, e)
		}
		in.answerWith(r, line, e.ID, edits...)
	}
}

// fail completes r with an error of the pool. mu must be held.
func (in *instance) fail(r *request, code int, text string) {
	line := mcp.RefuseUnread(strconv.AppendInt(nil, r.number, 10), code, text)
	var e wire.Envelope
	if err := wire.Read(line, wire.FromServer, &e); err != nil {
		in.log.Error("an error from ThoughtGate can't be read", "err", err)
		return
	}
	if !r.sent {
		in.unqueue(r)
		r.class = ""
	}
	in.finish(r, line, &e)
}

// announce handles a notification of the server. mu must be held.
func (in *instance) announce(line []byte, e *wire.Envelope) {
	if s, n, ok := subscription(line, e); ok {
		in.toListener(line, s, n)
		return
	}
	switch e.Method {
	case "notifications/progress":
		in.progress(line, e)
	case "notifications/cancelled":
		in.serverCancels(line, e)
	case "notifications/message":
		in.message(line, e)
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		in.toAll(line)
	case "notifications/resources/updated":
		in.updated(line, e)
	case "notifications/elicitation/complete":
		in.pageDone(line, e)
	case "notifications/tasks/status", "notifications/tasks":
		in.taskNews(line, e)
	default:
		in.toAddressee(line)
	}
}

// toAddressee delivers a message whose owner only the open requests can show.
func (in *instance) toAddressee(line []byte) {
	if m := in.addressee(in.busyOwners()); m != nil {
		in.deliver(m, line)
	} else {
		in.drop("a message that belongs to no client")
	}
}

// toAll delivers line to all clients that have finished the handshake.
func (in *instance) toAll(line []byte) {
	in.toThose(line, func(m *Member) bool { return m.ready })
}

func (in *instance) toThose(line []byte, wanted func(*Member) bool) {
	for _, m := range slices.Clone(in.members) {
		if wanted(m) {
			in.deliver(m, line)
		}
	}
}

// addressee returns the only client that a message can be for while the requests of owners are
// open, or nil if it can be for others. mu must be held.
func (in *instance) addressee(owners []uint64) *Member {
	switch {
	case len(owners) > 1:
		return nil
	case len(owners) == 1:
		return in.memberThat(func(m *Member) bool { return m.number == owners[0] })
	case len(in.members) == 1 && !in.many && (in.first == 0 || in.first == in.members[0].number):
		return in.members[0]
	}
	return nil
}

// memberThat returns the first member for which is returns true, or nil.
func (in *instance) memberThat(is func(*Member) bool) *Member {
	if i := slices.IndexFunc(in.members, is); i >= 0 {
		return in.members[i]
	}
	return nil
}

// busyOwners returns the numbers of the clients that have requests open, or had until recently.
func (in *instance) busyOwners() []uint64 { return slices.Collect(maps.Keys(in.busy)) }

// progress delivers a progress notification to the owner of its token.
func (in *instance) progress(line []byte, e *wire.Envelope) {
	s, err := wire.Member(line, e.Params, "progressToken")
	t := in.tokens[number(s.Of(line))]
	if err != nil || t == nil {
		in.drop("progress without an open request")
		return
	}
	in.splice(t.m, line, wire.Edit{Span: s, With: t.text})
}

// splice delivers line with edits applied.
func (in *instance) splice(m *Member, line []byte, edits ...wire.Edit) {
	spliced, err := wire.Splice(line, edits...)
	if err != nil {
		in.drop("a line that can't be changed")
		return
	}
	in.deliver(m, spliced)
}

const subscriptionID = "io.modelcontextprotocol/subscriptionId"

// subscription returns the id in a notification of the modern era that names its
// subscriptions/listen request: where it is and what it is. ok is false if there is none.
func subscription(line []byte, e *wire.Envelope) (s wire.Span, n int64, ok bool) {
	if !e.Meta.Present() || line[e.Meta.Start] != '{' || !bytes.Contains(e.Meta.Of(line), []byte("subscriptionId")) {
		return s, 0, false
	}
	s, err := wire.Member(line, e.Meta, subscriptionID)
	if err != nil {
		return s, 0, true // the owner can't be determined
	}
	return s, number(bytes.Trim(s.Of(line), `"`)), s.Present()
}

// toListener delivers a notification to the client whose subscription it names.
func (in *instance) toListener(line []byte, s wire.Span, n int64) {
	r := in.open[n]
	if r == nil || r.m == nil || r.cancelled || r.method != "subscriptions/listen" {
		in.drop("a notification without a subscription")
		return
	}
	with := r.id
	if line[s.Start] == '"' && with[0] != '"' { // the server writes ids as strings
		with = fmt.Appendf(nil, "%q", with)
	}
	in.splice(r.m, line, wire.Edit{Span: s, With: with})
}
