package gate

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// denial returns the text that the agent's model reads: what was denied by what, that nothing
// was executed, and whether repeating can help.
func denial(c *Call, r Ruling, approval string) mcp.Denial {
	const hopeless = ". Repeating the call will not help; ask the user."
	why := strings.TrimSuffix(r.Reason, ".")
	var text string
	switch {
	case r.Gate == "accident":
		text = "ThoughtGate could not judge it: " + r.Reason + ". Tell the user; repeating the call helps only after that is fixed."
	case r.Gate == gatePin:
		text = capital(r.Reason) + ". Tell the user; repeating the call helps only after that."
	case r.Parked:
		text = capital(r.Reason) + ". Repeat the same call to learn the outcome."
	case r.Gate == gateExtension, r.Gate == "ask" && r.Code == mcp.CodeRejected:
		text = capital(why) + hopeless
	case r.Gate == "ask":
		text = capital(r.Reason)
		if asker := by(r); asker != "" {
			text += " (asked" + asker + ")"
		}
		text += ". Tell the user to look at `tgctl approvals`; then the call may be repeated."
	default:
		text = "Denied" + by(r)
		if r.Reason != "" {
			text += ": " + why
		}
		text += hopeless
	}
	d := mcp.Denial{
		Code: r.Code, Text: "Not executed. " + text + " (" + c.ID + ")", Gate: r.Gate, ErrorType: errorType(r), Reason: r.Reason,
		Approval: approval, Correlation: c.ID, Policies: r.Policies, Hidden: r.Hidden,
		Method: c.Method, Modern: c.Modern, Supported: supported(c),
	}
	if r.Gate == gateExtension && c.Side == wire.FromServer { // a result, whose call was executed
		d.ErrorType = "result_withheld"
		d.Text = fmt.Sprintf("Executed, but its result is withheld: %s. Repeating the call would execute it again; ask the user. (%s)", why, c.ID)
		switch {
		case c.Method == "tasks/result": // which has the form of the call's result
			d.Method = "tools/call"
		case c.hooks != nil && c.hooks.about != nil && c.hooks.about.Envelope.Task.Present(): // the agent expects a task, not a result
			d.Method = ""
		}
	}
	return d
}

// supported returns the revisions to offer a client that uses an unknown one: those that the
// server supports, or all that are known.
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
	case r.Gate == gateExtension:
		return "extension_blocked"
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
