package backend

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// topic is a resource that clients have subscribed to. The server sees one subscription.
type topic struct {
	uri     []byte // raw
	active  bool   // the server has confirmed it
	waiters []*request
	members map[*Member]bool
}

// subscribe subscribes to a resource at the server, or joins the existing subscription. mu must be
// held.
func (in *instance) subscribe(r *request, line []byte, e *wire.Envelope) {
	uri, err := wire.Unquote(e.URI, line)
	if err != nil {
		in.send(r, line, e)
		return
	}
	t := in.topics[uri]
	switch {
	case len(r.m.uris) >= mostURIs && !r.m.uris[uri]:
		in.answer(r, mcp.RefuseUnread(r.id, mcp.CodeGate, fmt.Sprintf("more than %d subscriptions", mostURIs)))
	case t == nil:
		t = &topic{uri: bytes.Clone(e.URI.Of(line)), waiters: []*request{r}, members: map[*Member]bool{}}
		in.topics[uri] = t
		r.m.uris[uri] = true
		first := &request{owner: r.owner, method: r.method, since: r.since,
			done: func(line []byte, e *wire.Envelope) { in.subscribed(uri, t, line, e) }}
		in.send(first, line, e)
	case !t.active:
		r.m.uris[uri] = true
		t.waiters = append(t.waiters, r)
	default:
		t.members[r.m], r.m.uris[uri] = true, true
		in.succeed(r)
	}
}

// subscribed handles the server's answer to the first subscription. mu must be held.
func (in *instance) subscribed(uri string, t *topic, line []byte, e *wire.Envelope) {
	waiters := t.waiters
	t.waiters, t.active = nil, e.Kind == wire.Result
	for _, r := range waiters {
		if r.m == nil {
			continue
		}
		if !t.active || r.cancelled {
			delete(r.m.uris, uri)
		} else if r.m.uris[uri] { // otherwise it has unsubscribed meanwhile
			t.members[r.m] = true
		}
		if !r.cancelled {
			in.answerWith(r, line, e.ID)
		}
	}
	in.unused(uri, t)
}

// unused removes a topic that has no subscribers.
func (in *instance) unused(uri string, t *topic) {
	if len(t.members) > 0 || len(t.waiters) > 0 {
		return
	}
	delete(in.topics, uri)
	if t.active && in.ready {
		in.own(in.talk, "resources/unsubscribe", fmt.Sprintf(`{"uri":%s}`, t.uri), func([]byte, *wire.Envelope) {})
	}
}

// unsubscribe ends a subscription. The server is notified only of the last one. mu must be held.
func (in *instance) unsubscribe(r *request, line []byte, e *wire.Envelope) {
	uri, err := wire.Unquote(e.URI, line)
	t := in.topics[uri]
	if err != nil || t == nil {
		in.send(r, line, e)
		return
	}
	delete(r.m.uris, uri)
	delete(t.members, r.m)
	if len(t.members) > 0 || !t.active {
		in.succeed(r)
		return
	}
	delete(in.topics, uri)
	in.send(r, line, e)
}

// leaveTopics ends the subscriptions of m.
func (in *instance) leaveTopics(m *Member) {
	for uri := range m.uris {
		if t := in.topics[uri]; t != nil {
			delete(t.members, m)
			if t.active {
				in.unused(uri, t)
			}
		}
	}
	clear(m.uris)
}

// restoreTopics renews the subscriptions with a new process. If the server refuses one, it sends no
// more updates for that resource.
func (in *instance) restoreTopics(t *talk) {
	for uri, topic := range in.topics {
		if !topic.active {
			continue // its request is still waiting
		}
		in.own(t, "resources/subscribe", fmt.Sprintf(`{"uri":%s}`, topic.uri), func(_ []byte, e *wire.Envelope) {
			if e.Kind == wire.Error && in.topics[uri] == topic && in.talk == t {
				in.log.Warn("a subscription could not be renewed", "err", "the server answers with an error")
			}
		})
	}
}

// updated delivers an update to the subscribers of the resource, or of a resource that contains it.
func (in *instance) updated(line []byte, e *wire.Envelope) {
	uri, err := wire.Unquote(e.URI, line)
	if err != nil {
		in.drop("a notification about an unknown resource")
		return
	}
	in.toThose(line, func(m *Member) bool {
		if t := in.topics[uri]; t != nil {
			return t.members[m]
		}
		for whole := range m.uris {
			if t := in.topics[whole]; t != nil && t.members[m] && strings.HasPrefix(uri, strings.TrimSuffix(whole, "/")+"/") {
				return true
			}
		}
		return false
	})
}

// levels are the levels of log messages, most verbose first. A client that has set none counts as
// wanting info and above, and gets every message.
var levels = []string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const info = 2

func levelOf(text string) int { return max(0, slices.Index(levels, text)) }

// setLevel sets the log level of m. The server is notified if its level must change. mu must be
// held.
func (in *instance) setLevel(r *request, line []byte, e *wire.Envelope) {
	s, err := wire.Member(line, e.Params, "level")
	text, _ := wire.Unquote(s, line)
	level := levelOf(text)
	if err != nil || level == 0 { // the server may know the level
		in.send(r, line, e)
		return
	}
	r.m.level = level
	want := in.lowestLevel()
	if want == in.level {
		in.succeed(r)
		return
	}
	in.level = want
	r.then = func(ok bool) {
		if !ok {
			in.level = 0
		}
	}
	in.send(r, line, e, wire.Edit{Span: s, With: fmt.Appendf(nil, "%q", levels[want])})
}

// lowestLevel returns the lowest level that a client wants, or 0 if no client has set one.
func (in *instance) lowestLevel() int {
	want, set := len(levels), false
	for _, m := range in.members {
		switch {
		case m.level > 0:
			want, set = min(want, m.level), true
		case m.ready:
			want = min(want, info)
		}
	}
	if !set {
		return 0
	}
	return want
}

// updateServerLevel changes the level at the server if the clients now want another one. mu must be held.
func (in *instance) updateServerLevel() {
	if want := in.lowestLevel(); in.ready && in.level > 0 && want > 0 && want != in.level {
		in.tellLevel(in.talk, want)
	}
}

// restoreLevel sets the level at a new process.
func (in *instance) restoreLevel(t *talk) {
	if want := in.lowestLevel(); want > 0 {
		in.tellLevel(t, want)
	}
}

func (in *instance) tellLevel(t *talk, level int) {
	in.level = level
	in.own(t, "logging/setLevel", fmt.Sprintf(`{"level":%q}`, levels[level]), func([]byte, *wire.Envelope) {})
}

// message delivers a log message to the only client that it can be for, if the client wants its
// level.
func (in *instance) message(line []byte, e *wire.Envelope) {
	m := in.addressee(in.busyOwners())
	if m == nil {
		in.drop("a log message that belongs to no client")
		return
	}
	text, _ := memberText(line, e.Params, "level")
	if level := levelOf(text); level > 0 && level < m.level {
		in.drop("a log message below the client's level")
		return
	}
	in.deliver(m, line)
}
