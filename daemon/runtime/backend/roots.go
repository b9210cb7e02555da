package backend

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A server that asks for roots keeps them as long as it runs, so the clients that share it must
// have the same roots. The first answer sets the roots of the process. Every other client is asked
// by the pool before its requests are sent. A client with other roots is moved to another process:
// one with these roots if there is one, or a new one.

// rootsWait is the timeout for a client's answer about its roots. After that it is assumed to have
// other roots.
const rootsWait = 10 * time.Second

// rooting handles the answer of m to a request for roots, and reports whether the server must get
// it. mu must be held.
func (in *instance) rooting(m *Member, a *ask, line []byte, e *wire.Envelope) bool {
	m.roots = "none"
	if e.Kind == wire.Result {
		m.roots = string(rawjson.Canonical(e.Result.Of(line)))
	}
	if a.ours {
		in.vetted(m)
		return false
	}
	if other := in.rootedLike(in.roots); other != nil && m.roots != in.roots {
		in.vetted(m) // the server gets the same roots as before
		in.question(other, a.key, a.raw)
		return false
	}
	in.roots = m.roots
	for _, other := range slices.Clone(in.members) {
		if other.ready {
			in.vet(other)
		}
	}
	return true
}

// rootedLike returns a client with these roots, or nil.
func (in *instance) rootedLike(roots string) *Member {
	return in.memberThat(func(m *Member) bool { return roots != "" && m.ready && !m.moving && m.roots == roots })
}

// question asks m for its roots: for the server, or for the pool itself if key is empty.
func (in *instance) question(m *Member, key string, raw []byte) {
	m.lastAsk++
	a := &ask{m: m, id: m.lastAsk, method: "roots/list", ours: key == "", key: key, raw: raw}
	m.asks[a.id] = a
	if !a.ours {
		in.asks[key] = a
	}
	in.deliver(m, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, a.id))
}

// vet holds the requests of m until its roots are known to be those of the process. mu must be
// held.
func (in *instance) vet(m *Member) {
	switch {
	case m.coming || in.roots == "" || in.greeting == nil || !in.greeting.cans["roots"]:
	case m.roots != "":
		in.vetted(m)
	case !m.held:
		m.held, m.vetBy = true, time.Now().Add(rootsWait)
		in.question(m, "", nil)
		in.wake()
	}
}

// vetted compares the roots of m with those of the process. mu must be held.
func (in *instance) vetted(m *Member) {
	if m.moving {
		return
	}
	m.held = m.roots != in.roots
	m.moving = m.held
	in.pump()
	in.wake()
}

// rootsChanged handles a notification that the roots of m have changed, and reports whether the
// server must get it. If m shares the server, the pool asks m for its roots instead, and moves it
// if they differ from those of the process.
func (in *instance) rootsChanged(m *Member) bool {
	m.roots = ""
	if in.roots == "" || len(in.members) == 1 {
		return true
	}
	in.vet(m)
	return false
}

// movers returns the members to move to another process that have no request open here any more. A
// member that has not answered about its roots in time is one of them. mu must be held.
func (in *instance) movers(now time.Time, soon func(time.Time) bool) []*Member {
	var movers []*Member
	for _, m := range in.members {
		if m.held && !m.moving && !m.coming && soon(m.vetBy) {
			m.roots = fmt.Sprintf("those of client %d", m.number)
			m.moving = true
		}
		if m.moving && !in.works(m) {
			movers = append(movers, m)
		}
	}
	return movers
}

// works reports whether m waits for the server's answer to a request.
func (in *instance) works(m *Member) bool {
	for _, r := range m.open {
		if r.method != "subscriptions/listen" && !slices.Contains(in.waiting, r) {
			return true
		}
	}
	return false
}

// memberState is the state that a client takes to another process.
type memberState struct {
	hello  []byte // the initialize request
	roots  string
	level  int
	topics [][]byte // raw URIs
	open   map[string]*request
	queue  []*request
	tokens map[int64]*token
}

// pack removes m from the instance and returns its state. mu must be held.
func (in *instance) pack(m *Member) memberState {
	l := memberState{hello: in.greeting.line, roots: m.roots, level: m.level, tokens: map[int64]*token{}, open: map[string]*request{}}
	for uri := range m.uris {
		if t := in.topics[uri]; t != nil {
			l.topics = append(l.topics, t.uri)
		}
	}
	l.queue = in.waitingOf(m)
	for _, r := range l.queue {
		l.open[r.key] = r
		delete(m.open, r.key)
		if t := in.tokens[r.number]; t != nil {
			l.tokens[r.number] = t
			delete(in.tokens, r.number)
		}
	}
	in.waiting = slices.DeleteFunc(in.waiting, func(r *request) bool { return r.m == m })
	in.part(m, "the session moved to another process")
	return l
}

// unpack restores the state of m after it has entered: the handshake, then subscriptions and the
// log level, then the waiting requests. mu must be held.
func (in *instance) unpack(m *Member, l memberState) {
	m.roots, m.held, m.coming, m.level = l.roots, true, true, l.level
	for key, r := range l.open {
		m.open[key] = r
		m.waiting += r.size
	}
	in.waiting = append(in.waiting, l.queue...)
	maps.Copy(in.tokens, l.tokens)
	var e wire.Envelope
	if err := wire.Read(l.hello, wire.FromAgent, &e); err != nil {
		in.letGo(m, fmt.Errorf("%w: %w", ErrDisagrees, err))
		return
	}
	in.resume(m, l.hello, &e, func() {
		m.coming = false
		if m.level > 0 && in.ready && in.lowestLevel() != in.level {
			in.tellLevel(in.talk, in.lowestLevel())
		}
		for n, uri := range l.topics {
			in.subscribeAgain(m, n, uri)
		}
		in.vetted(m)
		for _, method := range in.greeting.lists {
			in.deliver(m, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method))
		}
		in.pump()
	})
}

// subscribeAgain subscribes m to a resource; m does not get the answer.
func (in *instance) subscribeAgain(m *Member, n int, uri []byte) {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"resources/subscribe","params":{"uri":%s}}`, uri)
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil || m.gone {
		return
	}
	r := &request{owner: m.number, m: m, key: fmt.Sprintf("again %d", n), method: e.Method, since: time.Now(), swallow: func([]byte) {}}
	m.open[r.key] = r
	in.subscribe(r, line, &e)
}

// moveToMatchingProcess moves m to another process, if it must still move.
func (p *Pool) moveToMatchingProcess(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := m.in.Load()
	from.mu.Lock()
	if m.gone || !m.moving || p.stopped || from.greeting == nil {
		from.mu.Unlock()
		return
	}
	key := from.greeting.key
	l := from.pack(m)
	from.mu.Unlock()
	to := p.find(m, func(in *instance) bool { return in != from && in.fits(key) && in.roots == l.roots })
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.members) == 0 {
		to.roots = l.roots
	}
	to.enter(m)
	to.claim(key)
	to.unpack(m, l)
}
