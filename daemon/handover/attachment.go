package handover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

const (
	// shimTimeout is how long a shim may take to end once its session has.
	shimTimeout = 10 * time.Second
	// drainTimeout is how long sessions that nobody keeps may take to end with the daemon.
	drainTimeout = 5 * time.Second
)

// about is what the next daemon has to know of an attachment.
type about struct {
	session.Saved
	Launch Launch
	Shared bool
	Begun  bool   // the shim has said what became of the server
	Reason string // why there is none
}

// attachment is one shim whose descriptors the daemon holds.
type attachment struct {
	book   *Book
	id     string
	name   string       // under which its descriptors are kept
	server string       // its id
	peer   proc.Process // the shim

	ctx     context.Context // of watchShim
	unwatch context.CancelFunc
	left    chan struct{} // closed when it was left to the next daemon

	turn     sync.Mutex // held by who attaches, begins or ends it; guards what follows
	about    about
	files    Files
	mapping  *mapping.Mapping
	joined   *session.Joined
	kept     bool // somebody has the descriptors for the next daemon
	leaving  bool // it is left to the next daemon
	finished bool

	mu     sync.Mutex // guards what follows; taken last
	relay  *relay.Session
	asked  int    // signals that came before it had begun
	reason string // why it is to leave, likewise
	how    *child.State
}

func (a *attachment) session() *relay.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.relay
}

// attach makes what the session needs, and takes the shim in. a.turn is held.
func (a *attachment) attach(ctx context.Context, h *Hello) (err error) {
	b := a.book
	if a.about.Shared {
		closeAll(a.files.takeServer()...)
	}
	if err := a.files.stage(); err != nil {
		return err
	}
	if a.mapping, err = mapping.Create(b.Longest()); err != nil {
		return err
	}
	if err := a.files.note(a.mapping); err != nil {
		return err
	}
	if a.joined, err = b.Sessions.Join(ctx, h.Hello, a.drain); err != nil {
		return err
	}
	a.about.Saved = b.Sessions.Saved(a.joined)
	if err := a.save(ctx); err != nil {
		return err
	}
	b.keep(ctx, a)
	return nil
}

// save writes down what the next daemon has to know. The server's command line, which
// may hold secrets, is not: the next daemon asks the kernel for that of the shim.
func (a *attachment) save(ctx context.Context) error {
	about := a.about
	if len(about.Launch.Command) > 0 {
		about.Shim.Command, about.Launch.Command = nil, nil
	}
	text, err := json.Marshal(&about)
	if err != nil {
		return fmt.Errorf("keep who has attached: %w", err)
	}
	return a.book.Store.PutHeld(ctx, &store.Held{Name: a.name, About: text})
}

// findCommand finds the server's command line out anew, which save has left out.
func (a *about) findCommand() error {
	if len(a.Shim.Command) > 0 {
		return nil
	}
	args := proc.Args(a.Peer.PID)
	at := slices.Index(args, "--")
	if at < 0 || at+1 == len(args) {
		return fmt.Errorf("%w: its shim names no command", mapping.ErrDamaged)
	}
	a.Launch.Command = args[at+1:]
	a.Shim.Command = slices.Clone(a.Launch.Command)
	if a.Launch.Executable != "" {
		a.Shim.Command[0] = a.Launch.Executable
	}
	if gate.Launch(a.Shim.Command) != a.Shim.Launch {
		return fmt.Errorf("%w: its shim names another command than before", mapping.ErrDamaged)
	}
	return nil
}

// watchShim waits for the shim's end. One that ends before it has said what became of
// its server ends the attachment; one that does so later has been killed, or has left in
// order.
func (a *attachment) watchShim(shim *proc.Handle) {
	defer a.unwatch()
	defer func() { _ = shim.Close() }() // nothing was written
	defer a.book.remove(a)
	if shim.Wait(a.ctx) != nil {
		return
	}
	a.turn.Lock()
	s, server := a.session(), a.about.Server
	if s == nil {
		a.end(a.book.ctx, "lost", "")
	}
	a.turn.Unlock()
	if s != nil {
		s.Signal()
		select {
		case <-s.Done():
		case <-a.left:
			return // the next daemon finds that the shim has ended
		}
	}
	a.book.Sessions.EndGroup(a.book.ctx, server)
}

// begin runs the session. a.turn is held.
func (a *attachment) begin(ctx context.Context, pid int, reason string) error {
	server, err := a.serverEnd(pid, reason)
	if err != nil {
		return err
	}
	a.about.Begun, a.about.Saved = true, a.book.Sessions.Saved(a.joined)
	if err := a.save(ctx); err != nil { // the next daemon would wait for this word for ever
		a.book.Logger.Error("the next daemon will not take over a server", "server_id", a.server, "err", err)
	}
	return a.run(server, nil)
}

