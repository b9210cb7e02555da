package approval

import (
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// resolution is how exactly times are kept on disk.
const resolution = time.Microsecond

// expire ends each question when its time is up.
func (q *Queue) expire() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-q.wake:
		case <-q.stop:
			return
		}
		q.mu.Lock()
		next, any := q.expireDue()
		q.mu.Unlock()
		timer.Stop()
		if any {
			timer.Reset(next)
		}
	}
}

// expireDue ends the questions whose time is up, and forgets the answers that have
// waited long enough, and returns after what time the next one's is. The timer alone would be late after the machine has slept, so
// that whoever looks at questions calls it first.
func (q *Queue) expireDue() (next time.Duration, any bool) {
	if q.closed || len(q.open)+len(q.ready)+len(q.grants) == 0 {
		return 0, false
	}
	now := q.o.Now()
	boot, up := q.o.Boot()
	look := func(due time.Time, of string, deadline time.Duration, over func()) {
		left := due.Sub(now)
		if boot != "" && of == boot {
			left = min(left, deadline-up)
		}
		switch {
		case left <= 0:
			over()
		case !any || left < next:
			next, any = left, true
		}
	}
	for _, v := range q.grants {
		look(v.due, v.g.Boot, v.g.Deadline, func() {
			q.endGrant(context.Background(), v, "expired", "its time is up")
		})
	}
	for _, e := range q.ready {
		look(e.due, e.q.Boot, e.q.Deadline, func() { q.unready(e) })
	}
	for _, e := range q.open {
		// An expired call is not executed, recorded or not; end has logged it.
		look(e.due, e.q.Boot, e.q.Deadline, func() { _ = q.end(context.Background(), e, store.StateExpired) })
	}
	return next, any
}

// in is the moment after a while, on the machine's own running time.
func (q *Queue) in(while time.Duration) (boot string, deadline time.Duration) {
	boot, up := q.o.Boot()
	return boot, up + while
}

// left is how long something of an earlier daemon lasts that began at since and
// was to last until until. The clock on the wall may have been set meanwhile: it
// never gives more time than that was in all. What the machine's own running time
// leaves of it is looked at by [Queue.expireDue] alone, each time.
func (q *Queue) left(until, since time.Time) time.Duration {
	return min(until.Sub(q.o.Now()), until.Sub(since))
}
