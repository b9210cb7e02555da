// Package hook judges what agents do with tools of their own. An agent reports each use to a hook
// before it happens, and the hook asks here. To the gate, the tools of an agent are one more
// server, which is called agent: a reported use is judged as a call of it, by the same rules, with
// the same questions, grants and memory of the session, and is on the same record.
//
// What an agent reports is a claim. Who reports is what the kernel says about the calling process;
// ids and folders in the report are hints.
package hook

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxAgents is the maximum number of agents that report at the same time. Each has a descriptor of
// those that the daemon reserves.
const maxAgents = 128

// Request is one event that a hook passes on.
type Request struct {
	Agent    string // contract that the hook was installed for
	Event    []byte // as the agent wrote it
	Session  string // protection that the hook claims to belong to; may be empty
	Cwd      string // of the hook
	Patience time.Duration
	Build    string

	Line     []proc.Process // the hook's process and its ancestors, nearest first
	Programs []string       // of these
}

// Options are the dependencies of a Registry.
type Options struct {
	Sessions *session.Registry
	Recorder gate.Recorder
	Logger   *slog.Logger
	Redact   func(string) string // replaces secrets
	Home     string              // of the user
	// Variable returns a variable of the environment as a protection has it; empty if it has none.
	Variable func(protection, name string) string
	// Protections returns the protections that have hooks. If nil, there are none.
	Protections func() []Protection
}

// Registry holds the agents that report to hooks. It is safe for concurrent use.
type Registry struct {
	Options
	began    time.Time
	settling time.Duration     // how long an agent may take to write down the end of a conversation
	scanning time.Duration     // interval at which transcripts of agents that run no hooks are looked for
	kinds    map[string]*known // what agents have reported, by their kind
	ctx      context.Context   // the registry's lifetime; ends with [gate.ErrNotRunning]
	cancel   context.CancelCauseFunc
	wait     sync.WaitGroup // for the goroutines of agents
	flights  flights
	arrivals arrivals
	attended func(*agenthook.Contract, proc.Process) bool // see isAttended

	mu     sync.Mutex // guards the fields below
	agents map[key]*agent
	unseen []Unseen // latest last
}

// key identifies an agent: two agents of one process, of which one runs the other's hooks, are
// different ones.
type key struct {
	process proc.Process
	agent   string
	session string
}

// New returns a Registry without agents. Close must be called.
func New(o Options) *Registry {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &Registry{
		Options: o, began: time.Now(), settling: 2 * time.Second, scanning: scanInterval, kinds: map[string]*known{}, attended: isAttended, ctx: ctx, cancel: cancel, agents: map[key]*agent{},
		flights: flights{all: map[flightKey][]*flight{}, judging: map[*agent]int{}},
	}
	for _, kind := range agenthook.Agents() {
		r.kinds[kind] = newKnown()
	}
	if o.Protections != nil {
		r.wait.Go(r.watchSilent)
	}
	return r
}

// Stop ends all calls under way with an error. Their questions stay open, for the next daemon.
// Stop must be called before the connections of the hooks are closed, which would withdraw them.
func (r *Registry) Stop() { r.cancel(fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)) }

// Close is Stop, and waits for the registry's goroutines.
func (r *Registry) Close() {
	r.Stop()
	r.wait.Wait()
}

// Handle judges an event, and returns what the hook prints. An error means that the event could
// not be judged.
func (r *Registry) Handle(ctx context.Context, q Request) (agenthook.Output, error) {
	c := agenthook.Of(q.Agent)
	if c == nil {
		return agenthook.Output{}, fmt.Errorf("hooks of the agent %q are not supported: %w", q.Agent, gate.ErrInvalid)
	}
	a, err := r.agent(ctx, c, &q)
	if err != nil {
		return agenthook.Output{}, err
	}
	e, err := c.Read(q.Event)
	if err != nil {
		a.joined.Attachment.Refused(ctx, wire.FromAgent, err.Error(), q.Event)
		return agenthook.Output{}, fmt.Errorf("%w: %w", err, gate.ErrInvalid)
	}
	a.ledger.note(e)
	switch e.Kind {
	case agenthook.Before:
		return a.before(ctx, e, q.Patience)
	case agenthook.After:
		a.after(ctx, e)
	case agenthook.End:
		a.conversationEnded()
	}
	return c.Pass(e, ""), nil
}

