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

// InMemory is a server that exchanges lines with the session in memory. It is for any server whose
// pipes, if it has any, are not kept for the next daemon: one that the daemon runs for several
// sessions, or the tools of an extension. It ends with the daemon. The next daemon joins another one
// and repeats the agent's handshake with it. Requests that the first one had received and not
// answered are answered with an error.
type InMemory struct {
	// Join adds the client c to the server. The error wraps [ErrNotStarted] if no server could
	// be started.
	Join func(ctx context.Context, c Client) (Member, error)

	session   *Session
	cursor    mapping.Cursor
	ctx       context.Context // for writes
	cancel    context.CancelFunc
	first     []byte   // the agent's initialize request to the previous server; nil for none
	abandoned []uint64 // lines held for the previous server

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	member  Member
	lines   [][]byte // from the server, not yet taken, oldest first
	bytes   int
	gone    error
	left    bool
}

// Member is a session's membership of an in-memory server. Only one goroutine may call its
// methods, except for Leave.
type Member interface {
	// Write sends the server a line. It blocks while the server does not read.
	Write(ctx context.Context, line []byte) error
	// Resume makes the handshake for a client that had one with a previous server. The
	// returned channel is closed when it is done. It stays open if the client is told that the
	// server has ended.
	Resume(initialize []byte) <-chan struct{}
	// Leave ends the membership.
	Leave()
}

// Client receives the lines of an in-memory server. Its methods, except for DeliverWait, do not block.
// They are safe for concurrent use.
type Client interface {
	// Deliver takes one line, which is valid during the call. It returns false if too much is
	// unread; the client is then removed.
	Deliver(line []byte) bool
	// DeliverWait is like Deliver, but waits while too much is unread. It is for a server that can be
	// made to wait. An error means that the client takes no more, or that ctx has ended.
	DeliverWait(ctx context.Context, line []byte) error
	// Gone reports that the server no longer serves the client, and why.
	Gone(err error)
}

// ErrNotStarted reports that no server could be started.
var ErrNotStarted = errors.New("the server could not be started")

const (
	// maxUnread and maxUnreadLines limit the lines of an in-memory server that wait for an agent
	// that does not read. One line may always wait.
	maxUnread      = 16 << 20
	maxUnreadLines = 16 << 10
)

func (m *InMemory) endsWithDaemon() bool { return true }

func (m *InMemory) join(s *Session) (source, sink, error) {
	cursor, err := s.cursor(fromServer)
	if err != nil {
		return nil, nil, err
	}
	m.session, m.cursor = s, cursor
	m.changed.L = &m.mu
	m.ctx, m.cancel = context.WithCancel(s.ctx)
	context.AfterFunc(s.ctx, func() { m.Gone(errEnded) })
	context.AfterFunc(m.ctx, func() { s.updateEnding(func(e *ending) { e.exited = true }) }) // it no longer serves the session
	return &inbox{server: m}, m, nil
}

// begin joins the server.
func (m *InMemory) begin() error {
	member, err := m.Join(m.ctx, m)
	if err != nil {
		s := m.session
		s.mu.Lock()
		defer s.mu.Unlock()
		if m.Gone(err); errors.Is(err, ErrNotStarted) {
			s.fail() // and the agent gets this error as long as it stays
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
func (m *InMemory) Write(parts ...[]byte) error {
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
func (m *InMemory) Deliver(line []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone != nil || m.isFull(line) {
		return false
	}
	m.append(line)
	return true
}

// DeliverWait implements [Client].
func (m *InMemory) DeliverWait(ctx context.Context, line []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isFull(line) {
		stop := context.AfterFunc(ctx, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.changed.Broadcast()
		})
		defer stop()
	}
	for m.gone == nil && ctx.Err() == nil && m.isFull(line) {
		m.changed.Wait()
	}
	if m.gone != nil {
		return m.gone
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.append(line)
	return nil
}

// isFull reports whether line has to wait, because too much is unread. m.mu must be held.
func (m *InMemory) isFull(line []byte) bool {
	return len(m.lines) > 0 && m.bytes+len(line) > maxUnread || len(m.lines) >= maxUnreadLines
}

// append adds a line to those that are unread. m.mu must be held.
func (m *InMemory) append(line []byte) {
	m.lines = append(m.lines, terminated(line))
	m.bytes += len(line)
	m.changed.Broadcast()
}

// Gone implements [Client].
func (m *InMemory) Gone(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = err
		if m.cancel != nil { // nil if the session could not be started
			m.cancel()
		}
		m.changed.Broadcast()
	}
}

func (m *InMemory) interrupt() { m.cancel() }

func (m *InMemory) hangUp(func(*os.File)) {
	m.mu.Lock()
	member, before := m.member, m.left
	m.left = true
	m.mu.Unlock()
	if member != nil && !before {
		member.Leave()
	}
	m.Gone(errEnded)
}

func (m *InMemory) terminate()                   {}
func (m *InMemory) kill()                        {}
func (m *InMemory) handle() *os.File             { return nil }
func (m *InMemory) close(letGo func(f *os.File)) { m.hangUp(letGo) }

// failure returns what the agent is told of a server that no longer serves it.
func (m *InMemory) failure() *Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.gone == nil || errors.Is(m.gone, errEnded):
		return &Refusal{mcp.CodeServerExit, "ThoughtGate has left the MCP server, which did not answer"}
	case errors.Is(m.gone, ErrNotStarted):
		return &Refusal{mcp.CodeServerStart, "The MCP server could not be started: " + m.gone.Error()}
	}
	return &Refusal{mcp.CodeServerExit, "The MCP server is no longer available (" + m.gone.Error() + ") and did not answer"}
}

// status returns the exit code of tg-shim.
func (m *InMemory) status() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil || errors.Is(m.gone, errEnded) {
		return 0
	}
	return child.StartExit(m.gone)
}

// inbox is the source of an in-memory server's lines.
type inbox struct {
	server *InMemory
	line   []byte // the part of the current line that was not taken
	idle   bool   // the pump waits for more; the session's mu guards it
}

func (in *inbox) lines() *wire.Reader {
	return wire.NewReaderOf(in, in.server.session.mapping.Longest())
}

func (in *inbox) progress(events []event) []event     { return events } // the server ends with the daemon
func (in *inbox) inPlace([]byte, wire.Side) event     { return nil }
func (in *inbox) bytes(uint64, uint64) ([]byte, bool) { return nil, false }

func (in *inbox) handledAll() bool {
	m := in.server
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

// Fill implements [wire.Window]. It still returns lines that arrived before the end.
func (in *inbox) Fill() error {
	in.wait(true)
	m := in.server
	m.mu.Lock()
	for len(m.lines) == 0 && m.gone == nil {
		m.changed.Wait()
	}
	m.mu.Unlock()
	in.wait(false) // before a line is taken, so that handledAll never misses it
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) == 0 || m.session.ctx.Err() != nil {
		return io.EOF
	}
	in.line = append(in.line, m.lines[0]...)
	m.bytes -= len(m.lines[0]) - 1
	m.lines[0] = nil
	m.lines = m.lines[1:]
	m.changed.Broadcast() // DeliverWait
	return nil
}

// wait records whether the pump is idle. Before the pump may be idle, wait writes gathered
// lines.
func (in *inbox) wait(idle bool) {
	s := in.server.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.writePendingOutput(fromAgent)
	}
	in.idle = idle
	if idle {
		s.noteChange()
	}
}
