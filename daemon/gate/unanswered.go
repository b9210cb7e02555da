package gate

import (
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Unanswered is a forwarded request without an answer.
type Unanswered struct {
	Call   uint64 // its seq, also if it passed without being judged
	Side   wire.Side
	Method string
	ID     string // raw JSON
	Since  time.Time
}

// silence is what an attachment knows of requests without an answer. The attachment's mutex
// guards it.
type silence struct {
	open    []Unanswered    // oldest first
	more    int             // further requests of the agent
	orphans map[uint64]bool // seqs of the recorded orphans
	looking bool            // a goroutine looks for orphans
	look    chan struct{}   // capacity 1; makes that goroutine look again
}

// SetUnanswered sets the requests that have no answer, oldest first, and the number of further
// ones of the agent. It replaces what was set before.
func (a *Attachment) SetUnanswered(open []Unanswered, more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.silence
	s.open, s.more = open, more
	there := map[uint64]bool{}
	for _, u := range open {
		there[u.Call] = true
	}
	for call := range s.orphans {
		if _, judged := a.done[call]; !judged && !there[call] { // otherwise its outcome is still to come
			delete(s.orphans, call)
		}
	}
	if !s.looking && len(open) > 0 && a.gate.Orphan != nil {
		s.looking, s.look = true, make(chan struct{}, 1)
		a.wait.Go(a.findOrphans)
	}
	s.again()
}

// again makes the goroutine that looks for orphans look again.
func (s *silence) again() {
	select {
	case s.look <- struct{}{}:
	default: // it has not looked yet, or there is none
	}
}

// Silent returns how many requests of the agent have no answer, and since when the oldest of
// them has waited.
func (a *Attachment) Silent() (n int, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.silence.open {
		if u.Side == wire.FromAgent {
			if n++; n == 1 {
				since = u.Since
			}
		}
	}
	return n + a.silence.more, since
}

// findOrphans records each request that has had no answer for too long, until the attachment
// ends.
func (a *Attachment) findOrphans() {
	var known map[uint64]bool // recorded by a previous daemon
	if a.earlier != nil && a.gate.Orphaned != nil {
		known = a.gate.Orphaned(a.shim.Attachment)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.silence.look:
		case <-timer.C:
		}
		found, next := a.orphans()
		for i := range found {
			if !known[found[i].Call] {
				a.write(a.ctx, a.orphan(&found[i]), nil)
			}
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// orphans returns the requests that have become orphans since the last call, and when to call
// it again; 0: when something changes.
func (a *Attachment) orphans() (found []Unanswered, next time.Duration) {
	limit, now := a.gate.Orphan(), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.silence
	for _, u := range s.open {
		if s.orphans[u.Call] {
			continue
		}
		if left := limit - now.Sub(u.Since); left > 0 {
			return found, left // the others are younger
		}
		if s.orphans == nil {
			s.orphans = map[uint64]bool{}
		}
		s.orphans[u.Call] = true
		found = append(found, u)
	}
	return found, 0
}

// orphan returns the record of a request that has had no answer for too long.
func (a *Attachment) orphan(u *Unanswered) *record.Record {
	open := time.Since(u.Since)
	r := a.about(record.KindOrphan)
	r.Call, r.ID, r.Direction, r.Method, r.MessageID, r.Verdict = u.Call, correlation(a.shim.Attachment, u.Call), Direction(u.Side), u.Method, u.ID, "unanswered"
	r.LatencyUS, r.Reason = open.Microseconds(), fmt.Sprintf("%s has not answered for %v", answers(u.Side), open.Round(time.Second))
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, ok := a.done[u.Call]; ok {
		r.Tool, r.Profile = d.subject, string(d.profile)
	} else if e, ok := a.earlier[u.Call]; ok {
		r.Tool, r.Profile = e.Tool, e.Profile
	}
	return r
}

// answers returns the name of the side that answers requests of side.
func answers(side wire.Side) string {
	if side == wire.FromServer {
		return "the agent"
	}
	return "the server"
}

// lateAnswer is the reason in the outcome record of a call that was recorded as an orphan.
const lateAnswer = "it had been recorded as unanswered"
