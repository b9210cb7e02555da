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
	// shimTimeout is how long tg-shim may take to exit after its session has ended.
	shimTimeout = 10 * time.Second
	// drainTimeout is how long sessions that are not kept may take to end when the daemon
	// stops.
	drainTimeout = 5 * time.Second
)

// about is what the next daemon must know of an attachment.
type about struct {
	session.Saved
	Launch   Launch
	InMemory bool   `json:"Shared"` // the daemon runs its server
	Begun    bool   // tg-shim has reported whether the server was started
	Reason   string // why there is no server
	Boot     string // id of the boot that its processes belong to; empty if unknown
}

// attachment is one attached tg-shim whose descriptors the daemon holds.
type attachment struct {
	registry *Registry
	id       string
	name     string       // under which its descriptors are kept
	server   string       // server id
	peer     proc.Process // the process of tg-shim

	ctx     context.Context // for watchShim
	unwatch context.CancelFunc
	left    chan struct{} // closed when it was left to the next daemon

	turn     sync.Mutex // held while it is attached, begun or ended; guards the fields below
	about    about
	files    Files
	mapping  *mapping.Mapping
	joined   *session.Joined
	kept     bool // its descriptors are kept for the next daemon
	leaving  bool // it is being left to the next daemon
	finished bool

	mu     sync.Mutex // guards the fields below; acquired last
	relay  *relay.Session
	asked  int    // signals that arrived before the session had begun
	reason string // drain reason that arrived before the session had begun
	how    *child.State
}

func (a *attachment) session() *relay.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.relay
}

// attach prepares the session and registers the attachment. a.turn must be held.
func (a *attachment) attach(ctx context.Context, h *Hello) (err error) {
	b := a.registry
	if a.about.InMemory {
		closeAll(a.files.takeServer()...)
	}
	if err := a.files.stage(); err != nil {
		return err
	}
	if a.mapping, err = mapping.Create(b.Longest()); err != nil {
		return err
	}
	if err := a.files.storeEnds(a.mapping); err != nil {
		return err
	}
	if a.joined, err = b.Sessions.Join(ctx, h.Hello, a.drain); err != nil {
		return err
	}
	a.about.Saved = b.Sessions.Saved(a.joined)
	if err := a.save(ctx); err != nil {
		return err
	}
	return b.keep(ctx, a)
}

// save stores what the next daemon must know. It omits the server's command line, which may
// hold secrets: the next daemon asks the kernel for the arguments of tg-shim.
func (a *attachment) save(ctx context.Context) error {
	about := a.about
	about.Boot, _ = store.Boot()
	if len(about.Launch.Command) > 0 {
		about.Shim.Command, about.Launch.Command = nil, nil
	}
	text, err := json.Marshal(&about)
	if err != nil {
		return fmt.Errorf("save an attachment: %w", err)
	}
	return a.registry.Store.PutHeld(ctx, &store.Held{Name: a.name, About: text})
}

// findCommand determines the server's command line, which save has omitted.
func (a *about) findCommand() error {
	if len(a.Shim.Command) > 0 {
		return nil
	}
	args, err := proc.Args(a.Peer.PID)
	if err != nil {
		return err
	}
	at := slices.Index(args, "--")
	if at < 0 || at+1 == len(args) {
		return fmt.Errorf("%w: its tg-shim has no command", mapping.ErrCorrupt)
	}
	a.Launch.Command = args[at+1:]
	a.Shim.Command = slices.Clone(a.Launch.Command)
	if a.Launch.Executable != "" {
		a.Shim.Command[0] = a.Launch.Executable
	}
	if gate.Launch(a.Shim.Command) != a.Shim.Launch {
		return fmt.Errorf("%w: its tg-shim has another command than before", mapping.ErrCorrupt)
	}
	return nil
}

// watchShim waits for the end of tg-shim. If tg-shim ends before it has reported whether the
// server was started, the attachment ends. If it ends later, it was killed or has exited in
// order, and the session ends.
func (a *attachment) watchShim(shim *proc.Handle) {
	defer a.unwatch()
	defer func() { _ = shim.Close() }() // nothing was written
	defer a.registry.remove(a)
	if shim.Wait(a.ctx) != nil {
		return
	}
	a.turn.Lock()
	s, server := a.session(), a.about.Server
	if s == nil {
		a.end(a.registry.ctx, "lost", "")
	}
	a.turn.Unlock()
	if s != nil {
		s.Signal()
		select {
		case <-s.Done():
		case <-a.left:
			return // the next daemon finds that tg-shim has ended
		}
	}
	a.registry.Sessions.EndGroup(a.registry.ctx, server)
}

