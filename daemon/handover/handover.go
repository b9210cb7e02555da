// Package handover accepts the descriptors that tg-shim processes hand over, and runs a
// session of package relay for each.
//
// A tg-shim first hands over the descriptors of its agent and its server, and later reports
// whether the server was started. From then on the session runs until it ends, or until the
// daemon does. In the latter case the descriptors are kept elsewhere, and the next daemon
// continues the session. What that daemon must know of the attachment is in the state
// database, which processes of the user's agents can't reach by a socket, and not in the
// session's memory.
package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// DescriptorsPerSession is how many descriptors the daemon has open for a session: those that
// are kept, two pipes to wake its pumps, two epoll instances for which they wait, the handles of
// its tg-shim and its server and, while tg-shim makes a request, a connection and the handle of
// the connected process.
const DescriptorsPerSession = keep.PerSession + 10

// Launch is what tg-shim requests to be run.
type Launch struct {
	Server     string
	Launch     string // identifies the command line
	Executable string // absolute path of the program
	Command    []string
	Cwd        string   // absolute
	From       string   // the project's file that names the server
	Sets       []string // names of the variables that it sets
}

// Hello is what tg-shim reports about itself, and what the kernel reports about it.
type Hello struct {
	session.Hello
	Launch   Launch
	InMemory bool // the daemon runs its server: tg-shim starts none
}

// Store keeps attachments across a restart; see store.DB.
type Store interface {
	PutHeld(context.Context, *store.Held) error
	DeleteHeld(ctx context.Context, name string) error
	Held(context.Context) ([]store.Held, error)
}

// Options are the dependencies of a Registry.
type Options struct {
	Sessions *session.Registry
	Store    Store
	Keep     *keep.Store // nil: nothing is kept
	Earlier  func(attachment string) relay.Earlier
	// Join adds c, the client of the attachment s, to a server in memory. The error wraps
	// [relay.ErrNotStarted] if no server could be started.
	Join func(ctx context.Context, s session.Saved, l Launch, c relay.Client) (relay.Member, error)
	// MaxSessions returns how many attachments there may be at a time, and the setting that
	// says so.
	MaxSessions func() (n int, by string)
	// Longest returns the maximum length of a line, in bytes.
	Longest func() int
	// ServerEnded is called with how a server that tg-shim started has ended, or nil if it
	// could not be started.
	ServerEnded func(server string, how *child.State)
	Logger      *slog.Logger
}

// Registry holds all attachments whose descriptors the daemon holds. Its methods are safe for
// concurrent use.
type Registry struct {
	Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup // for all sessions
	unkept sync.Once      // for the warning that nothing is kept

	mu   sync.Mutex // guards the fields below
	all  map[string]*attachment
	over bool
}

// New returns a Registry. The caller must call Restore before either socket is served, and Close
// in the end.
func New(o Options) *Registry {
	if o.Keep == nil {
		o.Keep = new(keep.Store)
	}
	ctx, cancel := context.WithCancel(context.Background()) // lives until Close
	return &Registry{Options: o, ctx: ctx, cancel: cancel, all: map[string]*attachment{}}
}

// Attach registers a tg-shim and takes ownership of its descriptors, even on failure. Nothing
// is read from them before Started. A tg-shim that got no reply may attach again.
func (b *Registry) Attach(ctx context.Context, h *Hello, f Files) (*session.Joined, error) {
	a := b.newAttachment(h.Shim.Attachment, h.Shim.Server, h.Peer)
	a.files = f
	a.about.Launch, a.about.InMemory = h.Launch, h.InMemory
	a.turn.Lock()
	defer a.turn.Unlock()
	if err := b.register(h, a); err != nil {
		a.unwatch()
		f.Close()
		return nil, err
	}
	shim, err := proc.Open(h.Peer)
	if err == nil {
		if err = a.attach(ctx, h); err != nil {
			_ = shim.Close() // nothing was written
		}
	}
	if err != nil {
		a.end(ctx, "left", "")
		return nil, fmt.Errorf("take over the descriptors of server %s: %w", h.Shim.Server, err)
	}
	b.wait.Go(func() { a.watchShim(shim) })
	return a.joined, nil
}

