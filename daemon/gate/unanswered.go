package gate

import (
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Unanswered is a request that was let through and has no answer.
type Unanswered struct {
	Call   uint64 // its seq, also of one that passed
	Side   wire.Side
	Method string
	ID     string // raw JSON
	Since  time.Time
}

// silence is what an attachment knows of requests without an answer. The attachment's
// mutex guards it.
type silence struct {
	open    []Unanswered    // oldest first
	more    int             // of the agent, that are not in it
	orphans map[uint64]bool // seqs of those that are on record
	looking bool            // a goroutine looks for them
	look    chan struct{}   // holds one; has it look again
}

// Unanswered takes note of which requests have no answer, oldest first, and of how
// many of the agent are not among them. It replaces what was told before.
func (a *Attachment) Unanswered(open []Unanswered, more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.silence
	s.open, s.more = open, more
	there := map[uint64]bool{}
	for _, u := range open {
		there[u.Call] = true
	}
	for call := range s.orphans {
		if _, judged := a.done[call]; !judged && !there[call] { // else its outcome is still to come
			delete(s.orphans, call)
		}
	}
	if !s.looking && len(open) > 0 && a.gate.Orphan != nil {
		s.looking, s.look = true, make(chan struct{}, 1)
		a.wait.Go(a.findOrphans)
	}
	s.again()
}

// again has the goroutine that looks for orphans look again.
func (s *silence) again() {
	select {
	case s.look <- struct{}{}:
	default: // it has not looked yet, or there is none
	}
}

// Silent returns how many requests of the agent have no answer, and since when the
// oldest of them has none.
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

// findOrphans puts each request on record that has had no answer for too long, until
// the attachment ends.
func (a *Attachment) findOrphans() {
	var known map[uint64]bool // put on record by an earlier daemon
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

// orphans returns the requests that have had no answer for too long since it was asked
// last, and when to ask again; 0 for when anything changes.
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

// orphan is the record of a request that has had no answer for too long.
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

// answers names who answers what side asks.
func answers(side wire.Side) string {
	if side == wire.FromServer {
		return "the agent"
	}
	return "the server"
}

// lateAnswer is what the outcome of a call says that was on record as an orphan.
const lateAnswer = "it was on record as unanswered"
