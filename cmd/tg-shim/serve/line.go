package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
)

// daemonConn connects to the daemon, which may be a different process each time.
type daemonConn struct {
	attach.Daemon
	limit  time.Duration // how long to wait for a daemon
	failed chan struct{} // holds a token: nobody answered the last call
}

// retry calls try until it succeeds, the daemon refuses for good, or limit has passed. The
// error is that of the last try.
func (l *daemonConn) retry(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const first, last = 5 * time.Millisecond, 250 * time.Millisecond
	for wait := first; ; wait = min(2*wait, last) {
		err := try(ctx)
		var status *attach.Status
		refused := errors.As(err, &status)
		select {
		case <-l.failed: // an older failure
		default:
		}
		if err != nil && !refused && ctx.Err() == nil { // otherwise it may only have been slow
			select {
			case l.failed <- struct{}{}:
			default:
			}
		}
		if err == nil || refused && !status.IsTemporary() {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// started reports to the daemon that it alone has its descriptors now, and the process of the
// server. With pid 0 the server could not be started, for a reason, or was not to be started.
func (s *shim) started(ctx context.Context, pid int, reason string) {
	err := s.line.retry(ctx, s.line.limit, func(ctx context.Context) error {
		return s.line.Started(ctx, s.Hello.Attachment, pid, reason)
	})
	// If the report does not arrive, the daemon closes the pipes, or has died and nobody holds
	// them.
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "tg-shim: server %q: tell the daemon of it: %v\n", s.Hello.Server, err)
	}
}

var errSignalled = errors.New("ended by a signal")

// attach hands the descriptors to the daemon. It must precede the start of the server, so that
// a server never runs ungoverned. The error is an [*attach.Status] if the daemon refused.
func (s *shim) attach(ctx context.Context) (w *attach.Welcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with ctx
		select {
		case <-s.signals:
			cancel(errSignalled)
		case <-ctx.Done():
		}
	}()
	fds := s.pipes.descriptors()
	err = s.line.retry(ctx, s.line.limit, func(ctx context.Context) error {
		w, err = s.line.Attach(ctx, &s.Hello, fds...)
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
