package gate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Tracer receives traces of how long calls take, and where. It is safe for concurrent use.
type Tracer interface {
	// Tracing reports whether traces are wanted now. It is called for every call, and neither
	// blocks nor allocates.
	Tracing() bool
	// Traced takes a finished trace and owns it from then on. It must not block.
	Traced(t *Trace)
}

// Trace describes one judged request: how long its parts took and how they ended. It does not
// hold the request's arguments. Only one goroutine at a time may use it. The methods of a nil
// Trace, that of an untraced call, do nothing.
type Trace struct {
	Attachment string
	Seq        uint64
	ID         string // correlation id, as the agent sees it
	Session    string
	Agent      string
	Server     string
	Side       wire.Side // the side that sent the request
	Method     string
	Target     string // name of the tool or prompt; empty for other methods
	MessageID  string // raw JSON of the id

	Parent string // traceparent as received; empty if absent
	State  string // tracestate as received; empty if absent

	Parts      []Part
	Start, End time.Time

	// The last verdict, and what decided it.
	Verdict  string // forward or deny
	Gate     string
	Rule     string
	Policies []string
	// Extensions are those that changed or denied the call, or its result.
	Extensions []string
	Profile    string
	Would      string // what production would have done, in development
	Approval   string
	Answer     string // state of the person's answer; empty if nobody was asked

	Outcome string // one of the constants below, or an outcome from the relay

	record *record.Record // of the last verdict, until it is settled
}

// Outcomes of a trace in addition to those of the relay: ok, tool_error, protocol_error,
// cancelled, lost and not_written.
const (
	OutcomeDenied      = "denied"
	OutcomeCancelled   = "cancelled"   // it was cancelled before there was a verdict
	OutcomeLost        = "lost"        // the agent has left, and the outcome is unknown
	OutcomeInterrupted = "interrupted" // the daemon stopped; the next one recovers the call
	OutcomeWithheld    = "withheld"    // an extension has withheld the result
	OutcomeForgotten   = "forgotten"   // too many later calls ended before it
)

// Stage is the kind of a part of a trace.
type Stage uint8

const (
	StageGate   Stage = iota + 1 // the gates; again after a person's approval
	StageCedar                   // within the gates
	StageAsk                     // the wait for a person
	StageHooks                   // the wait for extensions that see the call before the gates, or its result
	StageServer                  // from the verdict to the answer of the other side
)

// Part is one interval of a trace.
type Part struct {
	Stage      Stage
	Within     int // index of the enclosing part; -1: the call itself
	Start, End time.Time
}

const (
	mostParts      = 64   // per trace: a call with many asks is judged piece by piece
	maxTraceparent = 128  // bytes; current ones have 55
	maxTracestate  = 2048 // bytes
)

// traced gives c a trace, if traces are wanted.
func (a *Attachment) traced(c *Call) {
	if t := a.gate.Tracer; t == nil || c.Envelope.Kind != wire.Request || !t.Tracing() {
		return
	}
	c.Trace = &Trace{
		Attachment: c.Attachment, Seq: c.Seq, ID: c.ID, Session: c.Session, Agent: c.Agent, Server: c.Server, Side: c.Side,
		Method: c.Method, MessageID: string(c.Envelope.ID.Of(c.Line)), Start: c.Received,
		Parent: c.meta("traceparent", maxTraceparent), State: c.meta("tracestate", maxTracestate),
	}
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool, mcp.Prompt:
		c.Trace.Target = c.Subject
	}
}

// meta returns the text of a member of _meta. It is empty if there is none, if it is longer
// than most bytes, or if parsers could disagree about it.
func (c *Call) meta(name string, most int) string {
	if !c.Envelope.Meta.Present() {
		return ""
	}
	value, err := wire.Member(c.Line, c.Envelope.Meta, name)
	if err != nil || value.Len() > most {
		return ""
	}
	text, err := wire.Unquote(value, c.Line)
	if err != nil {
		return ""
	}
	return text
}

