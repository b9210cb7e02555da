package relay

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Shared is a server that is given lines and gives lines, as one that the daemon runs
// for several sessions, or the tools of an extension. It goes with the daemon: the next
// one finds another, with which the handshake of the agent is made again, and what the
// first had been given and had not answered is answered with an error.
type Shared struct {
	// Join finds a place at the server. The error wraps [ErrNotStarted] where there is
	// none that could be started.
	Join func(ctx context.Context, c Client) (Member, error)

	session   *Session
	cursor    mapping.Cursor
	ctx       context.Context // of writing
	cancel    context.CancelFunc
	first     []byte   // with what the agent has asked another one for a handshake; nil for none
	abandoned []uint64 // held lines of that one

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	member  Member
	lines   [][]byte // of the server, not yet taken up, oldest first
	bytes   int
	gone    error
	left    bool
}

// Member is a session's place at such a server. Its methods but Leave are called by
// one goroutine.
type Member interface {
	// Write gives the server a line. It waits while the server does not read.
	Write(ctx context.Context, line []byte) error
	// Resume makes the handshake for a client that has had one with an earlier server.
	// What it returns is closed when that is done; it stays open for a client that is
	// told that the server has gone.
	Resume(initialize []byte) <-chan struct{}
	// Leave gives the place up.
	Leave()
}

// Client is who the lines of such a server come to. Its methods do not block, and may
// be called by any goroutine.
type Client interface {
	// Deliver takes one line, which is valid during the call. It is false when too much
	// is left unread: then the client is let go.
	Deliver(line []byte) bool
	// Gone says that the server does not serve the client any more, and why.
	Gone(err error)
}

// ErrNotStarted says that there was no server that could have served.
var ErrNotStarted = errors.New("the server could not be started")

const (
	// maxUnread and maxUnreadLines are how much of a shared server may wait for an
	// agent that does not read. One line may always wait.
	maxUnread      = 16 << 20
	maxUnreadLines = 16 << 10
)

func (m *Shared) join(s *Session) (source, sink, error) {
	cursor, err := s.cursor(fromServer)
	if err != nil {
		return nil, nil, err
	}
	m.session, m.cursor = s, cursor
	m.changed.L = &m.mu
	m.ctx, m.cancel = context.WithCancel(s.ctx)
	context.AfterFunc(s.ctx, func() { m.Gone(errEnded) })
	context.AfterFunc(m.ctx, func() { s.end(func(e *ending) { e.exited = true }) }) // it serves the session no more
	return &inbox{shared: m}, m, nil
}

// begin finds the place.
func (m *Shared) begin() error {
	member, err := m.Join(m.ctx, m)
	if err != nil {
		s := m.session
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.Gone(err); errors.Is(err, ErrNotStarted) {
			s.fail() // and the agent is told so as long as it stays
		}
		return err
	}
	for _, seq := range m.abandoned {
		m.session.gate.Cancel(seq)
	}
	m.mu.Lock()
	m.member = member
	left := m.left
	m.mu.Unlock()
	if left {
		member.Leave()
		return errEnded
	}
	if m.first != nil {
		select {
		case <-member.Resume(m.first):
		case <-m.ctx.Done():
			return context.Cause(m.ctx)
		}
	}
	return nil
}

// Write implements sink.
func (m *Shared) Write(parts ...[]byte) error {
	for _, line := range parts {
		end := m.cursor.Delivered() + uint64(len(line))
		m.cursor.SetIntent(end)
		if err := m.member.Write(m.ctx, line[:len(line)-1]); err != nil {
			return err
		}
		m.cursor.SetStaged(end)
		m.cursor.SetDelivered(end)
	}
	return nil
}

// Deliver implements [Client].
func (m *Shared) Deliver(line []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone != nil || len(m.lines) > 0 && m.bytes+len(line) > maxUnread || len(m.lines) >= maxUnreadLines {
		return false
	}
	m.lines = append(m.lines, append(append(make([]byte, 0, len(line)+1), line...), '\n'))
	m.bytes += len(line)
	m.changed.Broadcast()
	return true
}

// Gone implements [Client].
func (m *Shared) Gone(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = err
		if m.cancel != nil { // else the session could not be begun
			m.cancel()
		}
		m.changed.Broadcast()
	}
}

func (m *Shared) interrupt() { m.cancel() }

func (m *Shared) hangUp(func(*os.File)) {
	m.mu.Lock()
	member, before := m.member, m.left
	m.left = true
	m.mu.Unlock()
	if member != nil && !before {
		member.Leave()
	}
	m.Gone(errEnded)
}

func (m *Shared) terminate()                   {}
func (m *Shared) kill()                        {}
func (m *Shared) handle() *os.File             { return nil }
func (m *Shared) close(letGo func(f *os.File)) { m.hangUp(letGo) }

// failure is what the agent is told of a server that serves it no more.
func (m *Shared) failure() *Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.gone == nil || errors.Is(m.gone, errEnded):
		return &Refusal{mcp.CodeServerExit, "ThoughtGate has left the shared MCP server, which did not answer"}
	case errors.Is(m.gone, ErrNotStarted):
		return &Refusal{mcp.CodeServerStart, "The MCP server could not be started: " + m.gone.Error()}
	}
	return &Refusal{mcp.CodeServerExit, "The shared MCP server is not there any more (" + m.gone.Error() + ") and did not answer"}
}

// status is what tg-shim is to leave with.
func (m *Shared) status() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil || errors.Is(m.gone, errEnded) {
		return 0
	}
	return child.StartExit(m.gone)
}

// inbox is the source of what such a server says.
type inbox struct {
	shared *Shared
	line   []byte // what was not taken of the line that is being read
	idle   bool   // it waits for more; the session's mu guards it
}

func (in *inbox) lines() *wire.Reader {
	return wire.NewReaderOf(in, in.shared.session.mapping.Longest())
}

func (in *inbox) progress() []event                   { return nil } // it is gone with the daemon
func (in *inbox) inPlace([]byte, wire.Side) event     { return nil }
func (in *inbox) bytes(uint64, uint64) ([]byte, bool) { return nil, false }

func (in *inbox) handledAll() bool {
	m := in.shared
	m.mu.Lock()
	defer m.mu.Unlock()
	return in.idle && len(m.lines) == 0
}

// Unread implements [wire.Window].
func (in *inbox) Unread() []byte { return in.line }

// Take implements [wire.Window].
func (in *inbox) Take(n int) { in.line = in.line[n:] }

// Shrink implements [wire.Window].
func (in *inbox) Shrink() {}

// Release implements [wire.Window].
func (in *inbox) Release() {}

// Fill implements [wire.Window]. Lines that came before the end are read still.
func (in *inbox) Fill() error {
	in.wait(true)
	m := in.shared
	m.mu.Lock()
	for len(m.lines) == 0 && m.gone == nil {
		m.changed.Wait()
	}
	m.mu.Unlock()
	in.wait(false) // before a line is taken, or nobody would see that it is being dealt with
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) == 0 || m.session.ctx.Err() != nil {
		return io.EOF
	}
	in.line = append(in.line, m.lines[0]...)
	m.bytes -= len(m.lines[0]) - 1
	m.lines[0] = nil
	m.lines = m.lines[1:]
	return nil
}

// wait notes whether the pump waits for more. Before it may, what was gathered is written.
func (in *inbox) wait(idle bool) {
	s := in.shared.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.writeOwed(fromAgent)
	}
	in.idle = idle
	if idle && s.ending.begun {
		s.changed.Broadcast()
	}
}
