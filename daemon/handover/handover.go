// Package handover holds what shims hand over, and has a session of package relay
// carry the lines of each.
//
// A shim comes with the descriptors of its agent and of its server, and says later
// what became of the server. From then on the session runs until it ends by itself,
// or until the daemon does: then the descriptors lie with whoever keeps them, and the
// next daemon goes on. What it has to know of who attached is in the state, which
// processes of the user's agents can't reach by a socket, and not in the session's
// memory.
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

// DescriptorsPerSession is how many descriptors the daemon has open for a session: those
// that are kept, two pipes to wake its pumps, the handles of its shim and its server, and
// while the shim says something a connection, and the handle of who has connected.
const DescriptorsPerSession = keep.PerSession + 8

// Launch is what a shim asks to have run.
type Launch struct {
	Server     string
	Launch     string // identifies the command line
	Executable string // absolute path of the program
	Command    []string
	Cwd        string   // absolute
	From       string   // the project's file that names the server
	Sets       []string // names of the variables that it sets
}

// Hello is what a shim tells of itself, and what the kernel tells of it.
type Hello struct {
	session.Hello
	Launch Launch
	Shared bool // the daemon has its server: it starts none itself
}

// Store keeps who has attached over a restart; see store.DB.
type Store interface {
	PutHeld(context.Context, *store.Held) error
	DeleteHeld(ctx context.Context, name string) error
	Held(context.Context) ([]store.Held, error)
}

// Options are what a book needs of others.
type Options struct {
	Sessions *session.Registry
	Store    Store
	Keep     *keep.Store // nil: nobody keeps anything
	Earlier  func(attachment string) relay.Earlier
	// Join finds a place at a server that sessions share. env asks the kernel what
	// the shim was started with. The error wraps [relay.ErrNotStarted] where no
	// server could be started.
	Join func(ctx context.Context, l Launch, env func() ([]string, error), c relay.Client) (relay.Member, error)
	// MaxSessions is how many shims may be attached at once, and what says so.
	MaxSessions func() (n int, by string)
	// Longest is how long a line may be, in bytes.
	Longest func() int
	// ServerEnded is told how a server ended that its shim had started, nil for one
	// that could not be.
	ServerEnded func(server string, how *child.State)
	Logger      *slog.Logger
}

// Book has all attachments whose descriptors the daemon holds. Its methods may be
// called by any number of goroutines at once.
type Book struct {
	Options
	ctx    context.Context // until Close
	cancel context.CancelFunc
	wait   sync.WaitGroup // of all sessions
	unkept sync.Once      // it was said that nobody keeps anything

	mu   sync.Mutex // guards what follows
	all  map[string]*attachment
	over bool
}

// New returns a book. The caller calls Restore before either socket is served, and
// closes it.
func New(o Options) *Book {
	if o.Keep == nil {
		o.Keep = new(keep.Store)
	}
	ctx, cancel := context.WithCancel(context.Background()) // a lifetime: until Close
	return &Book{Options: o, ctx: ctx, cancel: cancel, all: map[string]*attachment{}}
}

// Attach takes a shim in with its descriptors, which are the book's from here on, also
// when that fails. Nothing is read from them before Started. A shim that was not
// answered attaches again.
func (b *Book) Attach(ctx context.Context, h *Hello, f Files) (*session.Joined, error) {
	a := b.newAttachment(h.Shim.Attachment, h.Shim.Server, h.Peer)
	a.files = f
	a.about.Launch, a.about.Shared = h.Launch, h.Shared
	a.turn.Lock()
	defer a.turn.Unlock()
	if err := b.enter(h, a); err != nil {
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

func (b *Book) newAttachment(id, server string, peer proc.Process) *attachment {
	a := &attachment{book: b, id: id, name: nameOf(id), server: server, peer: peer, left: make(chan struct{})}
	a.ctx, a.unwatch = context.WithCancel(b.ctx)
	return a
}

// enter lists a in place of an earlier try of the same shim.
func (b *Book) enter(h *Hello, a *attachment) error {
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
			return fmt.Errorf("%d servers are attached already, and %s allows %d: end some, or raise it: %w", n, by, limit, gate.ErrTooMany)
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
			return fmt.Errorf("attachment %s belongs to another process or has begun: %w", id, gate.ErrForbidden)
		}
	}
}

// of returns an attachment of the shim peer. It is nil where its session has ended.
func (b *Book) of(id string, peer proc.Process) (*attachment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.all[id]
	if a != nil && a.peer != peer {
		return nil, fmt.Errorf("attachment %s belongs to another process: %w", id, gate.ErrForbidden)
	}
	return a, nil
}

func (b *Book) remove(a *attachment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[a.id] == a {
		delete(b.all, a.id)
	}
}

// Started says that the descriptors are the daemon's alone, and that the shim peer has
// started the server as process pid, or with 0 that it could not, for a reason, or was
// not to.
func (b *Book) Started(ctx context.Context, peer proc.Process, id string, pid int, reason string) error {
	a, err := b.of(id, peer)
	if a == nil || err != nil {
		return err
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	if a.session() != nil || a.finished { // it was heard before
		return nil
	}
	return a.begin(ctx, pid, reason)
}

// Signal says that the shim has got a signal: the first one ends its session in order,
// each later one skips a step.
func (b *Book) Signal(peer proc.Process, id string) error {
	a, err := b.of(id, peer)
	if a != nil {
		a.signal()
	}
	return err
}

// Ended says how the server has ended.
func (b *Book) Ended(peer proc.Process, id string, how child.State) error {
	a, err := b.of(id, peer)
	if a != nil {
		a.serverEnded(how)
	}
	return err
}

// Close ends what this daemon does for sessions. Those whose descriptors somebody
// keeps are left to the next daemon; the others end.
func (b *Book) Close() {
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

// keep has the descriptors of an attachment kept, if anybody does.
func (b *Book) keep(ctx context.Context, a *attachment) {
	err := b.Keep.Keep(ctx, a.name, append(a.files.list(), a.mapping.File())...)
	a.kept = err == nil
	switch {
	case errors.Is(err, keep.ErrNobody):
		b.unkept.Do(func() {
			b.Logger.Warn("nobody keeps the descriptors of servers for the next daemon: when this one ends, so do they")
		})
	case err != nil:
		b.Logger.Error("the descriptors of a server are not kept for the next daemon", "server_id", a.server, "err", err)
	}
}
