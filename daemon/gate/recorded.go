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
		return Verdict{Seq: c.Seq, Move: Forward, Line: c.Line, Approval: r.Approval}, true
	case "deny":
		ruling := Ruling{
			Move: Deny, Gate: r.Gate, Rule: r.Rule, Policies: r.Policies, Reason: r.Reason,
			Hidden: r.Gate == "visible", Code: codeOf(r), Parked: r.Parked,
		}
		return Verdict{
			Seq: c.Seq, Move: Deny, Reason: r.Reason, Approval: r.Approval,
			Answer: mcp.Deny(c.Line, &c.Envelope, denial(c, ruling, r.Approval)),
		}, true
	}
	return Verdict{}, false
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
	case r.Gate == "ask" && r.Approval != "":
		return mcp.CodeRejected
	}
	return mcp.CodeGate
}
