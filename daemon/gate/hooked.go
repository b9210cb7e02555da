package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A line that hooks want to see is held while they are called, in a goroutine of its
// attachment: an extension may be slow, and later lines need not wait for it. All gates judge
// what the hooks return, as if it had arrived that way. If no hook wants the line, none of
// this happens.

const (
	// maxHooked and maxHookedBytes limit what one attachment may have hooks called for at
	// the same time. Anything beyond is denied.
	maxHooked      = 256
	maxHookedBytes = 64 << 20
	// maxAskedBytes is the maximum length in bytes of a call whose result hooks want to see: the
	// call is kept until the server has answered.
	maxAskedBytes = 4 << 20
)

// hookReason is the reason of the verdict that holds a line for hooks.
const hookReason = "waiting for extensions"

// hooked is what hooks have returned for a line.
type hooked struct {
	Hooked
	revision uint64 // of the hooks that were called
	about    *Call  // for a result, its call
	changed  bool   // the line is what they returned
}

// hooking is a line that hooks are to be called for.
type hooking struct {
	call  *Call
	about *Call     // for a result, its call
	value wire.Span // for a result, the part of the line that they see
	size  int
}

// hookable reports whether hooks may want c: a request of an agent, except for the canary,
// which shows that the gates work.
func (c *Call) hookable() bool {
	return c.Side == wire.FromAgent && c.Envelope.Kind == wire.Request && !c.isCanary()
}

// wants reports whether hooks want to see c before the gates or, if after is set, its result.
func (g *Gate) wants(c *Call, after bool) bool {
	return g.Hooks != nil && c.hookable() && g.Hooks.Wants(c, after)
}

// unseen returns why hooks could not see the result of c; empty if they can.
func (c *Call) unseen() string {
	if len(c.Line) > maxAskedBytes {
		return fmt.Sprintf("an extension must see its result, and the call is too long for that: at most %d bytes are allowed", maxAskedBytes)
	}
	return ""
}

// wanted returns what hooks are to be called for, or nil. An error means that hooks would have
// to see something that can't be shown to them.
func (a *Attachment) wanted(c *Call, s Submission) (*hooking, error) {
	switch {
	case a.gate.wants(c, false):
		return &hooking{call: c, size: len(c.Line)}, nil
	case a.gate.Hooks == nil || c.Side == wire.FromAgent || len(s.Request) == 0 || c.Envelope.Kind == wire.Error:
		return nil, nil
	}
	about, err := a.call(Submission{Seq: s.About, Side: wire.FromAgent, Line: s.Request})
	if err != nil {
		return nil, fmt.Errorf("the call that it answers can't be read: %w", err)
	}
	if !a.wrote(s.About, s.Request) {
		return nil, errors.New("it answers another call than the one that was forwarded")
	}
	if !a.gate.wants(about, true) {
		return nil, nil
	}
	value, err := c.outcome()
	if err != nil || !value.Present() {
		return nil, err
	}
	return &hooking{call: c, about: about, value: value, size: len(c.Line) + len(s.Request)}, nil
}

// wrote reports whether line may be what was forwarded under seq: it is, or the forwarded line
// is no longer remembered.
func (a *Attachment) wrote(seq uint64, line []byte) bool {
	digest := sha256.Sum256(line)
	a.mu.Lock()
	d, ok := a.done[seq]
	a.mu.Unlock()
	if ok {
		return d.written == digest
	}
	r, ok := a.earlier[seq]
	return !ok || r.Digest == hexOf(digest)
}

// outcome returns the part of an answer or of a task notification that hooks see: the result
// of the call. It returns the zero Span if there is none yet.
func (c *Call) outcome() (wire.Span, error) {
	e := &c.Envelope
	switch {
	case e.Kind == wire.Notification:
		return wire.Member(c.Line, e.Params, "result")
	case c.Method == "tasks/get":
		inner, err := wire.Member(c.Line, e.Result, "result")
		if err != nil || inner.Present() {
			return inner, err
		}
	}
	return e.Result, nil
}

