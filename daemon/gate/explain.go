package gate

import "context"

// Explainer is a Policy that can say how it comes to its rulings.
type Explainer interface {
	Policy
	// Explain judges like Rule, and says why. It takes its time: it is for
	// people who ask, not for calls.
	Explain(ctx context.Context, c *Call, facts []Fact) Explained
}

// Explained is how a policy comes to its ruling on a call.
type Explained struct {
	Ruling Ruling
	Err    error   // why it could not be judged, which refuses
	Cited  []Cited // what decided
	Near   []Near  // what would have come before, but for one condition
	Steps  []Step  // what would have to change
}

// Cited is one thing that was written down and decided.
type Cited struct {
	Kind   string // rule, default, source, permit, forbid
	Name   string // pattern of a rule, id of a policy; empty for what is a project's own
	File   string // where it is written; empty for what nobody wrote
	Line   int    // from 1, 0 where File is empty
	Column int    // likewise, in characters
	Does   string // forward, deny, approve, policy, hide, permit, ask, forbid
	Says   string // its description or @reason
	Theirs bool   // it is a project's own, whose words are not repeated
}

// Near is a rule that stands before the one that decided, and does not match
// because of one condition only.
type Near struct {
	Cited
	Because string // as: its source is prod-*, not prod
}

// Step is something that would have to change, and what would become of the call
// then. A step presumes those before it, but for one with Or set, which is an
// alternative to all of them.
type Step struct {
	Change string
	Or     bool
	Move   Move   // what the gates would say then; 0 when nobody can tell
	By     string // of it: the rule, the policies or the default
}

// Lacks says what is not known of a call, as of one that is on record.
type Lacks struct {
	Arguments   bool // what was redacted or not kept
	Details     bool // of the facts, beyond their names
	Annotations bool // of the tool
	Session     bool // how many calls it has had, how long it is, its servers
	Process     bool // of the agent: whose it is, what it runs and where
	Command     bool // of the server
}

// Partial is a Policy that can judge a call of which not all is known.
type Partial interface {
	Policy
	// RulePartly judges like Rule. doubt says what that is not known could have
	// led to another ruling; it is empty when nothing could.
	RulePartly(ctx context.Context, c *Call, facts []Fact, lacks Lacks) (r Ruling, doubt string, err error)
}

// Read makes a call of a line as an attachment of the shim would.
func (g *Gate) Read(shim Shim, s Submission) (*Call, error) {
	a := &Attachment{gate: g, shim: shim}
	return a.call(s)
}

// Rehearse takes c through the gates up to the one that asks, under the profile
// that c names. Nothing is recorded.
func (g *Gate) Rehearse(ctx context.Context, c *Call) ([]Fact, Ruling) {
	return g.rule(ctx, g.policy(c), c)
}
