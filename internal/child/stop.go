package child

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// Grace is the grace period of each step of Stop. Zero skips the wait.
type Grace struct {
	Stdin time.Duration // after closing stdin, before SIGTERM
	Term  time.Duration // after SIGTERM, before SIGKILL
}

// The grace periods in use.
var (
	// OurGrace is for children whose end ThoughtGate decides.
	OurGrace = Grace{Stdin: 5 * time.Second, Term: 2 * time.Second}
	// LeavingGrace is for a tg-shim whose agent is leaving: the common clients send SIGTERM two
	// seconds after they closed stdin and SIGKILL two seconds later, and by then the server
	// must have ended.
	LeavingGrace = Grace{Stdin: 1500 * time.Millisecond, Term: 1500 * time.Millisecond}
)

const (
	// settle is the grace period of the remaining processes after their leader has exited by
	// itself: a runner and its server see the same end of input, but a helper that was left
	// behind has nothing to wait for.
	settle = 500 * time.Millisecond
	// killWait is how long to wait after SIGKILL. Only a system call that can't be interrupted
	// keeps a process longer.
	killWait = 5 * time.Second
	// The remaining processes are not children and can't be waited for, so they are polled,
	// with these delays at first and at most.
	firstLook, lastLook = 2 * time.Millisecond, 50 * time.Millisecond
)

// Stop ends the program and everything that it started. It closes stdin and waits, sends
// SIGTERM to the group and waits, sends SIGKILL, and returns how the program exited. Processes
// that left the group are found by descent and get the same signals. After Stop none of them is
// left, except those of another user and those that the kernel does not let end, and the
// readers of Stdout and Stderr reach the end.
//
// Stop may be called again and concurrently: all calls share one sequence of steps and return
// at its end, and a call with a shorter grace shortens it for all. When ctx ends no grace is
// left; Stop still returns only at the end.
func (c *Child) Stop(ctx context.Context, grace Grace) State {
	if c.ladder.ask(grace) {
		go c.runStopSteps()
	}
	select {
	case <-c.stopped:
	case <-ctx.Done():
		c.ladder.ask(Grace{})
		<-c.stopped
	}
	return c.final
}

// runStopSteps carries out the steps of Stop, once.
func (c *Child) runStopSteps() {
	defer close(c.stopped)
	t := newTree(c)
	if c.gone(t) { // usually the program and all that it started have ended by themselves
		c.stdin.Close()
		c.finish(t)
		return
	}
	t.refresh() // before a parent's death breaks the chain of descent

	c.stdin.Close()
	select {
	case <-c.done:
		c.untilGone(t, c.ladder.stdin.due, newDeadline(c.settle).due)
	case <-c.ladder.stdin.due:
	}
	if !c.gone(t) {
		c.ladder.terminating()
		t.signal(syscall.SIGTERM)
		t.signal(syscall.SIGCONT) // a stopped process can't handle SIGTERM
		c.untilGone(t, c.ladder.kill.due, nil)
	}
	c.kill(t)
	c.finish(t)
}

// kill kills what is left.
func (c *Child) kill(t *tree) {
	for end := time.Now().Add(killWait); !c.gone(t) && time.Now().Before(end); {
		t.kill()
		c.untilGone(t, newDeadline(lastLook).due, nil)
	}
}

// finish reaps the leader and ends the streams.
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
	if family.living.Add(-1) == 0 {
		c.kill(t) // orphans that could not be assigned while several children were running
	}
	t.close()
	reapOrphans()
	// A process that could not be ended may still hold the other ends. An error means that
	// the stream is closed already.
	_ = c.stdout.end()
	_ = c.stderr.end()
}

// gone reports whether the leader has exited and no other process is left that could be ended.
func (c *Child) gone(t *tree) bool {
	select {
	case <-c.done:
		return !t.refresh()
	default:
		return false
	}
}

// untilGone waits until gone, or until one of the deadlines is due.
func (c *Child) untilGone(t *tree, due, orDue <-chan struct{}) {
	wait := func(done <-chan struct{}, pause <-chan time.Time) bool {
		select {
		case <-due:
			return false
		case <-orDue:
			return false
		case <-done:
		case <-pause:
		}
		return true
	}
	again := wait(c.done, nil)
	for pause := firstLook; again && !c.gone(t); pause = min(2*pause, lastLook) {
		again = wait(nil, time.After(pause))
	}
}

// stopDeadlines holds the deadlines of the steps of Stop. Further calls only bring them forward.
type stopDeadlines struct {
	mu          sync.Mutex
	asked       bool
	term        time.Duration // the shortest requested wait after SIGTERM
	stdin, kill *deadline     // of SIGTERM and of SIGKILL
}

// deadline is a point in time that can be brought forward.
type deadline struct {
	due   chan struct{} // closed at the deadline
	at    time.Time
	timer *time.Timer
}

// newDeadline returns a deadline after a while.
func newDeadline(wait time.Duration) *deadline {
	d := &deadline{due: make(chan struct{}), at: time.Now().Add(wait)}
	d.timer = time.AfterFunc(wait, func() { close(d.due) })
	return d
}

func (d *deadline) bringForward(wait time.Duration) {
	if at := time.Now().Add(wait); at.Before(d.at) && d.timer.Stop() {
		d.at = at
		d.timer.Reset(wait)
	}
}

// ask applies a caller's grace and reports whether it is the first.
func (l *stopDeadlines) ask(g Grace) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked {
		l.asked, l.term = true, g.Term
		l.stdin, l.kill = newDeadline(g.Stdin), newDeadline(g.Stdin+g.Term)
		return true
	}
	l.term = min(l.term, g.Term)
	l.stdin.bringForward(g.Stdin)
	l.kill.bringForward(g.Stdin + g.Term)
	return false
}

// terminating records that SIGTERM is sent now, perhaps before it is due.
func (l *stopDeadlines) terminating() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill.bringForward(l.term)
}
