// Package offer presents the tools of an extension as an MCP server that agents can use.
//
// Such a server has no process: it is part of the daemon. A tg-shim that was started for it
// has no child and attaches to it as to a shared server. What an agent sends to it has passed
// the gate, as for any server, and its lists and results pass the gate on the way back.
//
//	server := offer.NewServer("notes", extension)
//	member := server.Join(deliver)
//	err := member.Write(ctx, line) // a line of the agent; its answer is delivered
//	member.Leave()
//
// It supports the legacy revisions of MCP and the modern one, has tools only, and notifies
// its members when the tools change.
package offer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Extension is the part of an extension that a Server needs. Its methods are safe for
// concurrent use.
type Extension interface {
	// Version returns the version of the installed extension.
	Version() string
	// Tools returns the current tools, none while the extension is not available.
	Tools() []protocol.Tool
	// Call calls a tool with input, a raw object, and returns the raw result of MCP's
	// tools/call. It returns when ctx ends.
	Call(ctx context.Context, tool string, input []byte) ([]byte, error)
}

// Server is the MCP server of one extension. Its methods are safe for concurrent use.
type Server struct {
	name      string
	extension Extension

	mu      sync.Mutex // guards the fields below
	members map[*Member]bool
}

// NewServer returns a server without members. name is that of the extension.
func NewServer(name string, extension Extension) *Server {
	return &Server{name: name, extension: extension, members: map[*Member]bool{}}
}

// Prefix precedes the name of an extension in the id of its server, which rules and records
// use.
const Prefix = "ext-"

// ID returns the id of the server that offers the tools of an extension.
func ID(extension string) string { return Prefix + extension }

// Join adds an agent. deliver is called with each line for it, without line end, one call at a
// time; it must neither block nor call the member.
func (s *Server) Join(deliver func(line []byte)) *Member {
	ctx, cancel := context.WithCancelCause(context.Background())
	m := &Member{server: s, deliver: deliver, ctx: ctx, cancel: cancel, running: map[string]*call{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[m] = true
	return m
}

// Members returns the number of agents that have joined.
func (s *Server) Members() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// Changed notifies the members that the tools have changed, as far as they asked for it.
func (s *Server) Changed() {
	s.mu.Lock()
	members := slices.Collect(maps.Keys(s.members))
	s.mu.Unlock()
	for _, m := range members {
		m.changed()
	}
}

// ErrLeft reports that a member has left.
var ErrLeft = errors.New("the member has left")

// maxPendingRequests is the maximum number of pending requests of a member.
const maxPendingRequests = 256

// Member is one agent that uses a server.
type Member struct {
	server  *Server
	deliver func(line []byte)
	ctx     context.Context // context of the calls; ends with the member
	cancel  context.CancelCauseFunc
	work    sync.WaitGroup // for the calls

	mu                  sync.Mutex // guards the fields below, and deliver
	left                bool
	legacyHandshakeDone bool // the agent has made the legacy handshake, so it is notified of changes
	running             map[string]*call
}

// call is a pending request: a call of a tool, or a subscription of the modern era.
type call struct {
	id        []byte // raw
	cancel    context.CancelCauseFunc
	wantsList bool // a subscription to changes of the tools
}

// Write handles one line of the agent, without its line end. The answer may be delivered before
// Write returns, or later. line may be reused afterwards. Write returns an error only if the
// member has left or ctx has ended: invalid lines are answered with an error.
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
	return nil // the server sends no requests, so answers of the agent are ignored
}

// Resume registers an agent that made its handshake, the line initialize, with the previous
// daemon: it is notified of changes from then on. The returned channel is closed already, since
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
	m.legacyHandshakeDone = true
	return done
}

// cancelled ends a request of the agent, which gets no answer. m.mu must be held.
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

var errCancelled = errors.New("the agent cancelled the call")

// Leave cancels the member's calls and returns when they have ended. Nothing more is delivered.
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

// changed notifies the agent that the tools have changed.
func (m *Member) changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	if m.legacyHandshakeDone {
		m.deliver([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	for _, c := range m.running {
		if c.wantsList {
			m.deliver(notification("notifications/tools/list_changed", c.id, ""))
		}
	}
}

// Command returns what stands for the command line of an extension's server: in rules, in
// records, and for its pins.
func Command(extension string) []string { return []string{"extension", extension} }

// Launch returns the launch of that server, in hex. No command has the same.
func Launch(extension string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("the tools of the extension "+extension)))
}

// Registry holds the servers of all extensions. Its methods are safe for concurrent use.
type Registry struct {
	find func(name string) (Extension, bool)

	mu      sync.Mutex // guards the fields below
	servers map[string]*Server
}

// NewRegistry returns a Registry for the extensions that find returns.
func NewRegistry(find func(name string) (Extension, bool)) *Registry {
	return &Registry{find: find, servers: map[string]*Server{}}
}

// Join adds an agent to the server of an extension, as [Server.Join] does. The error is
// gate.ErrNotFound if there is no such extension.
func (b *Registry) Join(name string, deliver func(line []byte)) (*Member, error) {
	extension, ok := b.find(name)
	if !ok {
		return nil, fmt.Errorf("the extension %q of these tools is not installed; see `tgctl ext`: %w", name, gate.ErrNotFound)
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

// Changed notifies every agent that tools have changed.
func (b *Registry) Changed() {
	b.mu.Lock()
	servers := slices.Collect(maps.Values(b.servers))
	b.mu.Unlock()
	for _, s := range servers {
		s.Changed()
	}
}

// Members returns the number of agents that use the tools of an extension.
func (b *Registry) Members(name string) int {
	b.mu.Lock()
	s := b.servers[name]
	b.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.Members()
}