// serverEnd is the server's end. a.turn is held.
func (a *attachment) serverEnd(pid int, reason string) (relay.Server, error) {
	switch {
	case a.about.Shared && reason == "":
		return a.shared(), nil
	case reason != "" || pid == 0:
		a.dropServer()
		a.about.Reason = cmp.Or(reason, "no process was named")
		a.book.ServerEnded(a.server, nil)
		return a.refusal(), nil
	}
	p, err := proc.ChildOf(a.peer.PID, int32(pid))
	switch {
	case errors.Is(err, proc.ErrNoChild):
		return nil, fmt.Errorf("process %d is no child of the shim: %w", pid, gate.ErrForbidden)
	case err == nil:
		a.book.Sessions.Started(a.joined, p.Process)
	}
	return a.pipes(p.Process), nil
}

// dropServer closes what leads to a server that was not started.
func (a *attachment) dropServer() {
	for _, f := range a.files.takeServer() {
		if f != nil {
			a.letGo(f)
			_ = f.Close() // nobody has written to it
		}
	}
}

// refusal is what there is where the server could not be started.
func (a *attachment) refusal() *relay.Refusal {
	return &relay.Refusal{Code: mcp.CodeServerStart, Text: "The MCP server could not be started: " + a.about.Reason}
}

// pipes is the server's end that leads to a process, which may have ended by now.
func (a *attachment) pipes(p proc.Process) *relay.Pipes {
	process, err := proc.Open(p)
	if err != nil {
		a.book.Logger.Debug("the server's process can't be watched; the end of what it writes is its end", "server_id", a.server, "err", err)
	}
	if process.File() == nil { // there a server is known to have ended by the end of its output, and tg-shim ends it
		process = nil
	}
	return &relay.Pipes{Pair: relay.Pair{From: a.files.ServerOutput, To: a.files.ServerInput}, Staging: a.files.toServer, Process: process}
}

// shared is the server's end that leads to one that the daemon has.
func (a *attachment) shared() *relay.Shared {
	l, pid := a.about.Launch, a.peer.PID
	return &relay.Shared{Join: func(ctx context.Context, c relay.Client) (relay.Member, error) {
		return a.book.Join(ctx, l, func() ([]string, error) { return proc.Environ(pid) }, c)
	}}
}

// run has a session carry lines until it ends. a.turn is held.
func (a *attachment) run(server relay.Server, earlier relay.Earlier) error {
	s, err := relay.New(a.joined.Attachment, relay.Ends{
		Agent: relay.Pair{From: a.files.AgentInput, To: a.files.AgentOutput}, Staging: a.files.toAgent, Server: server,
		Mapping: a.mapping, Drained: a.files.Drained, Earlier: earlier, LetGo: a.letGo,
	}, a.book.Logger.With("server_id", a.server))
	a.files, a.mapping = Files{}, nil // the session's, which closes them
	if err != nil {
		a.end(a.book.ctx, "lost", err.Error())
		return err
	}
	a.mu.Lock()
	a.relay = s
	for range a.asked {
		s.Signal()
	}
	if a.reason != "" {
		s.Drain(a.reason)
	}
	if a.how != nil {
		s.ServerEnded(a.how.String())
	}
	a.mu.Unlock()
	go s.Run() // Close ends it, unless it hangs in a write that nothing ends
	a.book.wait.Go(func() {
		select {
		case <-s.Done():
		case <-a.left:
		}
		a.turn.Lock()
		defer a.turn.Unlock()
		if err := s.Err(); err != nil {
			a.book.Logger.Error("a session was ended", "server_id", a.server, "err", err)
			a.end(a.book.ctx, "lost", err.Error())
			return
		}
		a.end(a.book.ctx, "left", "")
	})
	return nil
}

// end lets go of all that is held of the attachment, unless it is left to the next
// daemon. how and why are for the record. a.turn is held.
func (a *attachment) end(ctx context.Context, how, why string) {
	if a.finished {
		return
	}
	a.finished = true
	b := a.book
	ctx = context.WithoutCancel(ctx)
	if !a.leaving {
		var err error
		if a.session() == nil { // which lets go of each descriptor
			err = b.Keep.Drop(ctx, a.name)
		}
		if err := errors.Join(err, b.Store.DeleteHeld(ctx, a.name)); err != nil {
			b.Logger.Error("let go of what was kept of a server", "server_id", a.server, "err", err)
		}
	}
	a.files.Close()
	if a.mapping != nil {
		_ = a.mapping.Close()
	}
	a.files, a.mapping = Files{}, nil
	if a.leaving {
		return
	}
	if a.joined != nil {
		b.Sessions.End(a.joined, how, why)
	}
	if !a.about.Begun || a.about.Shared || a.about.Reason != "" { // the shim has no server of which it would say how it ended
		b.remove(a)
		a.unwatch()
		return
	}
	expire := time.AfterFunc(shimTimeout, a.unwatch)
	context.AfterFunc(a.ctx, func() { expire.Stop() })
}
