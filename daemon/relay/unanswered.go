package relay

import (
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// The judge is told of the requests that have had no answer for a while; how long is too
// long it decides. Most are answered before, and cost nothing.

const (
	// unansweredAfter is how long a request has no answer before the judge is told.
	unansweredAfter = time.Second
	// maxUnanswered is how many requests it is told of; the others are counted.
	maxUnanswered = 1024
	// maxNamed is how much of an id or a method it is told, in bytes.
	maxNamed = 128
)

// silentRequests is how requests without an answer are looked for.
type silentRequests struct {
	after    time.Duration // unansweredAfter; less in tests
	look     *time.Timer
	armed    bool // look is set
	reported bool // the judge was told of some, last
}

// now is the time, as requests have it.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// awaitAnswers has the judge told, in a while, which of the open requests have no answer.
// s.mu is held.
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

// reportUnanswered tells the judge which requests have no answer. s.mu is held.
func (s *Session) reportUnanswered() {
	l := &s.silentRequests
	l.armed = false
	if s.ctx.Err() != nil {
		return
	}
	silent, young := s.state.silent(uint64(time.Now().Add(-l.after).UnixMicro()))
	if len(silent) > 0 || l.reported {
		open, more := unanswered(silent)
		s.gate.Unanswered(open, more)
		l.reported = len(silent) > 0
	}
	if young || l.reported {
		s.awaitAnswers()
	}
}

// silent returns the requests that were sent by then and have no answer that is waited
// for, oldest first, and whether any were sent since.
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

// unanswered is what the judge is told of requests, of which some may only be counted.
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
