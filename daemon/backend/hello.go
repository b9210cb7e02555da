package backend

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// greeting is the legacy handshake that the clients of one process have in common.
type greeting struct {
	key     string
	line    []byte // the first client's initialize; nil before it has asked
	waiters []*request

	answer      []byte // the server's answer; nil before there is one
	id          wire.Span
	agreed      string // protocol version and capabilities in it, to compare
	initialized []byte // what a client said when it was ready; nil before
	told        bool   // in this life

	asks  bool            // the clients can be asked for more than roots
	cans  map[string]bool // the capabilities that they declared
	lists []string        // notifications that the server may send of changed lists
}

// handshakeKey is equal for handshakes that agree: they ask for the same version of
// the protocol and declare the same capabilities. What the client is called may
// differ.
func handshakeKey(line []byte, e *wire.Envelope) string {
	return "legacy " + agreement(line, e.Params)
}

// agreement is version and capabilities in the object at s, in a form to compare.
func agreement(line []byte, s wire.Span) string {
	version, unclear := wire.Member(line, s, "protocolVersion")
	capabilities, err := wire.Member(line, s, "capabilities")
	if unclear != nil || err != nil {
		return string(s.Of(line)) // what can be read in two ways agrees with itself only
	}
	return fmt.Sprintf("%s %s", rawjson.Canonical(version.Of(line)), rawjson.Canonical(capabilities.Of(line)))
}

// fits reports whether a client may be here that asks for the handshake with key, or
// speaks the modern era when that is empty. mu is held.
func (in *instance) fits(key string) bool {
	if in.greeting == nil && !in.modern {
		return true
	}
	return key == "" && in.modern || key != "" && in.greeting != nil && in.greeting.key == key
}

// claim makes the handshake with key, or the modern era, the one that is spoken here.
func (in *instance) claim(key string) {
	switch {
	case in.greeting != nil || in.modern:
	case key == "":
		in.modern = true
	default:
		in.greeting = &greeting{key: key}
	}
}

// speaksModern reports whether m may make requests of the modern era where it is.
func (in *instance) speaksModern(m *Member) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.modern || m.hello != ""
}

// can reports whether the clients said that they answer a method.
func (g *greeting) can(method string) bool {
	capability := map[string]string{
		"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots",
	}[method]
	return capability == "" || g.cans[capability]
}

// initialize answers a handshake from the first, or makes that. mu is held.
func (in *instance) initialize(r *request, line []byte, e *wire.Envelope) {
	key := handshakeKey(line, e)
	g := in.greeting
	if g == nil || g.key != key {
		in.answer(r, mcp.RefuseUnread(r.id, mcp.CodeInvalid, "the handshake has been made, and otherwise"))
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

// capabilities are the names of what an initialize or its answer declares.
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

// greeted takes the server's answer to the first handshake. mu is held.
func (in *instance) greeted(g *greeting, line []byte, e *wire.Envelope) {
	waiters := g.waiters
	g.waiters = nil
	if e.Kind == wire.Result && line[e.Result.Start] == '{' {
		g.answer, g.id = bytes.Clone(line), e.ID
		g.agreed = agreement(line, e.Result)
		g.lists = changing(line, e.Result)
	} else if in.greeting == g { // whoever comes next may try
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

// changing are the notifications of changed lists that a server declares.
func changing(line []byte, s wire.Span) []string {
	return slices.DeleteFunc(mcp.ListNotifications(), func(method string) bool {
		at, err := s, error(nil)
		for _, name := range []string{"capabilities", mcp.ListCapability(method), "listChanged"} {
			if at, err = wire.Member(line, at, name); err != nil { // what can't be read declares nothing
				return true
			}
		}
		return string(at.Of(line)) != "true"
	})
}

// initialized takes the word of m that it is ready, which the server gets once.
func (in *instance) initialized(m *Member, line []byte) {
	g := in.greeting
	if g == nil || g.answer == nil || m.hello == "" {
		in.drop("a handshake that was not begun")
		return
	}
	m.ready = true
	in.tuneVoice()
	in.vet(m)
	if g.initialized == nil {
		g.initialized = bytes.Clone(line)
	}
	if !g.told && in.ready {
		g.told = true
		in.talk.push(g.initialized)
	}
}

// greet brings a new life of the server to where the last one was. It runs before
// anybody may use that life.
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
			answered <- fmt.Errorf("the handshake was refused: %s", e.Error.Of(line))
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

// opened lets requests to the life t. mu is held.
func (in *instance) opened(t *talk) {
	if in.talk == t {
		in.ready = true
		in.pump()
		in.wake()
	}
}
