package backend

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Member is a client of a shared server, from Join to Leave. Write and Resume must not be called
// concurrently. Leave may be called at any time by any goroutine.
type Member struct {
	pool   *Pool
	spec   Spec
	key    string
	client Client
	number uint64 // from 1; never reused

	in atomic.Pointer[instance] // changed with the mutexes of pool and instance held

	// The mutex of the instance guards the fields below.
	gone      bool                // nothing more is delivered
	open      map[string]*request // neither answered nor cancelled, by the client's id
	waiting   int                 // bytes of its waiting requests
	cancelled int                 // cancelled requests that may still cause messages
	asks      map[int64]*ask      // requests of the server that it has not answered
	lastAsk   int64
	tasks     []string        // the server's tasks that belong to the client, oldest first
	uris      map[string]bool // its subscriptions
	level     int             // of log messages; 0 if it has set none
	hello     string          // key of its handshake; empty until that is answered
	ready     bool            // it has sent initialized
	roots     string          // its latest roots, canonical; empty if not known
	held      bool            // its requests wait until it has the right process
	vetBy     time.Time       // deadline for its roots
	moving    bool            // it must get another process
	coming    bool            // its handshake with a new process is under way
}

// Write takes one line of the client without line end. The strict reader must have read it. The
// line may be reused when Write returns. Write blocks while the server does not read, until ctx
// ends. An error means that the line was not accepted: the client has left or was removed, or ctx
// has ended.
func (m *Member) Write(ctx context.Context, line []byte) error {
	var e wire.Envelope
	if err := wire.Read(line, wire.FromAgent, &e); err != nil {
		return fmt.Errorf("write to server %q: %w", m.spec.Server, err)
	}
	if err := m.in.Load().room(ctx); err != nil {
		return err
	}
	if err := m.place(line, &e); err != nil {
		return fmt.Errorf("write to server %q: %w", m.spec.Server, err)
	}
	in := m.lock()
	defer in.mu.Unlock()
	if m.gone {
		return fmt.Errorf("write to server %q: %w", m.spec.Server, ErrLeft)
	}
	switch e.Kind {
	case wire.Request:
		in.request(m, line, &e)
	case wire.Notification:
		in.notification(m, line, &e)
	default:
		in.reply(m, line, &e)
	}
	return nil
}

// place moves m to a process that fits, if the message shows which handshake or era the client
// wants.
func (m *Member) place(line []byte, e *wire.Envelope) error {
	if e.Kind != wire.Request || e.Method == "server/discover" || e.Method != "initialize" && !e.Modern {
		return nil
	}
	key := ""
	if !e.Modern {
		key = handshakeKey(line, e)
	} else if m.in.Load().speaksModern(m) {
		return nil
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	in := m.in.Load()
	in.mu.Lock()
	gone, stays := m.gone, in.fits(key) || m.hello != ""
	if stays && !gone {
		in.claim(key)
	}
	in.mu.Unlock()
	switch {
	case gone:
		return ErrLeft
	case stays:
		return nil
	case p.stopped:
		return ErrStopped
	}
	to := p.find(m, func(in *instance) bool { return in.fits(key) })
	p.move(m, to)
	to.mu.Lock()
	to.claim(key)
	to.mu.Unlock()
	return nil
}

// Resume repeats the handshake of a client that made it with a previous daemon. initialize is the
// client's request at that time. The server's answer is dropped. If the server refuses, the client
// is removed with ErrDisagrees. Requests of the client wait meanwhile. The returned channel is
// closed when the handshake is complete; it is never closed for a client that is removed.
// Subscriptions and the log level must be requested again.
func (m *Member) Resume(initialize []byte) (made <-chan struct{}) {
	done := make(chan struct{})
	var e wire.Envelope
	if err := wire.Read(initialize, wire.FromAgent, &e); err != nil || e.Kind != wire.Request || e.Method != "initialize" {
		m.letGo(fmt.Errorf("%w: its earlier requests are unknown", ErrDisagrees))
		return done
	}
	if m.place(initialize, &e) != nil {
		return done // the client has been notified
	}
	in := m.lock()
	defer in.mu.Unlock()
	if m.gone {
		return done
	}
	m.coming, m.held = true, true
	in.resume(m, initialize, &e, func() {
		m.coming, m.held = false, false
		in.vet(m)
		in.pump()
		close(done)
	})
	return done
}

// lock locks the instance that m is in and returns it.
func (m *Member) lock() *instance {
	for {
		in := m.in.Load()
		in.mu.Lock()
		if m.in.Load() == in {
			return in
		}
		in.mu.Unlock() // it has just moved
	}
}

func (m *Member) letGo(err error) {
	in := m.lock()
	defer in.mu.Unlock()
	in.letGo(m, err)
}

// Leave ends the membership. The client's requests are cancelled at the server. Nothing is
// delivered after Leave has returned; a call of Gone may still be under way.
func (m *Member) Leave() {
	p := m.pool
	p.mu.Lock() // so that it is not being moved
	defer p.mu.Unlock()
	in := m.in.Load()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.part(m, "the session has ended")
	m.gone = true
	in.gone = slices.DeleteFunc(in.gone, func(d departure) bool { return d.member == m })
}

var initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)

// resume makes the handshake for a client that made it with another process, and then calls then.
// If the server ends meanwhile, the handshake is repeated. mu must be held.
func (in *instance) resume(m *Member, line []byte, e *wire.Envelope, then func()) {
	key := handshakeKey(line, e)
	in.claim(key)
	g := in.greeting
	switch {
	case in.failed != nil:
		in.letGo(m, fmt.Errorf("%w: %w", ErrDisagrees, in.failed))
	case g == nil || g.key != key:
		in.letGo(m, fmt.Errorf("%w: the client made another handshake", ErrDisagrees))
	case g.answer != nil:
		m.hello = key
		in.initialized(m, initialized)
		then()
	default:
		line := bytes.Clone(line) // e describes the copy as well
		r := &request{owner: m.number, m: m, key: "resume", id: []byte("0"), method: e.Method, since: time.Now()}
		r.swallow = func(answer []byte) { in.resumed(m, line, e, answer, then) }
		m.open[r.key] = r
		in.initialize(r, line, e)
	}
}

// resumed handles the server's answer to a handshake that was repeated for m. mu must be held.
func (in *instance) resumed(m *Member, line []byte, e *wire.Envelope, answer []byte, then func()) {
	var a wire.Envelope
	switch err := wire.Read(answer, wire.FromServer, &a); {
	case err == nil && a.Kind == wire.Result:
		in.initialized(m, initialized)
		then()
	case err == nil && a.Code == mcp.CodeServerExit:
		in.resume(m, line, e, then)
	default:
		in.letGo(m, fmt.Errorf("%w: it answers the handshake with an error", ErrDisagrees))
	}
}
