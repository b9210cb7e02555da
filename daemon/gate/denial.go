package gate

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// denial puts a ruling into the words that the agent's model reads: what was
// refused by what, that nothing ran, and whether repeating can help.
func denial(c *Call, r Ruling, approval string) mcp.Denial {
	var b strings.Builder
	b.WriteString("Not executed. ")
	switch {
	case r.Gate == "accident":
		b.WriteString("ThoughtGate could not judge it: ")
		b.WriteString(r.Reason)
		b.WriteString(". Tell the user; repeating helps only after that is mended.")
	case r.Gate == gateExtension:
		return c.withheldOrBlocked(r, approval)
	case r.Gate == gatePin:
		b.WriteString(capital(r.Reason))
		b.WriteString(". Tell the user; repeating the call helps only after that.")
	case r.Parked:
		b.WriteString(capital(r.Reason))
		b.WriteString(". Repeat the same call to learn the outcome.")
	case r.Gate == "ask" && r.Code == mcp.CodeRejected:
		b.WriteString(strings.TrimSuffix(capital(r.Reason), "."))
		b.WriteString(". Repeating the call will not help; ask the user.")
	case r.Gate == "ask":
		b.WriteString(capital(r.Reason))
		if asker := by(r); asker != "" {
			b.WriteString(" (asked" + asker + ")")
		}
		b.WriteString(". Tell the user to look at `tgctl approvals`; then the call may be repeated.")
	default:
		b.WriteString("Refused")
		b.WriteString(by(r))
		if r.Reason != "" {
			b.WriteString(": ")
			b.WriteString(strings.TrimSuffix(r.Reason, "."))
		}
		b.WriteString(". Repeating the call will not help; ask the user.")
	}
	b.WriteString(" (")
	b.WriteString(c.ID)
	b.WriteString(")")
	return mcp.Denial{
		Code: r.Code, Text: b.String(), Gate: r.Gate, ErrorType: errorType(r), Reason: r.Reason,
		Approval: approval, Correlation: c.ID, Policies: r.Policies, Hidden: r.Hidden,
		Method: c.Method, Modern: c.Modern, Supported: supported(c),
	}
}

// supported is what a client may fall back to whose revision nobody knows here:
// what the server has said it speaks, or everything that is known.
func supported(c *Call) []string {
	if len(c.Revisions) > 0 {
		return c.Revisions
	}
	return mcp.Revisions()
}

func by(r Ruling) string {
	switch {
	case len(r.Policies) > 0:
		return " by policy " + strings.Join(r.Policies, ", ")
	case r.Rule != "":
		return " by rule " + r.Rule
	}
	return ""
}

func errorType(r Ruling) string {
	switch {
	case r.Gate == "accident":
		return "accident"
	case r.Gate == gatePin:
		return "definition_held"
	case r.Parked:
		return "approval_pending"
	case r.Code == mcp.CodeExpired:
		return "approval_expired"
	case r.Code == mcp.CodeRejected:
		return "approval_rejected"
	case len(r.Policies) > 0:
		return "policy_denied"
	}
	return "rule_denied"
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// withheldOrBlocked says that an extension does not let a call go on, or its result
// come back. The call was executed then.
func (c *Call) withheldOrBlocked(r Ruling, approval string) mcp.Denial {
	d := mcp.Denial{
		Code: r.Code, Gate: r.Gate, ErrorType: "extension_blocked", Reason: r.Reason,
		Approval: approval, Correlation: c.ID, Method: c.Method, Modern: c.Modern,
	}
	why := strings.TrimSuffix(r.Reason, ".")
	if c.Side == wire.FromAgent {
		d.Text = fmt.Sprintf("Not executed. %s. Repeating the call will not help; ask the user. (%s)", capital(why), c.ID)
		return d
	}
	d.ErrorType = "result_withheld"
	d.Text = fmt.Sprintf("Executed, but its result is withheld: %s. Repeating the call would execute it again; ask the user. (%s)", why, c.ID)
	switch {
	case c.Method == "tasks/result": // which is answered as the call would be
		d.Method = "tools/call"
	case c.hooks != nil && c.hooks.about != nil && c.hooks.about.Envelope.Task.Present(): // a task is expected, and no result
		d.Method = ""
	}
	return d
}
