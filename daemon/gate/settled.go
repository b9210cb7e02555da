package gate

import (
	"crypto/sha256"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// settled is what is kept of a call with a final verdict.
type settled struct {
	verdict Verdict // without its Line
	digest  [32]byte
	written [32]byte // digest of the line that was let through; only when hooks want its result
	at      time.Time

	// Of the call, as it was judged last.
	id      string
	side    wire.Side
	method  string
	subject string
	profile Profile
	trace   *Trace // until it is over
}

// settle keeps a final verdict and sends it.
func (a *Attachment) settle(c *Call, digest [32]byte, v Verdict) {
	if v.Move == Forward && c.answerer != "" {
		a.supply(c, digest)
		return
	}
	kept := settled{
		verdict: v, digest: digest, at: time.Now(),
		id: c.ID, side: c.Side, method: c.Method, subject: c.Subject, profile: c.Profile, trace: c.Trace,
	}
	if v.Inspect {
		kept.written = sha256.Sum256(v.Line)
	}
	kept.verdict.Line = nil
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
	if _, ok := a.done[v.Seq]; !ok {
		a.order = append(a.order, v.Seq)
		a.judged++
		if v.Move == Deny && !v.supplied {
			a.denied++
		}
		if a.shim.Calls != nil && c.Envelope.Kind == wire.Request {
			a.shim.Calls.Add(1)
		}
	}
	a.done[v.Seq] = kept
	if len(a.order) > remembered {
		a.gate.over(a.done[a.order[0]].trace, OutcomeForgotten)
		delete(a.done, a.order[0])
		a.order = a.order[1:]
	}
	a.tell(v)
}
