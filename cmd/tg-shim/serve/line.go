package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
)

// line is the connection to the daemon, or to the next one when that has died.
type line struct {
	socket string
	limit  time.Duration // how long to look for a daemon

	mu   sync.Mutex // guards conn
	conn *attach.Conn
}

// close ends the connection.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// lost is closed when the connection that there is now has ended.
func (l *line) lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.conn.Lost()
	}
	none := make(chan struct{})
	close(none)
	return none
}

// reach returns the connection, or makes one with fds if there is none that stands.
func (l *line) reach(ctx context.Context, fds ...int) (*attach.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		select {
		case <-l.conn.Lost():
		default:
			return l.conn, nil
		}
		_ = l.conn.Close()
	}
	var err error
	l.conn, err = attach.Dial(ctx, l.socket, fds...)
	return l.conn, err
}

// retry calls try until it succeeds, the daemon has refused for good, or limit is
// over. The error is that of the last try.
func (l *line) retry(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const first, last = 5 * time.Millisecond, 250 * time.Millisecond
	for wait := first; ; wait = min(2*wait, last) {
		err := try(ctx)
		var status *attach.Status
		if err == nil || errors.As(err, &status) && !status.Passing() {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// say makes a call, on another connection when the one there was has ended.
func (l *line) say(ctx context.Context, limit time.Duration, call func(context.Context, *attach.Conn) error) error {
	return l.retry(ctx, limit, func(ctx context.Context) error {
		c, err := l.reach(ctx)
		if err == nil {
			err = call(ctx, c)
		}
		return err
	})
}

// started tells the daemon that its descriptors are its own now, and what became of
// the server: with pid 0 it could not be started, for a reason, or was not to be.
func (s *shim) started(ctx context.Context, pid int, reason string) {
	err := s.line.say(ctx, s.line.limit, func(ctx context.Context, c *attach.Conn) error {
		return c.Started(ctx, s.Hello.Attachment, pid, reason)
	})
	// Who does not hear of it closes the pipes, or has died and nobody holds them.
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "tg-shim: server %q: tell the daemon of it: %v\n", s.Hello.Server, err)
	}
}

var errSignalled = errors.New("ended by a signal")

// attach joins the daemon and hands the descriptors over. It comes before the server
// is started, so that a server never runs ungoverned. The error is an
// [*attach.Status] when the daemon refused.
func (s *shim) attach(ctx context.Context) (w *attach.Welcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with over
		select {
		case <-s.signals:
			cancel(errSignalled)
		case <-over:
		}
	}()
	fds := s.pipes.descriptors()
	err = s.line.retry(ctx, s.line.limit, func(ctx context.Context) error {
		c, err := s.line.reach(ctx, fds...)
		if err != nil {
			return err
		}
		if w, err = c.Attach(ctx, &s.Hello); err != nil {
			s.line.close() // descriptors come once on a connection
		}
		return err
	})
	if errors.Is(context.Cause(ctx), errSignalled) {
		err = errSignalled
	}
	if err == nil && w.Reattach > 0 {
		s.line.limit = w.Reattach
	}
	return w, err
}