func (b *Registry) newAttachment(id, server string, peer proc.Process) *attachment {
	a := &attachment{registry: b, id: id, name: nameOf(id), server: server, peer: peer, left: make(chan struct{})}
	a.ctx, a.unwatch = context.WithCancel(b.ctx)
	return a
}

// register registers a, in place of an earlier attempt of the same tg-shim.
func (b *Registry) register(h *Hello, a *attachment) error {
	id := h.Shim.Attachment
	limit, by := b.MaxSessions()
	for {
		b.mu.Lock()
		old := b.all[id]
		switch {
		case b.over:
			b.mu.Unlock()
			return fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
		case old == nil && len(b.all) >= limit:
			n := len(b.all)
			b.mu.Unlock()
			return fmt.Errorf("%d servers are already attached, and %s allows %d: end some, or raise the limit: %w", n, by, limit, gate.ErrTooMany)
		case old == nil:
			b.all[id] = a
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		old.turn.Lock()
		mine, begun := old.peer == h.Peer, old.session() != nil
		if mine && !begun {
			old.end(b.ctx, "left", "")
		}
		old.turn.Unlock()
		if !mine || begun {
			return fmt.Errorf("attachment %s belongs to another process or has already started: %w", id, gate.ErrForbidden)
		}
	}
}

// of returns the attachment of the tg-shim process peer. It is nil if its session has ended.
func (b *Registry) of(id string, peer proc.Process) (*attachment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.all[id]
	if a != nil && a.peer != peer {
		return nil, fmt.Errorf("attachment %s belongs to another process: %w", id, gate.ErrForbidden)
	}
	return a, nil
}

func (b *Registry) remove(a *attachment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[a.id] == a {
		delete(b.all, a.id)
	}
}

// Started reports that the descriptors now belong to the daemon alone, and that the tg-shim
// process peer has started the server as process pid. If pid is 0, the server was not started,
// and reason may say why.
func (b *Registry) Started(ctx context.Context, peer proc.Process, id string, pid int, reason string) error {
	a, err := b.of(id, peer)
	if a == nil || err != nil {
		return err
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	if a.session() != nil || a.finished { // reported before
		return nil
	}
	return a.begin(ctx, pid, reason)
}

// Signal reports that tg-shim has received a signal: the first one ends its session in order,
// each later one skips a step.
func (b *Registry) Signal(peer proc.Process, id string) error {
	a, err := b.of(id, peer)
	if a != nil {
		a.signal()
	}
	return err
}

// Ended reports how the server has ended.
func (b *Registry) Ended(peer proc.Process, id string, how child.State) error {
	a, err := b.of(id, peer)
	if a != nil {
		a.serverEnded(how)
	}
	return err
}

// Close stops this daemon's work for sessions. Sessions whose descriptors are kept are left to
// the next daemon; the others end.
func (b *Registry) Close() {
	b.mu.Lock()
	b.over = true
	all := make([]*attachment, 0, len(b.all))
	for _, a := range b.all {
		all = append(all, a)
	}
	b.mu.Unlock()
	b.cancel()
	var leaving sync.WaitGroup
	for _, a := range all {
		leaving.Go(a.leave)
	}
	leaving.Wait()
	b.wait.Wait()
}

// keep has the descriptors of an attachment kept, if somebody keeps any. If that fails, the attachment
// must not be used: tg-shim, which has its descriptors still, attaches again.
func (b *Registry) keep(ctx context.Context, a *attachment) error {
	err := b.Keep.Keep(ctx, a.name, append(a.files.list(), a.mapping.File())...)
	a.kept = err == nil
	switch {
	case errors.Is(err, keep.ErrNobody):
		b.unkept.Do(func() {
			b.Logger.Warn("the descriptors of servers are not kept for the next daemon: servers end when this daemon ends", "reason", err)
		})
	case errors.Is(err, keep.ErrFull), err != nil && b.Keep.KeeperLost():
		b.Logger.Error("the descriptors of a server are not kept for the next daemon", "server_id", a.server, "err", err)
	case err != nil:
		return fmt.Errorf("%w: %w", err, gate.ErrNotRunning) // which has tg-shim try again
	}
	return nil
}
