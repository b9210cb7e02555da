// Package agent runs agents headless: without a terminal, for one prompt each.
//
// A run is a new process that gets its prompt over its standard input and reports its progress
// over its standard output. It speaks one of two protocols: the Agent Client Protocol (acp), in
// which the agent also sends its host requests for permissions, files and terminals, or lines
// of typed JSON (typed), in which it only answers.
//
// What an agent asks of its host is judged by the same gates as what it asks of an MCP server:
// each request is a call of a tool of a server that has the agent's name, so that one rule can
// cover both. A run is a session of its own; the servers that the configuration gives it are
// started through tg-shim and belong to that session.
//
// A run has one process. It ends with its answer, its timeout, its caller, or the daemon, and
// with it ends every process that it started.
package agent

import (
	"cmp"
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

// Exit codes of a run. An agent that fails by itself has its own.
const (
	ExitOK        = 0
	ExitFailed    = 1   // the agent answered with an error, or ended without an answer
	ExitTimeout   = 124 // as timeout(1) does
	ExitInternal  = 125
	ExitCancelled = 130 // as a program that SIGINT ended
)

// MaxPrompt is the maximum length of a prompt, in bytes.
const MaxPrompt = 1 << 20

// Options are the dependencies of Runs.
type Options struct {
	// Config returns the configuration in force.
	Config func() *config.Config
	// Open registers a started run as a session.
	Open func(ctx context.Context, s Started) (Session, error)
	// Socket is the socket that the tg-shim of a run's server attaches to.
	Socket string
	// Shim returns the path of tg-shim.
	Shim func() (string, error)
	// Getenv looks up a variable of the daemon's own environment.
	Getenv func(string) string
	Build  string // version, sent to agents
	Logger *slog.Logger
}

// Started describes a run whose process has started and has not been sent anything yet.
type Started struct {
	Session string // id
	Agent   string // name, and id of the server that its requests are judged under
	Launch  string // hex SHA-256 over the command
	Command []string
	Cwd     string
	PID     int
	Verdict func(gate.Verdict)  // called with each verdict; must not block
	Leave   func(reason string) // called when the session must end; does not block
}

// Session is the session of a run in the daemon.
type Session interface {
	// Judge returns the attachment to which the run's requests are submitted.
	Judge() *gate.Attachment
	// Close ends the session. The run's process must have ended.
	Close(ctx context.Context)
}

// Request asks for a run.
type Request struct {
	Name    string // of the agent
	Prompt  string
	Cwd     string        // absolute
	Timeout time.Duration // 0: that of the configuration
	Env     map[string]string
}

// Kind is the kind of an event, and says which of its fields are set.
type Kind uint8

const (
	KindStarted Kind = iota + 1 // ID, Session, PID
	KindText                    // Text: a part of the answer
	KindUpdate                  // Word, Text, Raw: any other update of the agent
	KindStderr                  // Text: one line, escaped
	KindHeld                    // Tool, Approval, Text: a call is held for a person, and why
	KindDenied                  // Tool, Text: why
	KindNote                    // Text: a remark of the daemon's
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

// Result says how a run ended.
type Result struct {
	Exit   int
	Reason string // why Exit is not 0
	Stop   string // stop reason of the agent
	Raw    []byte // raw JSON that a typed agent ended with; nil if none
}

// Causes of the cancellation of a run's context.
var (
	errTimeout   = errors.New("its timeout has passed")
	errCancelled = errors.New("cancelled")
	errStopping  = fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
	errClosed    = errors.New("its session was closed")
	errOver      = errors.New("its turn has ended")
)

// Runs holds the headless agents of a daemon. It is safe for concurrent use.
type Runs struct {
	options Options
	wait    sync.WaitGroup // for the runs

	mu      sync.Mutex // guards the fields below
	running []*run     // oldest first
	last    uint64
	closing bool
}

// New returns Runs without any run.
func New(o Options) *Runs {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Runs{options: o}
}

// Run runs an agent and returns when none of its processes runs any more. It sends what happens
// to events, which the caller must read until Run has returned; once the run must end, a caller
// that stops reading is not waited for. When ctx ends, the run ends.
//
// An error says that there was no run: gate.ErrNotFound if there is no agent with that name,
// gate.ErrFull if too many run, gate.ErrInvalid for an invalid request. Later failures are in
// the Result.
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
		return nil, fmt.Errorf("the configuration has no agent %q; see: tgctl run --list: %w", q.Name, gate.ErrNotFound)
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
		return nil, fmt.Errorf("run %s: %d agents are already running, the maximum of limits.runs: %w", q.Name, len(r.running), gate.ErrFull)
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

// Cancel asks a run to end early. It returns false if there is no run with that id.
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
	Running int // its current runs
}

// Agents returns the agents of the configuration in force, sorted by name.
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

// Close ends all runs and returns when they have ended. No other run can start.
func (r *Runs) Close() {
	r.mu.Lock()
	r.closing = true
	for _, one := range r.running {
		one.stop(errStopping)
	}
	r.mu.Unlock()
	r.wait.Wait()
}
