package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Conn returns the connection to the current life. While the program is being started, it waits for
// it. It returns an error if the program has failed or was stopped, or if ctx ends.
func (p *Process[T]) Conn(ctx context.Context) (T, error) {
	l, err := p.present(ctx, "talk to")
	if err != nil {
		var none T
		return none, err
	}
	return l.conn, nil
}

func (p *Process[T]) present(ctx context.Context, what string) (*life[T], error) {
	for {
		p.mu.Lock()
		s, l, changed := p.status, p.life, p.changed
		p.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case s.State == Failed || s.State == Stopped:
			return nil, p.unavailable(what, s)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s, which is %s: %w", what, p.options.Name, s.State, context.Cause(ctx))
		}
	}
}

// Do calls f with the connection to the current life, and waits for one if there is none. The
// timeout covers everything. name names the call in errors. Do returns an error of f as it is,
// unless the life ended during the call: then it calls f once more, in the next life. f may end ctx
// to prevent that. If that life ends too, the error is [ErrEnded]. After the timeout the error says
// so, and the context of f has ended.
func (p *Process[T]) Do(ctx context.Context, name string, timeout time.Duration, f func(ctx context.Context, conn T) error) error {
	what := fmt.Sprintf("call %s of", name)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timedOut(timeout))
	defer cancel()
	for again := true; ; again = false {
		l, err := p.present(ctx, what)
		if err != nil {
			return err
		}
		err = f(ctx, l.conn)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s %s: %w", what, p.options.Name, context.Cause(ctx))
		case !p.lost(l, err):
			return err
		case !again:
			return fmt.Errorf("%s %s: %w: %w", what, p.options.Name, ErrEnded, err)
		}
		// The connection is lost, so this life will end soon.
		select {
		case <-l.ended:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", what, p.options.Name, context.Cause(ctx))
		}
	}
}

// timedOut is the cause of an expired timeout, with its length.
type timedOut time.Duration

func (t timedOut) Error() string { return "no answer within " + time.Duration(t).String() }

// Is reports whether target is context.DeadlineExceeded.
func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

func (p *Process[T]) lost(l *life[T], err error) bool {
	select {
	case <-l.ended:
		return true
	default:
		return errors.Is(err, ErrEnded) || (p.options.Lost != nil && p.options.Lost(err))
	}
}
