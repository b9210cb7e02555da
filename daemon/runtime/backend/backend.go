// Package backend lets one MCP server serve many sessions.
//
// A server on pipes assumes that it has one client. A [Pool] starts each server once, and to every
// client that joins ([Member]) the server looks like its own. The pool translates ids to make that
// work. It forwards each request of a client with an integer id of its own, spliced in for the
// client's id; the answer gets the client's id back byte for byte. Progress tokens, the ids in
// cancellations, and the ids of subscriptions (2026-07-28) are treated the same way. No other byte
// changes: nothing is decoded and encoded again.
//
// # What a client never gets
//
// A client never gets a message that another client caused. A message with an id (answers,
// progress, tasks, subscriptions) goes to the owner of that id. MCP has no ids for messages that a
// server sends of its own accord, so these rules apply:
//
//   - A request of the server (sampling, elicitation) goes to the only client that has calls open.
//     If several clients have calls open, or none of several clients has, the request is refused:
//     the pool never guesses.
//   - To make that rare, calls take turns if their clients declared that they answer such requests;
//     see below.
//   - A log message goes to the only client that has requests open. Otherwise it is dropped, unless
//     there has been only one client.
//   - A notification about no client in particular (changed lists) goes to all clients that have
//     finished their handshake. A notification about a resource goes to its subscribers.
//
// This works if a server sends such a request only while the client's request for which it does so
// is open, as MCP demands, and if a call that was cancelled and has been silent for
// [Options.Settle] causes no more requests.
//
// # Turns
//
// A call may make the server ask the client, unless it is known not to. The pool learns which tools
// ask: a tool that has answered without asking is quiet, and calls of quiet tools run concurrently.
// A call of a tool that is not known yet, or has asked before, runs while no call of another client
// does. Calls of one client always run concurrently. A waiting call is queued for at most
// [Options.Turn]; then it is sent, and a request of the server that can't be attributed is refused.
// Clients that declared neither sampling nor elicitation take no turns. Neither do requests of the
// modern era, in which servers ask within answers.
//
// # What is shared
//
// The clients share the process and all its state. A later handshake is answered with the server's
// answer to the first, if it asks for the same protocol version and declares the same capabilities.
// Clients with another handshake share another process. A server that ends is restarted, and its
// state is restored: handshake, log level, subscriptions. Requests that arrive meanwhile wait;
// requests that the ended process had not answered are answered with an error.
//
// Many servers ask for roots once and keep them. So clients that share a process must have the same
// roots: once a server has asked, the pool asks each client that declares roots, and moves a client
// with other roots to another process.
package backend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

var (
	// ErrSlow reports that a client did not read its lines.
	ErrSlow = errors.New("the client reads too slowly")
	// ErrStopped reports that the pool is stopping or has stopped.
	ErrStopped = errors.New("the daemon is stopping")
	// ErrLeft reports that the client has left or was removed.
	ErrLeft = errors.New("the client has left the shared server")
	// ErrDisagrees reports that a restarted server does not answer the handshake as before.
	ErrDisagrees = errors.New("the shared server answers the handshake differently after its restart")
)

// Spec identifies a server. Clients share a process if server, launch, executable, directory and
// environment are equal. The environment is compared, and passed to the server, without the names
// that differ between sessions and that no server needs; see [Shared].
type Spec struct {
	Server     string   // server id
	Launch     string   // hash of what is started
	Executable string   // absolute path; if empty, Command is looked up
	Command    []string // with arguments
	Cwd        string
	Env        []string // NAME=value
}

// Options configures a Pool. The default of each field is in parentheses.
type Options struct {
	Logger *slog.Logger // (none)

	// Idle is how long a server without clients keeps running (5 minutes).
	Idle time.Duration
	// Turn is how long a call waits at most for the calls of other clients (1 minute).
	Turn time.Duration
	// Settle is how long the messages of the server may be caused by a call that was cancelled or
	// whose client left (5 seconds).
	Settle time.Duration
	// Restart is how long a request waits at most for a server that is being restarted (1 minute).
	Restart time.Duration
	// Policy says how often a server is restarted (3 times, with backoff).
	Policy supervise.Policy
	// Handshake is the timeout of the handshake with a restarted server (1 minute).
	Handshake time.Duration

	// Ended, if set, is called each time a process has ended; how is nil if it could not be
	// started. It must not block or call the pool.
	Ended func(server string, how *child.State)
}

// Client is the user of a server. Its methods are called by any goroutine, one at a time except for
// Gone.
type Client interface {
	// Deliver takes one line of the server, without line end. The line is valid only during the
	// call. Deliver must not block or call this package. It returns false if its buffer is full;
	// then the client is removed with ErrSlow.
	Deliver(line []byte) (ok bool)
	// Gone reports that no more lines will come, and why. It is called once, unless the client
	// calls Leave first.
	Gone(err error)
}

func (o Options) withDefaults() Options {
	supervise.Default(&o.Idle, 5*time.Minute)
	supervise.Default(&o.Turn, time.Minute)
	supervise.Default(&o.Settle, 5*time.Second)
	supervise.Default(&o.Restart, time.Minute)
	supervise.Default(&o.Handshake, time.Minute)
	if o.Policy == (supervise.Policy{}) {
		o.Policy.Restarts = 3
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// process is the part of supervise.Process that the package needs.
type process interface {
	Run(ctx context.Context) error
	Status() supervise.Status
	Tail() *supervise.Tail
	Restart(ctx context.Context) error
}

var _ process = (*supervise.Process[*talk])(nil)

// Limits for each client.
const (
	maxOpenRequests = 1024     // requests without an answer, including cancelled ones
	mostBytes       = 16 << 20 // size of the requests waiting for their turn
	mostTasks       = 1024     // the server's tasks that belong to the client
	mostURIs        = 1024     // subscriptions
)