// agent returns the agent that has run a hook, and attaches it if it is new.
func (r *Registry) agent(ctx context.Context, c *agenthook.Contract, q *Request) (*agent, error) {
	at := agentIn(q.Programs)
	if at < 0 || at >= len(q.Line) {
		return nil, fmt.Errorf("no agent has started this hook: %w", gate.ErrForbidden)
	}
	k := key{q.Line[at], c.Agent, q.Session}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.agents[k]; a != nil {
		return a, nil
	}
	switch {
	case r.ctx.Err() != nil:
		return nil, context.Cause(r.ctx)
	case len(r.agents) >= maxAgents:
		return nil, fmt.Errorf("%d agents report already, the maximum: %w", len(r.agents), gate.ErrFull)
	}
	a, err := r.attach(ctx, c, q, at)
	if err != nil {
		return nil, err
	}
	r.agents[k] = a
	r.wait.Go(func() {
		_ = a.handle.Wait(a.life) // it fails only if its context ends
		r.mu.Lock()
		delete(r.agents, k)
		r.mu.Unlock()
		a.compare()
		a.close()
	})
	return a, nil
}

// attach registers the process at q.Line[at] as an attachment.
func (r *Registry) attach(ctx context.Context, c *agenthook.Contract, q *Request, at int) (*agent, error) {
	process := q.Line[at]
	handle, err := proc.Open(process)
	if err != nil {
		return nil, fmt.Errorf("watch the agent: %w: %w", err, gate.ErrForbidden)
	}
	var id [16]byte
	rand.Read(id[:])
	a := &agent{registry: r, contract: c, process: process, handle: handle, submitter: submit.New(), open: map[string]*submit.Permitted{}}
	a.life, a.end = context.WithCancelCause(r.ctx)
	a.ledger = newLedger(c, r.folder(c, q.Session), later(process.Began(), r.began), r.kinds[c.Agent])
	joined, err := r.Sessions.Join(ctx, session.Hello{
		Shim: gate.Shim{
			Attachment: hex.EncodeToString(id[:]), Session: q.Session, Agent: c.Agent, Project: q.Cwd, Cwd: q.Cwd,
			Server: agenthook.Server, Launch: gate.Launch([]string{"hook", c.Agent}), Command: []string{q.Programs[at]}, Host: true,
		},
		Build: q.Build, Peer: process, Parent: process, Line: q.Line[at:], Programs: q.Programs[at:],
	}, func(string) { a.end(errLeft) })
	if err != nil {
		a.end(err)
		_ = handle.Close() // nothing was written
		return nil, err
	}
	a.joined = joined
	joined.Attachment.Bind(a.submitter.Verdict)
	a.submitter.Open(joined.Attachment)
	return a, nil
}

// shells run hooks for agents that give a command line to a shell.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "fish": true, "ash": true, "ksh": true, "busybox": true}

// agentIn returns the index of the agent among the programs of a hook and its ancestors: the
// first that is no shell. It returns -1 if there is none.
func agentIn(programs []string) int {
	for i := 1; i < len(programs); i++ {
		if !shells[filepath.Base(programs[i])] {
			return i
		}
	}
	return -1
}

// governed reports whether calls of a server's tool pass the gate in this session, so that the
// hook need not judge them.
func (r *Registry) governed(id, server string) bool {
	return id != "" && server != "" && slices.ContainsFunc(r.Sessions.Attachments(), func(a session.Attached) bool {
		return a.Shim.Session == id && a.Shim.Server == server && !a.Shim.Host
	})
}

var errLeft = errors.New("the agent's session has ended")