// begin runs the session. a.turn must be held.
func (a *attachment) begin(ctx context.Context, pid int, reason string) error {
	server, err := a.serverEnd(pid, reason)
	if err != nil {
		return err
	}
	a.about.Begun, a.about.Saved = true, a.registry.Sessions.Saved(a.joined)
	if err := a.save(ctx); err != nil { // otherwise the next daemon would wait forever for tg-shim's report
		a.registry.Logger.Error("the next daemon will not take over a server", "server_id", a.server, "err", err)
	}
	return a.run(server, nil)
}

// serverEnd returns the server's end of the session. a.turn must be held.
func (a *attachment) serverEnd(pid int, reason string) (relay.Server, error) {
	switch {
	case a.about.InMemory && reason == "":
		return a.inMemory(), nil
	case reason != "" || pid == 0:
		a.dropServer()
		a.about.Reason = cmp.Or(reason, "tg-shim reported no process")
		a.registry.ServerEnded(a.server, nil)
		return a.refusal(), nil
	}
	p, err := proc.ChildOf(a.peer.PID, int32(pid))
	switch {
	case errors.Is(err, proc.ErrNoChild):
		return nil, fmt.Errorf("process %d is not a child of tg-shim: %w", pid, gate.ErrForbidden)
	case err == nil:
		a.registry.Sessions.Started(a.joined, p.Process)
	}
	return a.pipes(p.Process), nil
}

// dropServer closes the descriptors of a server that was not started.
func (a *attachment) dropServer() {
	for _, f := range a.files.takeServer() {
		if f != nil {
			a.letGo(f)
			_ = f.Close() // nobody has written to it
		}
	}
}

// refusal returns the server's end for a server that could not be started.
func (a *attachment) refusal() *relay.Refusal {
	return &relay.Refusal{Code: mcp.CodeServerStart, Text: "The MCP server could not be started: " + a.about.Reason}
}

// pipes returns the server's end for a server process, which may have ended by now.
func (a *attachment) pipes(p proc.Process) *relay.Pipes {
	process, err := proc.Open(p)
	if err != nil {
		a.registry.Logger.Debug("the server's process can't be watched; the end of its output counts as its end", "server_id", a.server, "err", err)
	}
	if process.File() == nil { // the end of its output then marks the server's end, and tg-shim ends it
		process = nil
	}
	return &relay.Pipes{Pair: relay.Pair{From: a.files.ServerOutput, To: a.files.ServerInput}, Staging: a.files.toServer, Process: process}
}

// inMemory returns the server's end for a server within the daemon.
func (a *attachment) inMemory() *relay.InMemory {
	saved, l := a.about.Saved, a.about.Launch
	return &relay.InMemory{Join: func(ctx context.Context, c relay.Client) (relay.Member, error) {
		return a.registry.Join(ctx, saved, l, c)
	}}
}

// run starts a session, which carries lines until it ends. a.turn must be held.
func (a *attachment) run(server relay.Server, earlier relay.Earlier) error {
	s, err := relay.New(a.joined.Attachment, relay.Ends{
		Agent: relay.Pair{From: a.files.AgentInput, To: a.files.AgentOutput}, Staging: a.files.toAgent, Server: server,
		Mapping: a.mapping, Drained: a.files.Drained, Earlier: earlier, LetGo: a.letGo,
	}, a.registry.Logger.With("server_id", a.server))
	a.files, a.mapping = Files{}, nil // the session owns and closes them
	if err != nil {
		a.end(a.registry.ctx, "lost", err.Error())
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
	go s.Run() // Close ends it, unless it is blocked in a write that nothing ends
	a.registry.wait.Go(func() {
		select {
		case <-s.Done():
		case <-a.left:
		}
		a.turn.Lock()
		defer a.turn.Unlock()
		if err := s.Err(); err != nil {
			a.registry.Logger.Error("a session was ended", "server_id", a.server, "err", err)
			a.end(a.registry.ctx, "lost", err.Error())
			return
		}
		a.end(a.registry.ctx, "left", "")
	})
	return nil
}

// end releases everything that is held of the attachment, unless it is left to the next
// daemon. how and why are for the record. a.turn must be held.
func (a *attachment) end(ctx context.Context, how, why string) {
	if a.finished {
		return
	}
	a.finished = true
	b := a.registry
	ctx = context.WithoutCancel(ctx)
	if !a.leaving {
		var err error
		if a.session() == nil { // otherwise the session drops each descriptor
			err = b.Keep.Drop(ctx, a.name)
		}
		if err := errors.Join(err, b.Store.DeleteHeld(ctx, a.name)); err != nil {
			b.Logger.Error("drop what was kept of a server", "server_id", a.server, "err", err)
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
	if !a.about.Begun || a.about.InMemory || a.about.Reason != "" { // tg-shim has no server process whose end it would report
		b.remove(a)
		a.unwatch()
		return
	}
	expire := time.AfterFunc(shimTimeout, a.unwatch)
	context.AfterFunc(a.ctx, func() { expire.Stop() })
}
