package gate

import (
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// recorded makes the verdict again that an earlier daemon wrote down for c and
// could not send, or not surely. The second result is false when it was not a
// final one.
func (g *Gate) recorded(c *Call, r *record.Record) (Verdict, bool) {
	switch r.Verdict {
	case "forward":
		if r.Answerer != "" { // that answer ended with the daemon that waited for it
			return Verdict{}, false
		}
		return Verdict{Seq: c.Seq, Move: Forward, Line: c.Line, Approval: r.Approval, Inspect: g.wants(c, true)}, true
	case "deny":
		if r.Gate == gateExtension {
			c.hooks = &hooked{Hooked: Hooked{By: r.Extensions}}
		}
		ruling := Ruling{
			Move: Deny, Gate: r.Gate, Rule: r.Rule, Policies: r.Policies, Reason: r.Reason,
			Hidden: r.Gate == "visible", Code: codeOf(r), Parked: r.Parked,
		}
		return refusal(c, ruling, r.Approval), true
	}
	return Verdict{}, false
}

// judgedBefore looks for what an earlier daemon has written down for c. It is the
// verdict on it when the last result is true; else it may still say that a question
// is open, or that c was let through by a yes.
func (a *Attachment) judgedBefore(c *Call) (v Verdict, known *record.Record, final bool) {
	found, ok := a.earlier[c.Seq]
	if !ok {
		return Verdict{}, nil, false
	}
	r := found
	c.earlier = &r
	if r.Digest != hexOf(c.came.digest) || r.Direction != Direction(c.Side) {
		return Verdict{}, nil, false
	}
	v, final = a.gate.recorded(c, &r)
	// A yes that was not made use of is held against what is in force now, and so is a
	// call whose result hooks want and would not see.
	c.noted = final && v.Move == Forward && (r.Gate == "ask" && !r.Auto || v.Inspect && c.unseen() != "")
	if !final || c.noted {
		return Verdict{}, &r, false
	}
	a.gate.remember(a.ctx, c, v.Move)
	c.Trace.judged(&r)
	return v, &r, true
}

// known is what an earlier daemon has written down for c, which hooks have made of
// what was submitted; nil for nothing. It does not let c go on unjudged.
func (g *Gate) known(c *Call) *record.Record {
	r := c.earlier
	if r == nil || r.Digest != hexOf(c.sum()) {
		return nil
	}
	v, final := g.recorded(c, r)
	c.noted = final && v.Move == Forward
	return r
}

// codeOf is the JSON-RPC code of a recorded denial.
func codeOf(r *record.Record) int {
	switch {
	case r.Gate == "visible":
		return mcp.CodeInvalidParams
	case r.Gate == "rule", r.Gate == gatePin:
		return mcp.CodeRule
	case r.Gate == "permit":
		return mcp.CodePolicy
	case r.Gate == gateExtension:
		return mcp.CodeExtension
	case r.Gate == "ask" && r.Approval != "":
		return mcp.CodeRejected
	}
	return mcp.CodeGate
}
