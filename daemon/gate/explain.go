package gate

import "context"

// Explainer is a Policy that can explain its rulings.
type Explainer interface {
	Policy
	// Explain judges like Rule and says why. It may be slow: it serves people, not calls.
	Explain(ctx context.Context, c *Call, facts []Fact) Explained
}

// Explained is how a policy arrives at its ruling on a call.
type Explained struct {
	Ruling Ruling
	Err    error   // why it could not be judged, which denies it
	Cited  []Cited // what decided
	Near   []Near  // what would have decided, but for one condition
	Steps  []Step  // what would have to change
}

// Cited is a rule or policy that decided.
type Cited struct {
	Kind   string // rule, default, source, permit, forbid
	Name   string // pattern of a rule or id of a policy; empty if a project owns it
	File   string // where it is written; empty if it is built in
	Line   int    // from 1; 0 if File is empty
	Column int    // likewise, in characters
	Does   string // forward, deny, approve, policy, hide, permit, ask, forbid
	Says   string // its description or @reason
	Theirs bool   // a project owns it, and its text is not repeated
	Fleet  bool   // it is of the fleet's policy
}

// Near is a rule that precedes the one that decided, and fails to match because of one
// condition only.
type Near struct {
	Cited
	Because string // such as: its source is prod-*, not prod
}

// Step is something that would have to change, and what would then become of the call. A step
// assumes those before it. A step with Or set is an alternative to all of them.
type Step struct {
	Change string
	Or     bool
	Move   Move   // what the gates would decide then; 0 if not known
	By     string // the rule, the policies or the default that would decide
}

// Lacks says what is not known of a call, for example of a recorded one.
type Lacks struct {
	Arguments   bool // they were redacted or not kept
	Details     bool // of the facts, beyond their names
	Annotations bool // of the tool
	Session     bool // its number of calls, its age, its servers
	Process     bool // of the agent: its user, its program and its folder
	Command     bool // of the server
}

// Partial is a Policy that can judge a call that is only partly known.
type Partial interface {
	Policy
	// RulePartly judges like Rule. doubt names the unknown properties that could have led to
	// another ruling; it is empty if there are none.
	RulePartly(ctx context.Context, c *Call, facts []Fact, lacks Lacks) (r Ruling, doubt string, err error)
}

// Read parses a line into a call, as an attachment of the shim would.
func (g *Gate) Read(shim Shim, s Submission) (*Call, error) {
	a := &Attachment{gate: g, shim: shim}
	return a.call(s)
}

// Rehearse takes c through the gates before ask, under the profile that c names. Nothing is
// recorded.
func (g *Gate) Rehearse(ctx context.Context, c *Call) ([]Fact, Ruling) {
	return g.rule(ctx, g.policy(c), c)
}
