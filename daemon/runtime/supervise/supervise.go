// Package supervise keeps a program running that ThoughtGate depends on.
//
// A program has many lives. Each life begins with a start and a handshake, and ends when the
// program or its connection ends. A [Process] is the sequence of these lives: after each life that
// ended too soon it waits longer, and when its budget is spent it gives up. A life that lasts long
// enough restores the budget. The protocol is not its concern: the connection has any type, such as
// a rpc.Conn, and is made from the program's two pipes.
//
// A caller that needs the program gets the connection to the current life ([Process.Conn]) or has a
// function called with it ([Process.Do]). Both wait while there is none. If a life ends during a
// call, the call has failed, and whether the program acted on it is not known. So only calls that
// may be repeated are repeated.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

var (
	// ErrEnded reports that the program ended before it answered a call.
	ErrEnded = errors.New("the program ended before it answered")
	// ErrFailed reports that the program has failed and is restarted only on request.
	ErrFailed = errors.New("the program has failed")
	// ErrStopped reports that the program was stopped.
	ErrStopped = errors.New("the program was stopped")
)

// State is the state of a process.
type State uint8

// The states. In Running and Degraded there is a connection. Degraded means that the program ended
// recently.
const (
	Starting State = iota
	Running
	Degraded
	Restarting
	Failed
	Stopped
)

// String returns the state in lower case, as it is displayed.
func (s State) String() string {
	names := [...]string{"starting", "running", "degraded", "restarting", "failed", "stopped"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", s)
}

// Status is the status of a process at one moment.
type Status struct {
	State    State
	Since    time.Time // of State
	PID      int       // zero while no program runs
	Restarts int       // since New
	Budget   int       // restarts left before it fails
	Next     time.Time // when it is restarted; set in Restarting
	Err      error     // why the last life ended
}

// Options configures a Process. T is the type of the connection.
type Options[T any] struct {
	Name   string       // for errors and logs, such as `extension "scrubber"`
	Logger *slog.Logger // may be nil

	// Spec returns what to start. It is called before each life. A Mark is added.
	Spec func() (child.Spec, error)
	// Open makes the connection from the program's two pipes and must not block. Both pipes are
	// closed at the latest when the life ends.
	Open func(stdin io.WriteCloser, stdout io.ReadCloser) T
	// Run runs the connection until the other side or ctx ends. It returns when all its goroutines
	// have ended.
	Run func(ctx context.Context, conn T) error
	// Handshake, if set, is called while Run runs. Until it has succeeded, callers don't get the
	// connection. See [Permanent].
	Handshake func(ctx context.Context, conn T) error
	// Farewell, if set, asks the program to exit before its stdin is closed.
	Farewell func(ctx context.Context, conn T)
	// Lost reports whether an error of a call means that the connection is lost. A call that fails
	// after its life has ended is lost in any case.
	Lost func(error) bool
	// Changed, if set, is called with each new status, in order. It must not block or call the
	// process.
	Changed func(Status)
	// Ended, if set, is called at the end of each life. how is how the program ended, or nil if it
	// could not be started. Ended must not block or call the process.
	Ended func(how *child.State)

	Policy           Policy
	HandshakeTimeout time.Duration // default: 10 s
	FarewellTimeout  time.Duration // default: 500 ms
	Grace            child.Grace   // default: child.OurGrace
}

// Process is a program that is kept running. Its methods are safe for concurrent use.
type Process[T any] struct {
	options         Options[T]
	start           func(child.Spec) (program, error)
	tail            *Tail
	restartRequests chan struct{} // has an item when a restart was requested

	mu      sync.Mutex // guards the fields below
	status  Status
	lives   int           // number of lives so far
	life    *life[T]      // the life that callers may use, or nil
	changed chan struct{} // closed and replaced at each new status
	run     bool          // Run was called
	left    bool          // Run has returned
}

// program is the part of a child that the package needs.
type program interface {
	PID() int
	Stdin() io.WriteCloser
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	Done() <-chan struct{}
	Wait() child.State
	Stop(context.Context, child.Grace) child.State
}

// Default sets an option that is not positive to its default.
func Default(option *time.Duration, otherwise time.Duration) {
	if *option <= 0 {
		*option = otherwise
	}
}

// New returns a process. Run starts it.
func New[T any](o Options[T]) *Process[T] {
	Default(&o.HandshakeTimeout, 10*time.Second)
	Default(&o.FarewellTimeout, 500*time.Millisecond)
	if o.Grace == (child.Grace{}) {
		o.Grace = child.OurGrace
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Process[T]{
		options:         o,
		start:           func(s child.Spec) (program, error) { return child.Start(s) },
		tail:            newTail(),
		restartRequests: make(chan struct{}, 1),
		status:          Status{Since: time.Now(), Budget: o.Policy.Restarts},
		changed:         make(chan struct{}),
	}
}

// Tail returns the program's last lines of standard error, over all lives.
func (p *Process[T]) Tail() *Tail { return p.tail }

// Status returns the current status.
func (p *Process[T]) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
