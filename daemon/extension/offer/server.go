// Package offer makes of an extension's tools an MCP server that agents can use.
//
// There is no process behind such a server: it stands in the daemon, and a shim
// that was started for it has no child but joins it, as it would join a server
// that sessions share. What an agent says to it has passed the gate like what is
// said to any server, and its lists and results pass it on the way back.
//
//	server := offer.NewServer("notes", extension)
//	member := server.Join(deliver)
//	err := member.Write(ctx, line) // a line of the agent; what answers it is delivered
//	member.Leave()
//
// It speaks the legacy revisions of MCP and the modern one, has tools and nothing
// else, and tells its members when the tools are others than they were.
package offer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Extension is what an extension offers. Its methods are safe for concurrent use.
type Extension interface {
	// Version is the version of what is installed.
	Version() string
	// Tools returns what it has now, none while it can't be asked.
	Tools() []protocol.Tool
	// Call calls a tool of it with a raw object and returns the raw result, as
	// MCP's tools/call has it. It returns when ctx ends.
	Call(ctx context.Context, tool string, input []byte) ([]byte, error)
}

// Server is the server that stands for one extension. Its methods are safe for
// concurrent use.
type Server struct {
	name      string
	extension Extension

	mu      sync.Mutex // guards what follows
	members map[*Member]bool
}

// NewServer returns a server without members. name is that of the extension.
func NewServer(name string, extension Extension) *Server {
	return &Server{name: name, extension: extension, members: map[*Member]bool{}}
}

// Prefix stands before the name of an extension in the id of its server, by which
// rules and records call it.
const Prefix = "ext-"

// ID is the id of the server that offers the tools of an extension.
func ID(extension string) string { return Prefix + extension }

// Join adds an agent. deliver is given each line for it, without line end, one
// at a time; it must neither block nor call the member.
func (s *Server) Join(deliver func(line []byte)) *Member {
	ctx, cancel := context.WithCancelCause(context.Background())
	m := &Member{server: s, deliver: deliver, ctx: ctx, cancel: cancel, running: map[string]*call{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[m] = true
	return m
}

// Members returns how many agents have joined.
func (s *Server) Members() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// Changed tells every member that the tools are others than they were, as far as
// it wants to know.
func (s *Server) Changed() {
	s.mu.Lock()
	members := slices.Collect(maps.Keys(s.members))
	s.mu.Unlock()
	for _, m := range members {
		m.changed()
	}
}

// ErrLeft says that a member has left.
var ErrLeft = errors.New("the member has left")

// mostOpen bounds what a member may have open at once; a shim lets no more
// through either.
const mostOpen = 256

// Member is one agent at a server.
type Member struct {
	server  *Server
	deliver func(line []byte)
	ctx     context.Context // of the calls; ends with the member
	cancel  context.CancelCauseFunc
	work    sync.WaitGroup // of the calls

	mu      sync.Mutex // guards what follows, and deliver
	left    bool
	told    bool // the agent has made the legacy handshake: it is told of changes
	running map[string]*call
}

// call is a request that is not answered yet: a call of a tool, or a subscription
// of the modern era.
type call struct {
	id        []byte // raw
	cancel    context.CancelCauseFunc
	wantsList bool // a subscription to changes of the tools
}

// Write takes one line of the agent, without its line end. What it is answered
// with may be delivered before Write returns, or later. line may be reused then.
// It fails only when the member has left: what the agent writes wrongly is
// answered.
func (m *Member) Write(ctx context.Context, line []byte) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	line = append([]byte(nil), line...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return ErrLeft
	}
	var e wire.Envelope
	if err := wire.Read(line, wire.FromAgent, &e); err != nil {
		var r *wire.Refusal
		if errors.As(err, &r) && r.Answer {
			m.deliver(mcp.RefuseUnread(r.ID.Of(line), r.Code, r.Reason))
		}
		return nil
	}
	switch e.Kind {
	case wire.Request:
		m.request(line, &e)
	case wire.Notification:
		if e.Method == "notifications/cancelled" && e.RequestID.Present() {
			m.cancelled(e.RequestID.Of(line))
		}
	}
	return nil // it asks for nothing, so what else an agent answers is of no use
}

// Resume is for an agent that has shaken hands with a daemon before this one, by
// the line initialize. It is told of changes from then on. What it returns is closed:
// there is nothing to wait for.
func (m *Member) Resume(initialize []byte) (made <-chan struct{}) {
	done := make(chan struct{})
	close(done)
	var e wire.Envelope
	if wire.Read(initialize, wire.FromAgent, &e) != nil || e.Kind != wire.Request || e.Method != "initialize" {
		return done
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = true
	return done
}

// cancelled ends a request of the agent, which is answered no more. m.mu is held.
func (m *Member) cancelled(id []byte) {
	key, err := wire.Key(id)
	if err != nil {
		return
	}
	if c := m.running[key]; c != nil {
		delete(m.running, key)
		c.cancel(errCancelled)
	}
}

var errCancelled = errors.New("the agent has taken the call back")

// Leave ends what is still running for the member and returns when that has
// ended. Nothing is delivered any more.
func (m *Member) Leave() {
	m.mu.Lock()
	m.left = true
	m.mu.Unlock()
	m.cancel(ErrLeft)
	m.work.Wait()
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	delete(m.server.members, m)
}

// changed tells the agent that the tools are others.
func (m *Member) changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	if m.told {
		m.deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	for _, c := range m.running {
		if c.wantsList {
			m.deliver(notification("notifications/tools/list_changed", c.id, ""))
		}
	}
}

// Command stands for the command line of the server of an extension, in rules and
// records, and for what its definitions are pinned to.
func Command(extension string) []string { return []string{"extension", extension} }

// Launch is the launch of that server, in hex. It is none that a command has.
func Launch(extension string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("the tools of the extension "+extension)))
}

// Book keeps the servers of all extensions. Its methods are safe for concurrent
// use.
type Book struct {
	find func(name string) (Extension, bool)

	mu      sync.Mutex // guards what follows
	servers map[string]*Server
}

// NewBook returns a book for the extensions that find knows.
func NewBook(find func(name string) (Extension, bool)) *Book {
	return &Book{find: find, servers: map[string]*Server{}}
}

// Join adds an agent to those of an extension, see [Server.Join]. It fails with
// gate.ErrNotFound when there is no such extension.
func (b *Book) Join(name string, deliver func(line []byte)) (*Member, error) {
	extension, ok := b.find(name)
	if !ok {
		return nil, fmt.Errorf("the extension %q, whose tools these are, is not installed; see tgctl ext: %w", name, gate.ErrNotFound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.servers[name]
	if s == nil {
		s = NewServer(name, extension)
		b.servers[name] = s
	}
	return s.Join(deliver), nil
}

// Changed tells every agent that tools are others than they were.
func (b *Book) Changed() {
	b.mu.Lock()
	servers := slices.Collect(maps.Values(b.servers))
	b.mu.Unlock()
	for _, s := range servers {
		s.Changed()
	}
}

// Members returns how many agents have joined the tools of an extension.
func (b *Book) Members(name string) int {
	b.mu.Lock()
	s := b.servers[name]
	b.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.Members()
}
