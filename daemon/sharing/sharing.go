// Package sharing leads from a shim to a server that it shares with others.
//
// A shim that has a server of its own holds both its pipes. One that shares a
// server has none: what it would write into the one pipe it sends to the daemon,
// and what it would read from the other the daemon sends to it. A [Way] is these
// two pipes. It outlives the shim's stream, so that a stream that tears loses no
// line and brings none twice: both sides number their lines, and keep each until
// the other has said that it took it over.
//
// Whoever reaches the daemon's socket can send lines, so the way itself sees to
// it that nothing reaches the server unjudged: a line passes when the table of
// methods lets it pass, or when a verdict of this very attachment has let it
// through, once for each verdict. It reads lines with the reader that the shims
// use. Who the server is, and how it is kept apart for its clients, is the matter
// of package backend.
package sharing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Launch is what a shim asks to have run.
type Launch struct {
	Server     string
	Launch     string // identifies the command line
	Executable string // absolute path of the program
	Command    []string
	Cwd        string   // absolute
	Env        []string // NAME=value, the whole environment
}

// Client is who the lines of a server come to. Its methods do not block, and may
// be called by any goroutine.
type Client interface {
	// Deliver takes one line for the client, which is valid during the call. It is
	// false when the client has left too much unread: then it is let go.
	Deliver(line []byte) bool
	// Gone says that the server will not serve the client any more, and why.
	Gone(err error)
}

// Member is one client's place at a server. Its methods are called by one
// goroutine.
type Member interface {
	// Write gives the server a line of the client. It waits while the server
	// does not read.
	Write(ctx context.Context, line []byte) error
	// Resume makes the handshake for a client that has had one with an earlier
	// process, of which it is to notice nothing. What it returns is closed when
	// that is done, and before that nothing is written; it stays open for a client
	// that is told that the server has gone.
	Resume(initialize []byte) <-chan struct{}
	// Leave gives the place up.
	Leave()
}

// Gone is why a server does not serve a client any more.
type Gone struct {
	Started bool // there was one
	Status  int  // what the shim should leave with
	Reason  string
}

// Sink is the stream that a shim has now. Its methods do not block.
type Sink interface {
	Read(seq uint64, line []byte)
	Wrote(seq uint64)
	Gone(g Gone)
}

// Join finds a place at a server that fits the launch, and starts one where none
// runs. The error wraps [ErrNotStarted] when that fails.
type Join func(ctx context.Context, launch Launch, client Client) (Member, error)

// ErrNotStarted says that there was no server that could have served.
var ErrNotStarted = errors.New("the server could not be started")

// errEnded is why a way is over that its shim has left.
var errEnded = errors.New("the shim has left")

// Book keeps the ways of all attachments. Its methods may be called by any
// number of goroutines at once.
type Book struct {
	join Join
	log  *slog.Logger

	ctx    context.Context // is over when the book is closed
	cancel context.CancelFunc
	wait   sync.WaitGroup // of the ways' goroutines

	mu   sync.Mutex // guards what follows
	ways map[string]*Way
}

// New returns a book of ways to the servers that join finds. The caller closes it.
func New(join Join, log *slog.Logger) *Book {
	ctx, cancel := context.WithCancel(context.Background()) // a lifetime: until Close
	return &Book{join: join, log: log, ctx: ctx, cancel: cancel, ways: map[string]*Way{}}
}

// Way returns the way of an attachment, nil when its server is its own. The first
// call for an attachment asks shared, and what it says holds until Forget; fresh says
// that this was it.
func (b *Book) Way(attachment string, shared func() bool) (w *Way, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, known := b.ways[attachment]
	if !known {
		if shared() {
			w = newWay(b)
		}
		b.ways[attachment] = w
	}
	return w, !known
}

// Forget ends the way of an attachment that will not come back.
func (b *Book) Forget(attachment string) {
	b.mu.Lock()
	w := b.ways[attachment]
	delete(b.ways, attachment)
	b.mu.Unlock()
	if w != nil {
		w.cancel(errEnded)
	}
}

// Close ends every way and returns when none is left.
func (b *Book) Close() {
	b.cancel()
	b.wait.Wait()
}
