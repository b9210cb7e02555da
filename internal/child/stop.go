package child

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// Grace is how long a program may take to leave, step by step. Zero skips the
// wait.
type Grace struct {
	Stdin time.Duration // after its stdin was closed, before SIGTERM
	Term  time.Duration // after SIGTERM, before SIGKILL
}

// The two timings of the kill ladder.
var (
	// OurGrace is for where we are in charge.
	OurGrace = Grace{Stdin: 5 * time.Second, Term: 2 * time.Second}
	// LeavingGrace is for a shim whose agent is leaving: the common clients
	// send SIGTERM two seconds after they closed stdin and SIGKILL two seconds
	// later, and by then the server must have gone.
	LeavingGrace = Grace{Stdin: 1500 * time.Millisecond, Term: 1500 * time.Millisecond}
)

const (
	// settle is what the rest of a tree gets to leave by itself after its
	// leader did: a runner and its server are told by the same end of input,
	// but a helper that was left behind has nothing to wait for.
	settle = 500 * time.Millisecond
	// killWait bounds the wait for processes that were sent SIGKILL. Only the
	// kernel can hold one longer, in a system call that can't be interrupted.
	killWait = 5 * time.Second
	// The rest of a tree is not our child and can't be waited for: it is
	// looked for again, at first soon.
	firstLook, lastLook = 2 * time.Millisecond, 50 * time.Millisecond
)

// Stop ends the program and everything it started: it closes its stdin and
// waits, sends SIGTERM to the group and waits, sends SIGKILL, and returns how
// the program exited. Processes that left the group are found by descent and
// sent the same signals. After Stop none of them is left, but for those of another user
// and those that the kernel itself holds, and the readers of Stdout and Stderr reach
// their end.
//
// Stop may be called again and at the same time: every call returns when the
// one ladder has ended, and a call with a shorter grace hastens it for all.
// When ctx ends there is no grace left; Stop still returns only at the end.
func (c *Child) Stop(ctx context.Context, grace Grace) State {
	if c.ladder.ask(time.Now(), grace) {
		go c.descend()
	}
	select {
	case <-c.stopped:
	case <-ctx.Done():
		c.ladder.ask(time.Now(), Grace{})
		<-c.stopped
	}
	return c.final
}

// descend goes down the ladder, once.
func (c *Child) descend() {
	defer close(c.stopped)
	t := newTree(c)
	if c.gone(t) { // the usual end, by itself and with all that it had started
		c.stdin.Close()
		c.finish(t)
		return
	}
	t.look() // while the links from parent to child still stand

	c.stdin.Close()
	if c.ladder.wait(c.done, c.ladder.stdinDeadline) {
		end := time.Now().Add(settle)
		c.untilGone(t, func() time.Time { return earlier(end, c.ladder.stdinDeadline()) })
	}
	if !c.gone(t) {
		c.ladder.terminating(time.Now())
		t.signal(syscall.SIGTERM)
		t.signal(syscall.SIGCONT) // one that is stopped could not hear it
		c.untilGone(t, c.ladder.killDeadline)
	}
	c.kill(t)
	c.finish(t)
}

// kill ends what is left, if anything is.
func (c *Child) kill(t *tree) {
	for end := time.Now().Add(killWait); !c.gone(t) && time.Now().Before(end); {
		t.kill()
		pause := time.Now().Add(lastLook)
		c.untilGone(t, func() time.Time { return pause })
	}
}

// finish gives the leader's number back, and ends the streams.
func (c *Child) finish(t *tree) {
	c.final = State{Signal: syscall.SIGKILL}
	c.mu.Lock()
	select {
	case <-c.done:
		c.final = c.state
		c.reapLocked()
	default:
		c.abandoned = true
	}
	c.mu.Unlock()
	t.ended = true
	if family.end() {
		c.kill(t) // what nobody claimed while several children were running
	}
	t.close()
	reapOrphans()
	// Some process that could not be ended may still hold the other sides. An
	// error means that they are closed already.
	_ = c.stdout.end()
	_ = c.stderr.end()
}

// gone reports whether the leader has exited and nothing else is left that
// could be ended.
func (c *Child) gone(t *tree) bool {
	select {
	case <-c.done:
		return !t.look()
	default:
		return false
	}
}

// untilGone waits until nothing is left or the deadline has passed.
func (c *Child) untilGone(t *tree, deadline func() time.Time) {
	c.ladder.wait(c.done, deadline)
	for pause := firstLook; !c.gone(t) && time.Now().Before(deadline()); pause = min(2*pause, lastLook) {
		next := time.Now().Add(pause)
		c.ladder.wait(nil, func() time.Time { return earlier(next, deadline()) })
	}
}

// ladder is how far the patience of those who called Stop goes. Deadlines only
// move closer.
type ladder struct {
	mu      sync.Mutex
	asked   bool
	term    time.Duration // the shortest wait after SIGTERM that was asked for
	stdinBy time.Time     // when SIGTERM is due
	killBy  time.Time     // when SIGKILL is due
	changed chan struct{} // closed and replaced when a deadline moved
}

// ask adds a caller's grace and reports whether it is the first.
func (l *ladder) ask(now time.Time, g Grace) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stdinBy, killBy := now.Add(g.Stdin), now.Add(g.Stdin+g.Term)
	if !l.asked {
		l.asked, l.term, l.stdinBy, l.killBy = true, g.Term, stdinBy, killBy
		return true
	}
	l.term = min(l.term, g.Term)
	l.stdinBy = earlier(l.stdinBy, stdinBy)
	l.killBy = earlier(l.killBy, killBy)
	l.tell()
	return false
}

// terminating says that SIGTERM is sent now, perhaps before it was due.
func (l *ladder) terminating(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killBy = earlier(l.killBy, now.Add(l.term))
	l.tell()
}

func (l *ladder) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ladder) stdinDeadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stdinBy
}

func (l *ladder) killDeadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killBy
}

// wait returns true when done is closed, false when the deadline, which may
// move meanwhile, has passed.
func (l *ladder) wait(done <-chan struct{}, deadline func() time.Time) bool {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		left := time.Until(deadline())
		select {
		case <-done:
			return true
		default:
		}
		if left <= 0 {
			return false
		}
		timer := time.NewTimer(left)
		select {
		case <-done:
			timer.Stop()
			return true
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
