package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Conn returns the conversation of the present life, and waits for one while
// the program is being started. A program that has failed or was stopped is an
// error; so is the end of ctx.
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

// Do makes a call in the present life, for which it waits if there is none; the timeout
// bounds all of it, and errors call it name. An error of f is returned as it is, but when
// the life ended under the call: then f is called once more, in the next life, unless it
// has ended ctx. Whose life ends as well has the error [ErrEnded]. When the time is over
// the error says so, and f's context has ended.
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
		// The conversation is over, and so this life will be in a moment.
		select {
		case <-l.ended:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", what, p.options.Name, context.Cause(ctx))
		}
	}
}

// timedOut is a deadline that says how long it was.
type timedOut time.Duration

func (t timedOut) Error() string { return "no answer in " + time.Duration(t).String() }

// Is makes it a context.DeadlineExceeded.
func (t timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

func (p *Process[T]) lost(l *life[T], err error) bool {
	select {
	case <-l.ended:
		return true
	default:
		return errors.Is(err, ErrEnded) || (p.options.Lost != nil && p.options.Lost(err))
	}
}
