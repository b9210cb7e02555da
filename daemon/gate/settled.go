package gate

import (
	"crypto/sha256"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// settled is what is kept of a call with a final verdict.
type settled struct {
	inspect bool     // hooks want its result
	written [32]byte // then the digest of the line that was let through
	at      time.Time
	id      string
	method  string
	subject string
	profile Profile
	trace   *Trace // until it is over
}

// settle sends a final verdict, and keeps what is asked for when the call is answered.
func (a *Attachment) settle(c *Call, v Verdict) {
	if v.Move == Forward && c.answerer != "" {
		a.supply(c)
		return
	}
	kept := settled{inspect: v.Inspect, at: time.Now(), id: c.ID, method: c.Method, subject: c.Subject, profile: c.Profile, trace: c.Trace}
	if v.Inspect {
		kept.written = sha256.Sum256(v.Line)
	}
	c.Trace.decided(v)
	if v.Move == Forward {
		c.Trace.Begin(StageServer)
	} else {
		a.notOpen(c.Seq)
		kept.trace = nil
		defer a.gate.over(c.Trace, v.outcome())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.held, v.Seq)
	a.judged++
	if v.Move == Deny && !v.supplied {
		a.denied++
	}
	if a.shim.Calls != nil && c.Envelope.Kind == wire.Request {
		a.shim.Calls.Add(1)
	}
	a.order = append(a.order, v.Seq)
	a.done[v.Seq] = kept
	if len(a.order) > remembered {
		a.gate.over(a.done[a.order[0]].trace, OutcomeForgotten)
		delete(a.done, a.order[0])
		a.order = a.order[1:]
	}
	a.tell(v)
}
