package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Run keeps the program running until ctx ends, then stops it and returns nil. A program that has
// failed is not restarted until Restart is called. If the policy has no restarts, Run returns when
// the only life ends, with the reason unless the program exited with status 0. Run may be called
// once.
func (p *Process[T]) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.run {
		p.mu.Unlock()
		return fmt.Errorf("%s: Run was already called", p.options.Name)
	}
	p.run = true
	p.mu.Unlock()

	defer p.leave()
	b := budget{policy: p.options.Policy.withDefaults()}
	for {
		end := p.live(ctx, &b)
		switch {
		case ctx.Err() != nil:
			p.set(Status{State: Stopped})
			return nil
		case end.asked:
			b.used = 0
			p.set(Status{State: Starting, Budget: b.left()})
			p.count()
			continue
		case p.options.Policy.Restarts == 0:
			return p.finishSingleLife(end)
		}
		if !p.waitForRestart(ctx, &b, end) {
			p.set(Status{State: Stopped, Err: end.err})
			return nil
		}
		p.count()
	}
}

func (p *Process[T]) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
}

// finishSingleLife sets the final status of a process with a single life and returns its error.
func (p *Process[T]) finishSingleLife(end ending) error {
	if end.clean {
		p.set(Status{State: Stopped})
		return nil
	}
	p.set(Status{State: Failed, Err: end.err})
	return end.err
}

// waitForRestart waits until the program may be restarted: for a delay if the budget allows, or until Restart
// is called. It returns false if ctx has ended.
func (p *Process[T]) waitForRestart(ctx context.Context, b *budget, end ending) bool {
	delay, ok := b.spend()
	if isPermanent(end.err) {
		ok = false
	}
	var due <-chan time.Time
	if ok {
		p.options.Logger.Warn("the program ended and is restarted", "process", p.options.Name, "err", end.err, "in", delay, "budget", b.left())
		p.set(Status{State: Restarting, Err: end.err, Next: time.Now().Add(delay), Budget: b.left()})
		timer := time.NewTimer(delay)
		defer timer.Stop()
		due = timer.C
	} else {
		p.options.Logger.Error("the program has failed and is not restarted", "process", p.options.Name, "err", end.err)
		p.set(Status{State: Failed, Err: end.err, Budget: b.left()})
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
		return true
	case <-p.restartRequests:
		b.used = 0
		p.set(Status{State: Starting, Err: end.err, Budget: b.left()})
		return true
	}
}

// Restart ends the current life, if there is one, and starts another with the whole budget. That
// also holds if the current life is still being started. Restart returns when the program can be
// used again, or an error if it can't. A process whose Run has returned is not restarted.
func (p *Process[T]) Restart(ctx context.Context) error {
	p.mu.Lock()
	before, begun := p.status, p.lives
	if !p.left {
		select {
		case p.restartRequests <- struct{}{}: // removed by nextLife
		default:
		}
	}
	p.mu.Unlock()
	for {
		p.mu.Lock()
		now, life, changed, left := p.status, p.life, p.changed, p.left
		p.mu.Unlock()
		switch {
		case life != nil && life.number > begun:
			return nil
		case left, now.State == Stopped, now.State == Failed && now.Restarts > before.Restarts:
			return p.unavailable("restart", now)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("restart %s: %w", p.options.Name, context.Cause(ctx))
		}
	}
}

func (p *Process[T]) unavailable(what string, s Status) error {
	sentinel := ErrFailed
	if s.State == Stopped {
		sentinel = ErrStopped
	}
	if s.Err == nil {
		return fmt.Errorf("%s %s: %w", what, p.options.Name, sentinel)
	}
	return fmt.Errorf("%s %s: %w: %w", what, p.options.Name, sentinel, s.Err)
}

// set changes the status. It keeps Restarts, and Since if the state is the same.
func (p *Process[T]) set(s Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(s)
}

func (p *Process[T]) setLocked(s Status) {
	s.Restarts = p.status.Restarts
	s.Since = time.Now()
	if s.State == p.status.State {
		s.Since = p.status.Since
	}
	p.status = s
	close(p.changed)
	p.changed = make(chan struct{})
	if p.options.Changed != nil {
		p.options.Changed(s)
	}
}

// count counts a restart.
func (p *Process[T]) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Restarts++
}

// ending is why a life ended.
type ending struct {
	asked bool  // by Restart
	clean bool  // the program exited by itself with status 0, after its handshake
	err   error // not nil unless asked or ctx ended
}

// ExitError reports that a program exited without being asked to.
type ExitError struct{ State child.State }

func (e *ExitError) Error() string { return e.State.String() }

// describe returns the error of a life that ended. It includes the program's last output, which
// usually shows the cause.
func (p *Process[T]) describe(reason error, state child.State, exited bool, said string) error {
	err := fmt.Errorf("%s: %w", p.options.Name, reason)
	switch {
	case !exited || isPermanent(reason):
	case errors.Is(reason, errExited):
		err = fmt.Errorf("%s ended: %w", p.options.Name, &ExitError{state})
	default:
		err = fmt.Errorf("%s ended: %w: %w", p.options.Name, &ExitError{state}, reason)
	}
	if said != "" {
		err = fmt.Errorf("%w; its last output: %s", err, said)
	}
	return err
}
