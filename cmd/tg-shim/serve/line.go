package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
)

// line is how the daemon is reached, which may be another one each time.
type line struct {
	attach.Daemon
	limit  time.Duration // how long to look for a daemon
	failed chan struct{} // holds one: nobody has answered the last call
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
		refused := errors.As(err, &status)
		select {
		case <-l.failed: // it says no more than this try
		default:
		}
		if err != nil && !refused && ctx.Err() == nil { // else it may only have taken its time
			select {
			case l.failed <- struct{}{}:
			default:
			}
		}
		if err == nil || refused && !status.Passing() {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// started tells the daemon that its descriptors are its own now, and what became of
// the server: with pid 0 it could not be started, for a reason, or was not to be.
func (s *shim) started(ctx context.Context, pid int, reason string) {
	err := s.line.retry(ctx, s.line.limit, func(ctx context.Context) error {
		return s.line.Started(ctx, s.Hello.Attachment, pid, reason)
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