// throughHooks sends a verdict that holds the line, calls the hooks, and then judges what they
// returned.
func (a *Attachment) throughHooks(h *hooking, known *record.Record) {
	c, of := h.call, (*Trace)(nil) // of the call whose result c is
	if h.about != nil {
		of = a.inspected(h.about.Seq)
	}
	a.gate.observe(c)
	c.heard = true
	for _, shown := range []*Call{c, h.about} {
		if shown != nil {
			shown.Profile = shown.inForce(a.gate.policy(shown))
		}
	}
	if c.Side == wire.FromAgent {
		c.Known = a.gate.factsOf(a.ctx, c)
	}
	room := func() bool {
		if a.hooking >= maxHooked || a.hooking > 0 && a.hookingBytes+h.size > maxHookedBytes {
			return false
		}
		a.hooking, a.hookingBytes = a.hooking+1, a.hookingBytes+h.size
		return true
	}
	ask := func(ctx context.Context) {
		c.hooks = a.gate.askHooks(ctx, h, cmp.Or(c.Trace, of))
		a.mu.Lock()
		a.hooking, a.hookingBytes = a.hooking-1, a.hookingBytes-h.size
		a.mu.Unlock()
		var all, sure []*openCall
		if ctx.Err() == nil {
			all, sure = a.mustWait(c)
		}
		v := a.judgeAfter(ctx, c, all, sure, known)
		a.gate.finishResultTrace(ctx, of, c, v)
	}
	if !a.holdCall(c, Verdict{Seq: c.Seq, Move: Ask, Reason: hookReason}, room, ask) {
		c.hooks = &hooked{Hooked: Hooked{Move: Deny, Reason: "too many calls and results wait for extensions; repeat it later"}, about: h.about}
		v, _ := a.judge(a.ctx, c, nil)
		a.gate.finishResultTrace(a.ctx, of, c, v)
	}
}

// edited calls hooks for the arguments with which a person replaced the agent's. It returns
// nil if there are none, or no hook wants to see them.
func (g *Gate) edited(ctx context.Context, a *asked, answer Answer, failed error) *hooked {
	if failed != nil || !answer.Approved || answer.Edit == nil {
		return nil
	}
	c, err := a.call.withArguments(answer.Edit, "a person")
	if err != nil || !g.wants(c, false) {
		return nil
	}
	c.Known = g.factsOf(ctx, c)
	return g.askHooks(ctx, &hooking{call: c}, a.call.Trace)
}

// askHooks calls the hooks and adds the time they took to t.
func (g *Gate) askHooks(ctx context.Context, h *hooking, t *Trace) *hooked {
	part := t.Begin(StageHooks)
	defer t.Finish(part)
	said := &hooked{revision: g.Hooks.Revision(), about: h.about}
	if h.about != nil {
		said.Hooked = g.Hooks.After(ctx, h.about, h.value.Of(h.call.Line))
	} else {
		said.Hooked = g.Hooks.Before(ctx, h.call)
	}
	return said
}

// judgeHeld judges a line that a verdict holds, and waits for a person if one has to be asked.
// It returns the last verdict.
func (a *Attachment) judgeHeld(ctx context.Context, c *Call, known *record.Record) Verdict {
	v, asked := a.judge(ctx, c, known)
	if asked == nil {
		return v
	}
	a.mu.Lock()
	a.sendVerdict(v)
	a.mu.Unlock()
	return a.await(ctx, asked)
}

// await waits for the person's answer and settles the resulting verdict.
func (a *Attachment) await(ctx context.Context, asked *asked) Verdict {
	a.notOpen(asked.call.Seq) // until it is approved
	v, ok := a.gate.await(ctx, asked)
	if ok {
		a.settle(asked.call, v)
	} else {
		a.unheld(ctx, asked.call)
	}
	return v
}

// unheld removes a held line that gets no verdict because ctx has ended.
func (a *Attachment) unheld(ctx context.Context, c *Call) {
	a.notOpen(c.Seq)
	a.mu.Lock()
	delete(a.held, c.Seq)
	a.mu.Unlock()
	a.gate.unheld(ctx, c.Trace)
}
