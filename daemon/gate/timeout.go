package gate

import (
	"context"
	"sync"
	"time"
)

// timeouts ends contexts judgeTimeout after they began. With [context.WithTimeout], each
// judgement would set a timer of the runtime, and most would wake a thread that then waits for
// it. Since all timeouts are equally long, they end in the order in which they began, and one
// timer, which is set at most once in judgeTimeout, serves all of them.
type timeouts struct {
	mu      sync.Mutex // guards the fields below
	pending []*timeout // oldest first; the first one is not over
	timer   *time.Timer
	set     bool // timer is set
}

// timeout is one context that is to be ended.
type timeout struct {
	of     *timeouts
	at     time.Time
	cancel context.CancelCauseFunc
	over   bool // the context is not used any more
}

// context returns a context that ends after judgeTimeout with the cause errTooLong. The caller
// must call end when it does not use the context any more.
func (t *timeouts) context(ctx context.Context) (context.Context, *timeout) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &timeout{of: t, at: time.Now().Add(judgeTimeout), cancel: cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, one)
	if !t.set {
		t.setTimer()
	}
	return ctx, one
}

// end ends the context, which is not used any more.
func (one *timeout) end() {
	t := one.of
	t.mu.Lock()
	defer t.mu.Unlock()
	one.over = true
	t.removeOver()
	one.cancel(nil)
}

// setTimer sets the timer for the first pending timeout. t.mu must be held.
func (t *timeouts) setTimer() {
	t.set = true
	if d := time.Until(t.pending[0].at); t.timer == nil {
		t.timer = time.AfterFunc(d, t.expire)
	} else {
		t.timer.Reset(d)
	}
}

// removeOver removes the first timeouts that are over. t.mu must be held.
func (t *timeouts) removeOver() {
	n := 0
	for n < len(t.pending) && t.pending[n].over {
		n++
	}
	copy(t.pending, t.pending[n:])
	clear(t.pending[len(t.pending)-n:])
	t.pending = t.pending[:len(t.pending)-n]
}

// expire ends the contexts whose time has come.
func (t *timeouts) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for now := time.Now(); len(t.pending) > 0 && !t.pending[0].at.After(now); t.removeOver() {
		t.pending[0].over = true
		t.pending[0].cancel(errTooLong)
	}
	if t.set = len(t.pending) > 0; t.set {
		t.setTimer()
	}
}
