package relay

import (
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// The judge is told of requests that have had no answer for a while, and decides how long is
// too long. Most requests are answered before that and cost nothing.

const (
	// unansweredAfter is how long a request has no answer before it is reported to the judge.
	unansweredAfter = time.Second
	// maxUnanswered is how many requests are reported; further ones are counted.
	maxUnanswered = 1024
	// maxNamed is how much of an id or a method is reported, in bytes.
	maxNamed = 128
)

// silentRequests controls the search for requests without an answer.
type silentRequests struct {
	after    time.Duration // unansweredAfter; shorter in tests
	look     *time.Timer
	armed    bool // look is scheduled
	reported bool // the last report was not empty
}

// now returns the time in the unit of request.sent.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// awaitAnswers schedules a report of the open requests without an answer. s.mu must be held.
func (s *Session) awaitAnswers() {
	l := &s.silentRequests
	if l.armed || len(s.state.open[fromAgent])+len(s.state.open[fromServer]) == 0 && !l.reported {
		return
	}
	l.armed = true
	if l.look == nil {
		l.look = time.AfterFunc(l.after, func() {
			defer s.recoverPanic()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reportUnanswered()
		})
		return
	}
	l.look.Reset(l.after)
}

// reportUnanswered reports the requests without an answer to the judge. s.mu must be held.
func (s *Session) reportUnanswered() {
	l := &s.silentRequests
	l.armed = false
	if s.ctx.Err() != nil {
		return
	}
	silent, young := s.state.silent(uint64(time.Now().Add(-l.after).UnixMicro()))
	if len(silent) > 0 || l.reported {
		open, more := unanswered(silent)
		s.gate.SetUnanswered(open, more)
		l.reported = len(silent) > 0
	}
	if young || l.reported {
		s.awaitAnswers()
	}
}

// silent returns the requests that were sent by the given time and still wait for an answer,
// oldest first. young reports whether any were sent later.
func (s *state) silent(by uint64) (all []*request, young bool) {
	for _, open := range s.open {
		for _, r := range open {
			switch {
			case r.sent == 0 || r.cancelled || r.ours || r.method == "subscriptions/listen": // which is answered when it ends
			case r.sent > by:
				young = true
			default:
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return int(int64(a.sent) - int64(b.sent)) })
	return all, young
}

// unanswered converts requests for the judge. more counts the agent's requests that are not in
// open.
func unanswered(silent []*request) (open []gate.Unanswered, more int) {
	for _, r := range silent {
		switch {
		case len(open) < maxUnanswered:
			open = append(open, gate.Unanswered{
				Call: r.number, Side: r.side, Since: time.UnixMicro(int64(r.sent)),
				Method: r.method[:min(len(r.method), maxNamed)], ID: string(r.id[:min(len(r.id), maxNamed)]),
			})
		case r.side == fromAgent:
			more++
		}
	}
	return open, more
}