// Begin starts a part, and returns its index for Finish; -1 if there is none.
func (t *Trace) Begin(s Stage) int {
	if t == nil || len(t.Parts) >= mostParts || s == StageCedar && len(t.Parts) >= mostParts/2 {
		return -1
	}
	within := -1
	if s == StageCedar {
		within = slices.IndexFunc(t.Parts, func(p Part) bool { return p.Stage == StageGate && p.End.IsZero() })
	}
	t.Parts = append(t.Parts, Part{Stage: s, Within: within, Start: time.Now()})
	return len(t.Parts) - 1
}

// Finish ends the part with that index. It ignores -1.
func (t *Trace) Finish(part int) {
	if t != nil && part >= 0 {
		t.Parts[part].End = time.Now()
	}
}

// finish ends the parts that have not ended.
func (t *Trace) finish(now time.Time) {
	for i := range t.Parts {
		if t.Parts[i].End.IsZero() {
			t.Parts[i].End = now
		}
	}
}

// judged keeps r, which will hold the verdict.
func (t *Trace) judged(r *record.Record) {
	if t != nil {
		t.record = r
	}
}

// decided copies the record of a final verdict into the trace.
func (t *Trace) decided(v Verdict) {
	if t == nil {
		return
	}
	r := t.record
	t.Verdict, t.record = v.Move.String(), nil
	if r == nil {
		return
	}
	t.Gate, t.Rule, t.Policies, t.Profile, t.Would, t.Approval = r.Gate, r.Rule, r.Policies, r.Profile, r.Would, r.Approval
	t.Extensions = r.Extensions
	if v.Move == Deny && r.Verdict != record.Deny && r.Verdict != record.Park { // it could not be recorded
		t.Gate, t.Rule, t.Policies, t.Would = "accident", "", nil, ""
	}
}

// finishTrace ends a trace, which may be nil, and passes it on.
func (g *Gate) finishTrace(t *Trace, outcome string) {
	if t == nil {
		return
	}
	t.End, t.Outcome = time.Now(), outcome
	t.finish(t.End)
	g.Tracer.Traced(t)
}

// unheld ends the trace of a held call that gets no verdict because ctx has ended.
func (g *Gate) unheld(ctx context.Context, t *Trace) {
	if errors.Is(context.Cause(ctx), ErrWithdrawn) {
		g.finishTrace(t, OutcomeCancelled)
		return
	}
	g.finishTrace(t, OutcomeInterrupted)
}

// inspected takes the trace of a call whose result hooks want to see, when the server has
// answered. It returns nil if there is none.
func (a *Attachment) inspected(seq uint64) *Trace {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.done[seq]
	t := d.trace
	if t == nil || !d.inspect {
		return nil
	}
	d.trace = nil
	a.done[seq] = d
	t.finish(time.Now())
	return t
}

// finishUnhookedTrace ends the trace of a call whose result c was to be shown to hooks that no longer
// want it. seq is 0 for none.
func (a *Attachment) finishUnhookedTrace(seq uint64, c *Call) {
	if seq != 0 {
		a.gate.finishResultTrace(a.ctx, a.inspected(seq), c, Verdict{Move: Forward})
	}
}

// finishResultTrace ends the trace t, which may be nil, of a call whose result c got the verdict v, or none
// because ctx has ended.
func (g *Gate) finishResultTrace(ctx context.Context, t *Trace, c *Call, v Verdict) {
	if t == nil {
		return
	}
	outcome := outcomeOK
	switch {
	case v.Move == 0:
		g.unheld(ctx, t)
		return
	case v.Move == Deny:
		outcome = OutcomeWithheld
	case c.Envelope.IsError:
		outcome = "tool_error"
	}
	if h := c.hooks; h != nil {
		t.Extensions = append(slices.Clip(t.Extensions), h.By...)
	}
	g.finishTrace(t, outcome)
}

// overAll ends the traces of the calls that have a verdict and no outcome.
func (a *Attachment) overAll(outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for seq, d := range a.done {
		if d.trace != nil {
			a.gate.finishTrace(d.trace, outcome)
			d.trace = nil
			a.done[seq] = d
		}
	}
}
