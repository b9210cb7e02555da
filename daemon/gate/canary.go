package gate

import (
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// sing refuses a canary, whatever the policy said of it: it has come past the
// policy and all else that a call passes. What went wrong on the way is not
// covered up: an accident never comes here.
func sing(c *Call, r Ruling) Ruling {
	if c.Server != record.CanaryServer || c.Side != wire.FromAgent {
		return r
	}
	return Ruling{
		Move: Deny, Gate: "rule", Rule: record.CanaryRule, Code: mcp.CodeRule, Redact: r.Redact,
		Reason: "it is a canary of `tgctl doctor`, which is there to be refused",
	}
}
