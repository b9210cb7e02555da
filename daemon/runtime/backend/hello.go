package backend

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// greeting is the legacy handshake that the clients of one process share.
type greeting struct {
	key     string
	line    []byte // initialize request of the first client; nil until it is sent
	waiters []*request

	answer      []byte // answer of the server; nil until it arrives
	id          wire.Span
	agreed      string // protocol version and capabilities in answer, for comparison
	initialized []byte // initialized notification of the first client; nil until it is sent
	told        bool   // initialized was sent to the current process

	asks  bool            // the clients answer sampling or elicitation
	cans  map[string]bool // capabilities that the clients declared
	lists []string        // list_changed notifications that the server may send
}

// handshakeKey is equal for handshakes that agree: they ask for the same protocol version and
// declare the same capabilities. The names of the clients may differ.
func handshakeKey(line []byte, e *wire.Envelope) string {
	return "legacy " + agreement(line, e.Params)
}

// agreement returns version and capabilities of the object at s in a canonical form.
func agreement(line []byte, s wire.Span) string {
	return rawjson.Pick(s.Of(line), "protocolVersion", "capabilities")
}

// fits reports whether a client with the handshake key may use this process. An empty key stands
// for the modern era. mu must be held.
func (in *instance) fits(key string) bool {
	if in.greeting == nil && !in.modern {
		return true
	}
	return key == "" && in.modern || key != "" && in.greeting != nil && in.greeting.key == key
}

// claim sets the handshake of this process to key; an empty key sets the modern era. It does
// nothing if the handshake is set. mu must be held.
func (in *instance) claim(key string) {
	switch {
	case in.greeting != nil || in.modern:
	case key == "":
		in.modern = true
	default:
		in.greeting = &greeting{key: key}
	}
}

// speaksModern reports whether m may send requests of the modern era to its current process.
func (in *instance) speaksModern(m *Member) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.modern || m.hello != ""
}

// can reports whether the clients declared that they answer method.
func (g *greeting) can(method string) bool {
	capability := map[string]string{
		"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots",
	}[method]
	return capability == "" || g.cans[capability]
}

// initialize answers a handshake from the first one, or makes the first one. mu must be held.
func (in *instance) initialize(r *request, line []byte, e *wire.Envelope) {
	key := handshakeKey(line, e)
	g := in.greeting
	if g == nil || g.key != key {
		in.answer(r, mcp.RefuseUnread(r.id, mcp.CodeInvalid, "another handshake has been made already"))
		return
	}
	switch {
	case g.answer != nil:
		r.m.hello = key
		in.answerWith(r, g.answer, g.id)
	case g.line != nil:
		g.waiters = append(g.waiters, r)
	default:
		g.line = bytes.Clone(line)
		g.cans = capabilities(line, e.Params)
		g.asks = g.cans["sampling"] || g.cans["elicitation"]
		g.waiters = []*request{r}
		first := &request{owner: r.owner, method: r.method, since: r.since, done: func(line []byte, e *wire.Envelope) { in.greeted(g, line, e) }}
		in.send(first, line, e)
	}
}

// capabilities returns the names of the capabilities that an initialize request or its result
// declares.
func capabilities(line []byte, s wire.Span) map[string]bool {
	names := map[string]bool{}
	if list, err := wire.Member(line, s, "capabilities"); err == nil && list.Present() {
		_ = wire.Members(line, list, func(name []byte, _ wire.Span) error {
			if len(names) < 64 {
				names[string(name)] = true
			}
			return nil
		})
	}
	return names
}

// greeted handles the server's answer to the first handshake. mu must be held.
func (in *instance) greeted(g *greeting, line []byte, e *wire.Envelope) {
	waiters := g.waiters
	g.waiters = nil
	if e.Kind == wire.Result && line[e.Result.Start] == '{' {
		g.answer, g.id = bytes.Clone(line), e.ID
		g.agreed = agreement(line, e.Result)
		g.lists = changing(line, e.Result)
	} else if in.greeting == g { // the next client may try
		in.greeting = nil
	}
	for _, r := range waiters {
		if r.m == nil {
			continue
		}
		if g.answer != nil {
			r.m.hello = g.key
		}
		in.answerWith(r, line, e.ID)
	}
}

// changing returns the list_changed notifications that a server declares.
func changing(line []byte, s wire.Span) []string {
	return slices.DeleteFunc(mcp.ListNotifications(), func(method string) bool {
		at, err := s, error(nil)
		for _, name := range []string{"capabilities", mcp.ListCapability(method), "listChanged"} {
			if at, err = wire.Member(line, at, name); err != nil { // unreadable: not declared
				return true
			}
		}
		return string(at.Of(line)) != "true"
	})
}

// initialized handles the initialized notification of m. The server gets only the first one. mu
// must be held.
func (in *instance) initialized(m *Member, line []byte) {
	g := in.greeting
	if g == nil || g.answer == nil || m.hello == "" {
		in.drop("an initialized notification without a handshake")
		return
	}
	m.ready = true
	in.updateServerLevel()
	in.vet(m)
	if g.initialized == nil {
		g.initialized = bytes.Clone(line)
	}
	if !g.told && in.ready {
		g.told = true
		in.talk.push(g.initialized)
	}
}

// greet restores the state of a restarted server. It runs before the new process is used.
func (in *instance) greet(ctx context.Context, t *talk) error {
	in.mu.Lock()
	g := in.greeting
	if g == nil || g.answer == nil {
		defer in.mu.Unlock()
		in.opened(t)
		return nil
	}
	answered := make(chan error, 1)
	in.own(t, "initialize", string(paramsOf(g.line)), func(line []byte, e *wire.Envelope) {
		if e.Kind != wire.Result {
			answered <- fmt.Errorf("the server answered the handshake with an error: %s", e.Error.Of(line))
		} else if agreement(line, e.Result) != g.agreed {
			answered <- supervise.Permanent(ErrDisagrees)
		} else {
			answered <- nil
		}
	})
	in.mu.Unlock()
	select {
	case err := <-answered:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.talk != t {
		return errGone
	}
	if g.initialized != nil {
		t.push(g.initialized)
		g.told = true
	}
	in.restoreLevel(t)
	in.restoreTopics(t)
	in.opened(t)
	for _, method := range g.lists {
		in.toAll(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method))
	}
	return nil
}

// opened allows requests to t. mu must be held.
func (in *instance) opened(t *talk) {
	if in.talk == t {
		in.ready = true
		in.pump()
		in.wake()
	}
}
