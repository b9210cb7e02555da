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

// Member is a client of a shared server, from Join to Leave. Write and Resume are
// for one goroutine at a time; Leave may be called at any time by any goroutine.
type Member struct {
	pool   *Pool
	spec   Spec
	key    string
	client Client
	number uint64 // from 1; never used again

	in atomic.Pointer[instance] // changed with the pool's and the instance's mutex held

	// The mutex of the instance guards what follows.
	gone      bool                // nothing is delivered any more
	open      map[string]*request // neither answered nor cancelled, by the client's id
	waiting   int                 // bytes of its requests that wait
	cancelled int                 // requests that may still be the reason for something
	asks      map[int64]*ask      // questions of the server it has not answered
	lastAsk   int64
	tasks     []string        // of the server's that are the client's, oldest first
	uris      map[string]bool // that it has subscribed to
	level     int             // of log messages; 0 when it has set none
	hello     string          // the key of its handshake; empty before it has been answered
	ready     bool            // it has said that it is initialized
	roots     string          // that it has last told, to compare; empty when it has not
	held      bool            // its requests wait until it is where it belongs
	vetBy     time.Time       // when that has to be known
	moving    bool            // it is to have another process
	coming    bool            // its handshake with a new process is under way
}

// Write takes one line of the client, which the strict reader has read, without line
// end. The line may be reused when Write returns. Write waits, until ctx ends, while
// the server does not read. The error says that the line was not taken: the client
// has left or was let go, or ctx has ended.
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

// place sees to it that m is where a message belongs that says which handshake, or
// which era, the client wants.
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

// Resume is for a client that had its handshake with a daemon before this one:
// initialize is the line it asked with then. The handshake is made again for it, and
// the server's answer goes nowhere. When the server refuses, the client is let go
// with ErrDisagrees. What the client asks meanwhile waits. made is closed when that is
// over, and never for a client that is let go. Subscriptions and the log level have to
// be asked for anew.
func (m *Member) Resume(initialize []byte) (made <-chan struct{}) {
	done := make(chan struct{})
	var e wire.Envelope
	if err := wire.Read(initialize, wire.FromAgent, &e); err != nil || e.Kind != wire.Request || e.Method != "initialize" {
		m.letGo(fmt.Errorf("%w: what it had asked for is not known", ErrDisagrees))
		return done
	}
	if m.place(initialize, &e) != nil {
		return done // it knows
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

// lock locks the instance that m is in.
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

// Leave ends the membership. What the client has asked for is cancelled at the
// server. Nothing is delivered after Leave has returned; a call of Gone may still be
// under way.
func (m *Member) Leave() {
	p := m.pool
	p.mu.Lock() // it is not being moved
	defer p.mu.Unlock()
	in := m.in.Load()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.part(m, "the session has ended")
	m.gone = true
	in.gone = slices.DeleteFunc(in.gone, func(d departure) bool { return d.member == m })
}

var initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)

// resume makes the handshake for a client that had it with another process; then is
// called when it has it here. A server that ends meanwhile is asked again. mu is held.
func (in *instance) resume(m *Member, line []byte, e *wire.Envelope, then func()) {
	key := handshakeKey(line, e)
	in.claim(key)
	g := in.greeting
	switch {
	case in.failed != nil:
		in.letGo(m, fmt.Errorf("%w: %w", ErrDisagrees, in.failed))
	case g == nil || g.key != key:
		in.letGo(m, fmt.Errorf("%w: it has made another handshake", ErrDisagrees))
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

// resumed takes the server's answer to a handshake that was made for m.
func (in *instance) resumed(m *Member, line []byte, e *wire.Envelope, answer []byte, then func()) {
	var a wire.Envelope
	switch err := wire.Read(answer, wire.FromServer, &a); {
	case err == nil && a.Kind == wire.Result:
		in.initialized(m, initialized)
		then()
	case err == nil && a.Code == mcp.CodeServerExit:
		in.resume(m, line, e, then)
	default:
		in.letGo(m, fmt.Errorf("%w: it refuses the handshake", ErrDisagrees))
	}
}
