package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnwell is a health check that failed.
var errUnwell = errors.New("it does not pass its health check")

// check asks the program again and again, and sends why its life must end.
func (p *Process[T]) check(ctx context.Context, l *life[T], sick chan<- error) {
	h := p.options.Health
	ticker := time.NewTicker(h.Every)
	defer ticker.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked, cancel := context.WithTimeoutCause(ctx, h.Timeout, timeout(h.Timeout))
		err := h.Check(asked, l.conn)
		if err != nil && asked.Err() != nil {
			err = context.Cause(asked)
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && failures > 0:
			failures = 0
			p.well()
		case err != nil:
			failures++
			err = fmt.Errorf("%w: %w", errUnwell, err)
			p.unwell(err)
			if failures == h.Failures {
				sick <- err
				return
			}
		}
	}
}

// unwell says that a program that can still be talked to is not in order.
func (p *Process[T]) unwell(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = true
	s := p.status
	s.State, s.Err = Degraded, err
	p.setLocked(s)
}

// well takes that back, unless the program is degraded because it ended not
// long ago.
func (p *Process[T]) well() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = false
	s := p.status
	s.Err = p.fell
	if s.Err == nil {
		s.State = Running
	}
	p.setLocked(s)
}
