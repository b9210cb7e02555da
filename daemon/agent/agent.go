// Package agent runs agents headless: without a terminal, for one prompt each.
//
// A run is a fresh process that is told what to do over its standard input and
// says over its standard output how far it is. Two protocols are spoken: the Agent
// Client Protocol (acp), in which the agent also asks its host for permissions,
// files and terminals, and lines of typed JSON (typed), in which it only answers.
//
// What an agent asks of its host is judged by the same gates as what an agent asks
// of an MCP server: each request is a call of a tool of a server that is named
// like the agent, so that one rule can speak of both. A run is a session of its
// own; the servers that the configuration gives it are started through tg-shim and
// belong to that session.
//
// A run has one life. It ends with its answer, its time, whoever asked for it, or
// the daemon, and with it ends every process that it started.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Exit statuses of a run; an agent that fails by itself has its own.
const (
	ExitOK        = 0
	ExitFailed    = 1   // the agent answered with an error, or ended without an answer
	ExitTimeout   = 124 // as of timeout(1)
	ExitOurs      = 125
	ExitCancelled = 130 // as of a program that SIGINT ended
)

// MaxPrompt is how long a prompt may be, in bytes.
const MaxPrompt = 1 << 20

// Options are what runs need of others.
type Options struct {
	// Config returns the configuration in force.
	Config func() *config.Config
	// Open makes a started run a session.
	Open func(ctx context.Context, s Started) (Session, error)
	// Socket is what the shims of a run's servers join.
	Socket string
	// Shim returns the path of tg-shim.
	Shim func() (string, error)
	// Getenv looks a variable of the daemon's own environment up.
	Getenv func(string) string
	Build  string // told to agents
	Logger *slog.Logger
}

// Started is a run whose process is there and has been told nothing yet.
type Started struct {
	Session string // id
	Agent   string // name, and id of the server that its requests are judged under
	Launch  string // hex SHA-256 over the command
	Command []string
	Cwd     string
	PID     int
	Verdict func(gate.Verdict)  // receives what is judged; does not block
	Leave   func(reason string) // told that the session is to end; does not block
}

// Session is a run among the sessions of the daemon.
type Session interface {
	// Judge is what the run's requests are submitted to.
	Judge() *gate.Attachment
	// Close ends the session. The process of the run has ended before.
	Close(ctx context.Context)
}

// Request is what somebody wants done.
type Request struct {
	Name    string // of the agent
	Prompt  string
	Cwd     string        // absolute
	Timeout time.Duration // 0: that of the configuration
	Env     map[string]string
}

// Kind says what an event tells of.
type Kind uint8

const (
	KindStarted Kind = iota + 1 // ID, Session, PID
	KindText                    // Text: a part of the answer
	KindUpdate                  // Word, Text, Raw: anything else that the agent tells
	KindStderr                  // Text: one line, escaped
	KindHeld                    // Tool, Approval, Text: it waits for a person, and why
	KindDenied                  // Tool, Text: why
	KindNote                    // Text: what we have to say
)

// Event is one thing that happened in a run.
type Event struct {
	Kind     Kind
	Text     string
	Word     string
	Raw      []byte
	Tool     string
	Approval string
	ID       string
	Session  string
	PID      int
}

// Result is how a run ended.
type Result struct {
	Exit   int
	Reason string // why Exit is not 0
	Stop   string // as the agent said it
	Raw    []byte // raw JSON that a typed agent ended with; nil for none
}

// Causes with which a run's context ends.
var (
	errTimeout   = errors.New("its time is up")
	errCancelled = errors.New("cancelled")
	errStopping  = fmt.Errorf("the daemon is ending: %w", gate.ErrNotRunning)
	errClosed    = errors.New("its session was closed")
	errOver      = errors.New("its turn is over")
)

// Runs are the headless agents of a daemon. It is safe for concurrent use.
type Runs struct {
	options Options
	wait    sync.WaitGroup // of the runs

	mu      sync.Mutex // guards what follows
	running []*run     // oldest first
	last    uint64
	closing bool
}

// New returns runs, of which there are none yet.
func New(o Options) *Runs {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Runs{options: o}
}

// Run runs an agent and returns when nothing of it runs any more. What happens is
// sent to events, which the caller must read until Run has returned; who stops
// reading when the run is over its time is not waited for. When ctx ends, so does
// the run.
//
// An error says that there was no run: no agent of that name is gate.ErrNotFound,
// too many at once gate.ErrFull, a request that can't be meant gate.ErrInvalid.
// What goes wrong later is in the Result.
func (r *Runs) Run(ctx context.Context, q Request, events chan<- Event) (Result, error) {
	one, err := r.begin(q, events)
	if err != nil {
		return Result{}, err
	}
	defer r.end(one)
	return one.run(ctx), nil
}

func (r *Runs) begin(q Request, events chan<- Event) (*run, error) {
	c := r.options.Config()
	a := c.Agents[q.Name]
	if a == nil {
		return nil, fmt.Errorf("there is no agent %q in the configuration; see: tgctl run --list: %w", q.Name, gate.ErrNotFound)
	}
	one, err := newRun(r, c, a, q, events)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", q.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing:
		return nil, fmt.Errorf("run %s: %w", q.Name, errStopping)
	case len(r.running) >= c.Limits.Runs:
		return nil, fmt.Errorf("run %s: %d agents run already, and limits.runs allows no more: %w", q.Name, len(r.running), gate.ErrFull)
	}
	r.last++
	one.id = fmt.Sprintf("R-%d", r.last)
	r.running = append(r.running, one)
	r.wait.Add(1)
	return one, nil
}

func (r *Runs) end(one *run) {
	r.mu.Lock()
	r.running = slices.DeleteFunc(r.running, func(other *run) bool { return other == one })
	r.mu.Unlock()
	r.wait.Done()
}

// Cancel asks a run to end early; false when there is none of that id.
func (r *Runs) Cancel(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.running {
		if one.id == id {
			one.stop(errCancelled)
			return true
		}
	}
	return false
}

// Known is an agent of the configuration.
type Known struct {
	Name string
	*config.Agent
	Running int // runs of it under way
}

// Agents returns those of the configuration in force, by name.
func (r *Runs) Agents() []Known {
	c := r.options.Config()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Known
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		k := Known{Name: name, Agent: c.Agents[name]}
		for _, one := range r.running {
			if one.request.Name == name {
				k.Running++
			}
		}
		all = append(all, k)
	}
	return all
}

// Close ends all runs, soon, and returns when they have ended. No other begins.
func (r *Runs) Close() {
	r.mu.Lock()
	r.closing = true
	for _, one := range r.running {
		one.stop(errStopping)
	}
	r.mu.Unlock()
	r.wait.Wait()
}
