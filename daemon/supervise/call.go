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

// Call says what may be done about a call.
type Call struct {
	// Name is what errors call it.
	Name string
	// Timeout bounds the call with all its waiting and repeating; zero leaves
	// that to the context.
	Timeout time.Duration
	// Idempotent says that the program may act on the call twice.
	Idempotent bool
}

// Do makes a call in the present life, for which it waits if there is none. An
// error of f is returned as it is, but when the life ended under the call: then
// the call is made once more in the next life if it is idempotent, or else the
// error is [ErrEnded]. When the time is over the error says so, and f's context
// has ended.
func (p *Process[T]) Do(ctx context.Context, call Call, f func(ctx context.Context, conn T) error) error {
	what := fmt.Sprintf("call %s of", call.Name)
	if call.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, call.Timeout,
			timeout(call.Timeout))
		defer cancel()
	}
	for again := call.Idempotent; ; again = false {
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

// timeout is a deadline that says how long it was.
type timeout time.Duration

func (t timeout) Error() string { return "no answer in " + time.Duration(t).String() }

// Is makes it a context.DeadlineExceeded.
func (t timeout) Is(target error) bool { return target == context.DeadlineExceeded }

func (p *Process[T]) lost(l *life[T], err error) bool {
	select {
	case <-l.ended:
		return true
	default:
		return errors.Is(err, ErrEnded) || (p.options.Lost != nil && p.options.Lost(err))
	}
}
