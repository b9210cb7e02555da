// Package backend lets one MCP server serve many sessions.
//
// A server that speaks over pipes believes that it has one client. This package
// keeps up that belief: a [Pool] starts each server once, and every client that
// joins it ([Member]) believes that the server is its own. What makes the two
// beliefs agree are the ids. Each request of a client goes on under an integer of
// ours, spliced in place of its id; the answer gets the client's own id back byte
// for byte. Progress tokens, the ids in cancellations, and the ids of subscriptions
// (2026-07-28) are treated alike. No other byte changes: nothing is decoded and
// written anew.
//
// # What a client never gets
//
// Nobody ever gets a message that another client caused. What can be told by an id
// (answers, progress, tasks, subscriptions) goes to the owner of that id. MCP has
// no ids for what a server says or asks on its own account, so these rules hold:
//
//   - A question (sampling, elicitation) goes to the client whose calls are the only
//     ones that are open. While the calls of several clients are, or of none though
//     there are several clients, the question is refused: we never guess.
//   - So that this is rare, calls take turns where clients have declared that they
//     can be asked, see below.
//   - A log line goes to the client whose requests are the only ones that are open.
//     Otherwise it goes to nobody, unless there has been only one client.
//   - What says nothing of a client (changed lists) goes to all that have finished
//     their handshake; what belongs to a resource goes to its subscribers.
//
// That holds as long as a server asks while the request for which it asks is open,
// as MCP demands, and as long as a call that was cancelled and has been silent for
// [Options.Settle] asks no more.
//
// # Turns
//
// A call may make a server ask unless it is known not to. Whether a tool asks is
// learned: one that has answered without asking is quiet, and quiet tools run side
// by side. One that is not known yet, or has asked before, runs while no other
// client's call does; calls of the same client always run side by side. Who waits
// waits in line, and no longer than [Options.Turn]: after that the call goes on, and
// a question that can't be attributed is refused. Clients that declared neither
// sampling nor elicitation take no turns, nor do requests of the modern era, whose
// questions are in answers.
//
// # What is shared
//
// The process and all that it remembers. A later handshake is answered with what
// the server said to the first, if it asks for the same protocol version and
// declares the same capabilities; a client with another handshake gets a process
// with those that agree with it. A server that ends is started again and brought to
// where it was: handshake, log level, subscriptions. What it was asked meanwhile
// waits; what it had not answered is answered with an error.
//
// Roots are asked for once by many servers, and kept. So clients that share a process
// have the same: once a server has asked, each client that declares roots is asked by
// us, and one that has others gets another process.
package backend

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

var (
	// ErrSlow is a client that did not take its lines.
	ErrSlow = errors.New("the client does not read what the server writes")
	// ErrStopped is a pool that is being stopped, or was.
	ErrStopped = errors.New("the daemon is stopping")
	// ErrLeft is a client that has left, or was let go.
	ErrLeft = errors.New("the client has left the shared server")
	// ErrDisagrees is a server that answers a handshake that is repeated other
	// than it did before.
	ErrDisagrees = errors.New("the shared server was started again and is not the same")
)

// Spec says which server is wanted. Clients share a process when server, launch,
// executable, directory and environment are equal. The environment is compared, and
// handed on, without the names that differ from session to session although no
// server needs them: see [Shared].
type Spec struct {
	Server     string   // id
	Launch     string   // what is started, as its hash
	Executable string   // absolute path; empty to look Command up
	Command    []string // with arguments
	Cwd        string
	Env        []string // NAME=value
}

// Options say how servers are kept. The zero value of each is what stands in
// parentheses.
type Options struct {
	Logger *slog.Logger // (none)

	// Idle is how long a server without clients is kept (5 minutes).
	Idle time.Duration
	// Turn is how long a call waits at most for those of other clients (1 minute).
	Turn time.Duration
	// Settle is how long a call that was cancelled, or whose client has left, may
	// still be the reason for what the server says (5 seconds).
	Settle time.Duration
	// Restart is how long a request waits at most for a server that is being
	// started again (1 minute).
	Restart time.Duration
	// Policy is how often a server is started again (3 times, with backoff).
	Policy supervise.Policy
	// Handshake bounds the repeated handshake with a server that was started again
	// (1 minute).
	Handshake time.Duration

	// Ended, when set, is told how each life of a process has ended, nil for one that
	// could not be started. It must not block or call the pool.
	Ended func(server string, how *child.State)
}

// Client is who joins a server. Its methods are called by any goroutine, one at a
// time but for Gone.
type Client interface {
	// Deliver takes one line of the server, without line end, valid during the call.
	// It must neither block nor call the package. False means that there is no room
	// for it: the client is let go with ErrSlow.
	Deliver(line []byte) (ok bool)
	// Gone says that there will be no more lines, and why. It is called once, unless
	// the client has called Leave before.
	Gone(err error)
}

func (o Options) withDefaults() Options {
	fallback := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	fallback(&o.Idle, 5*time.Minute)
	fallback(&o.Turn, time.Minute)
	fallback(&o.Settle, 5*time.Second)
	fallback(&o.Restart, time.Minute)
	fallback(&o.Handshake, time.Minute)
	if o.Policy == (supervise.Policy{}) {
		o.Policy.Restarts = 3
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// process is what the package needs of a supervise.Process.
type process interface {
	Run(ctx context.Context) error
	Status() supervise.Status
	Tail() *supervise.Tail
	Restart(ctx context.Context) error
}

var _ process = (*supervise.Process[*talk])(nil)

// What a client may have at most.
const (
	mostOpen  = 1024     // requests without an answer, cancelled ones included
	mostBytes = 16 << 20 // of requests that wait for their turn
	mostTasks = 1024     // tasks of the server's that are the client's
	mostURIs  = 1024     // subscriptions
)
