package gate

import (
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// recorded returns the verdict that a previous daemon recorded for c and did not send, or may
// not have sent. The second result is false if it was not a final one.
func (g *Gate) recorded(c *Call, r *record.Record) (Verdict, bool) {
	switch r.Verdict {
	case record.Forward:
		if r.Answerer != "" { // that answer ended with the daemon that waited for it
			return Verdict{}, false
		}
		return Verdict{Seq: c.Seq, Move: Forward, Line: c.Line, Approval: r.Approval, Inspect: g.wants(c, true)}, true
	case record.Deny, record.Park:
		if r.Gate == gateExtension {
			c.hooks = &hooked{Hooked: Hooked{By: r.Extensions}}
		}
		ruling := Ruling{
			Move: Deny, Gate: r.Gate, Rule: r.Rule, Policies: r.Policies, Reason: r.Reason,
			Hidden: r.Gate == "visible", Code: codeOf(r), Parked: r.Verdict == record.Park,
		}
		return refusal(c, ruling, r.Approval), true
	}
	return Verdict{}, false
}

// judgedBefore returns what a previous daemon recorded for c. If final is true, v is the
// verdict on c. Otherwise known may show that a question is open, or that an approval let c
// pass.
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
	// An unused approval is compared with the rules now in force. So is a call whose result
	// hooks want and could not see.
	c.noted = final && v.Move == Forward && (r.Gate == "ask" && !r.Auto || v.Inspect && c.unseen() != "")
	if !final || c.noted {
		return Verdict{}, &r, false
	}
	a.gate.remember(a.ctx, c, v.Move)
	c.Trace.judged(&r)
	return v, &r, true
}

// known returns what a previous daemon recorded for c as hooks have now changed it, or nil. It
// never lets c pass without being judged.
func (g *Gate) known(c *Call) *record.Record {
	r := c.earlier
	if r == nil || r.Digest != hexOf(c.sum()) {
		return nil
	}
	v, final := g.recorded(c, r)
	c.noted = final && v.Move == Forward
	return r
}

// codeOf returns the JSON-RPC code of a recorded denial.
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
