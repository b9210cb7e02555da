// Package supervise keeps a program running that ThoughtGate depends on.
//
// A program has many lives. Each begins with a start and a handshake, goes on
// while the two sides talk, and ends when either has had enough. A [Process] is
// all of them in a row: it waits longer after each life that ended too soon, and
// gives up when its budget is spent; a life that has lasted a while gives the
// budget back. What is said in a life is not its concern: it is handed in as a
// conversation of any type, made from the two pipes, such as a wire.Conn.
//
// A caller that needs the program asks for the conversation of the present life
// ([Process.Conn]) or has it called ([Process.Do]), and waits while there is
// none. A call that was under way when its life ended has failed: whether the
// program acted on it nobody knows, so only a call that may be made twice is
// made again.
package supervise

import (
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
	// ErrEnded is a call whose program ended before it had answered.
	ErrEnded = errors.New("the program ended before it answered")
	// ErrFailed is a program that is not started again without being asked.
	ErrFailed = errors.New("the program has failed")
	// ErrStopped is a program that was stopped.
	ErrStopped = errors.New("the program has been stopped")
)

// State is what a process is doing.
type State uint8

// The states. Running and Degraded have a conversation; Degraded means that the
// program ended not long ago.
const (
	Starting State = iota
	Running
	Degraded
	Restarting
	Failed
	Stopped
)

// String is the state in lower case, as it is shown.
func (s State) String() string {
	names := [...]string{"starting", "running", "degraded", "restarting", "failed", "stopped"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", s)
}

// Status is a process at one moment.
type Status struct {
	State    State
	Since    time.Time // of State
	PID      int       // zero while no program runs
	Restarts int       // since the process was made
	Budget   int       // restarts left before it fails
	Next     time.Time // when it is started again, in Restarting
	Err      error     // why the last life ended
}

// Options say what to keep running and how. T is the conversation.
type Options[T any] struct {
	Name   string       // in errors and logs, as `extension "scrubber"`
	Logger *slog.Logger // nil for none

	// Spec says what to start; it is asked before each life. A Mark is added.
	Spec func() (child.Spec, error)
	// Open makes the conversation from the program's two pipes and returns at
	// once. Both are closed when the life ends, if not before.
	Open func(stdin io.WriteCloser, stdout io.ReadCloser) T
	// Run carries the conversation until the other side or ctx ends, and
	// returns when nothing of it runs any more.
	Run func(ctx context.Context, conn T) error
	// Handshake, when set, is made while Run runs. Until it has succeeded
	// nobody else gets the conversation. See [Permanent].
	Handshake func(ctx context.Context, conn T) error
	// Farewell, when set, asks the program to leave before its stdin is closed.
	Farewell func(ctx context.Context, conn T)
	// Lost reports whether an error of a call means that the conversation is
	// over. A call that fails after its life has ended is lost in any case.
	Lost func(error) bool
	// Changed, when set, is told of each new status, in order. It must not
	// block or call the process.
	Changed func(Status)
	// Ended, when set, is told of the end of each life: how the program ended, nil
	// where it could not be started. It must not block or call the process.
	Ended func(how *child.State)

	Policy           Policy
	HandshakeTimeout time.Duration // 10 s when zero
	FarewellTimeout  time.Duration // 500 ms when zero
	Grace            child.Grace   // child.OurGrace when zero
}

// Process is a program that is kept running. Its methods may be called by any
// number of goroutines.
type Process[T any] struct {
	options Options[T]
	start   func(child.Spec) (program, error)
	tail    *Tail
	again   chan struct{} // has an item when a restart was asked for

	mu      sync.Mutex // guards what follows
	status  Status
	lives   int           // that have begun
	life    *life[T]      // the one that can be talked to, or nil
	changed chan struct{} // closed and replaced with each status
	run     bool          // Run was called
	left    bool          // Run has returned
}

// program is what supervise needs of a child.
type program interface {
	PID() int
	Stdin() io.WriteCloser
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	Done() <-chan struct{}
	Wait() child.State
	Stop(context.Context, child.Grace) child.State
}

// New returns a process that is started by Run.
func New[T any](o Options[T]) *Process[T] {
	fallback := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	fallback(&o.HandshakeTimeout, 10*time.Second)
	fallback(&o.FarewellTimeout, 500*time.Millisecond)
	if o.Grace == (child.Grace{}) {
		o.Grace = child.OurGrace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Process[T]{
		options: o,
		start:   func(s child.Spec) (program, error) { return child.Start(s) },
		tail:    newTail(),
		again:   make(chan struct{}, 1),
		status:  Status{Since: time.Now(), Budget: o.Policy.Restarts},
		changed: make(chan struct{}),
	}
}

// Tail is what the program last said on its standard error, over all lives.
func (p *Process[T]) Tail() *Tail { return p.tail }

// Status returns how the process is.
func (p *Process[T]) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
