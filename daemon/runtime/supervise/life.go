package supervise

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

var (
	errExited = errors.New("the program exited")
	errTalk   = errors.New("the conversation ended")
)

// drainWait is the timeout for the connection to read what the program wrote before it ended.
const drainWait = 2 * time.Second

// life is one run of the program.
type life[T any] struct {
	number int // counted from 1
	conn   T
	ended  chan struct{} // closed when the life must not be used any more
}

// live runs one life: it starts the program, runs the connection, and returns when everything has
// ended.
func (p *Process[T]) live(ctx context.Context, b *budget) ending {
	began := time.Now()
	number := p.nextLife()
	c, err := p.begin()
	if err != nil {
		p.tellEnd(nil)
		return ending{err: fmt.Errorf("%s: %w", p.options.Name, err)}
	}
	spawned := time.Now()
	p.mu.Lock()
	p.status.PID = c.PID()
	p.mu.Unlock()
	before := p.tail.mark()

	var work sync.WaitGroup
	work.Go(func() { child.EscapeStderr(p.tail, c.Stderr()) }) // the tail never fails
	conn := p.options.Open(c.Stdin(), c.Stdout())
	talkCtx, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	l := &life[T]{number: number, conn: conn, ended: make(chan struct{})}
	talked := make(chan struct{})
	var talkErr error // valid once talked is closed
	work.Go(func() {
		defer close(talked)
		talkErr = p.options.Run(talkCtx, conn)
	})

	end := ending{err: p.greet(ctx, c, l, talked)}
	greeted := end.err == nil
	if greeted {
		p.options.Logger.Debug("the program runs", "process", p.options.Name, "pid", c.PID(),
			"spawn", spawned.Sub(began), "handshake", time.Since(spawned))
		end = p.attend(ctx, b, c, l, talked)
	}
	close(l.ended)
	exited := p.finish(ctx, c, conn, greeted && (end.asked || ctx.Err() != nil), talked)
	Await(talked, drainWait)
	hangUp()
	work.Wait()

	state := c.Wait()
	p.tellEnd(&state)
	switch {
	case errors.Is(end.err, errTalk) && talkErr != nil:
		end.err = fmt.Errorf("%w: %w", errTalk, talkErr)
	case errors.Is(end.err, errTalk) && exited:
		end.err = errExited // its output ended with it; the order in which the two are seen is random
	}
	end.clean = greeted && exited && state == (child.State{})
	if !end.asked && ctx.Err() == nil {
		end.err = p.describe(end.err, state, exited, p.tail.last(before))
	}
	return end
}

func (p *Process[T]) tellEnd(how *child.State) {
	if p.options.Ended != nil {
		p.options.Ended(how)
	}
}

// nextLife returns the number of the new life and removes a pending restart request, which this
// life satisfies. A later request needs another life, since Spec may have been called before it.
func (p *Process[T]) nextLife() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	select {
	case <-p.restartRequests:
	default:
	}
	return p.lives
}

// begin starts the program, with a mark by which its leftover processes can be found.
func (p *Process[T]) begin() (program, error) {
	spec, err := p.options.Spec()
	if err != nil {
		return nil, err
	}
	spec.Mark = "THOUGHTGATE_CHILD=" + rand.Text()
	return p.start(spec)
}

// greet makes the handshake. It fails early if the program or the connection ends.
func (p *Process[T]) greet(ctx context.Context, c program, l *life[T], talked <-chan struct{}) error {
	if p.options.Handshake == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.HandshakeTimeout,
		timedOut(p.options.HandshakeTimeout))
	defer cancel()
	cut, give := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.Done():
			give(errExited)
		case <-talked:
			give(errTalk)
		case <-cut.Done():
		}
	})
	err := p.options.Handshake(cut, l.conn)
	cause := context.Cause(cut)
	give(nil)
	watch.Wait()
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, errExited):
		return errExited
	case p.options.Lost != nil && p.options.Lost(err) && Await(c.Done(), drainWait):
		return errExited // its pipes close just before it exits
	case cause != nil && !errors.Is(err, cause):
		return fmt.Errorf("handshake: %w: %w", cause, err)
	}
	return fmt.Errorf("handshake: %w", err)
}

// attend makes the connection available to callers until there is a reason to end the life, which
// it returns.
func (p *Process[T]) attend(ctx context.Context, b *budget, c program, l *life[T], talked <-chan struct{}) ending {
	p.publish(l, b)
	defer p.withdraw(ctx)
	stable := time.NewTimer(b.policy.Stable)
	defer stable.Stop()
	for {
		select {
		case <-stable.C:
			p.settle(b)
		case <-ctx.Done():
			return ending{}
		case <-p.restartRequests:
			return ending{asked: true}
		case <-c.Done():
			return ending{err: errExited}
		case <-talked:
			return ending{err: errTalk}
		}
	}
}

// finish ends the program and everything that it started, and reports whether the program had
// exited by itself. If polite is set, it calls Farewell first.
func (p *Process[T]) finish(ctx context.Context, c program, conn T, polite bool, talked <-chan struct{}) (exited bool) {
	select {
	case <-c.Done():
		exited = true
	case <-talked:
		// A program that closes its output is usually about to exit.
		exited = Await(c.Done(), drainWait)
	default:
	}
	ctx = context.WithoutCancel(ctx)
	if polite && !exited && p.options.Farewell != nil {
		bye, cancel := context.WithTimeout(ctx, p.options.FarewellTimeout)
		p.options.Farewell(bye, conn)
		cancel()
	}
	c.Stop(ctx, p.options.Grace)
	return exited
}

// Await reports whether c was closed within d.
func Await(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// publish makes the connection available to callers.
func (p *Process[T]) publish(l *life[T], b *budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = l
	s := Status{State: Running, PID: p.status.PID, Budget: b.left()}
	if b.used > 0 {
		s.State, s.Err = Degraded, p.status.Err
	}
	p.setLocked(s)
}

// withdraw makes the connection unavailable.
func (p *Process[T]) withdraw(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = nil
	if ctx.Err() == nil && p.options.Policy.Restarts > 0 {
		s := p.status
		s.State = Restarting
		p.setLocked(s)
	}
}

// settle restores the budget of a program that has been stable.
func (p *Process[T]) settle(b *budget) {
	b.used = 0
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Budget = b.left()
	if s.State == Degraded {
		s.State, s.Err = Running, nil
	}
	p.setLocked(s)
}
