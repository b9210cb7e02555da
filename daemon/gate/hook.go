package gate

import "context"

// Hooks are the programs of the user's that see a call before the gates, and its
// result before the agent does. Implementations are safe for concurrent use. What
// goes wrong with a program is a refusal, unless its owner has written otherwise:
// there are no errors.
type Hooks interface {
	// Wants reports whether some program wants to see c, or with after its
	// result. It is asked about every call, and must neither block nor allocate.
	Wants(c *Call, after bool) bool
	// Who names the programs that want to see c, or with after its result, in the
	// order in which they are asked. It is for people who ask, not for calls.
	Who(c *Call, after bool) []string
	// Revision is another number once a program was installed, upgraded or
	// removed: a yes that was given before is no yes to a call that a program
	// would see which has not. It must neither block nor allocate.
	Revision() uint64
	// Before shows c to the programs that want it, one after the other, each
	// what the ones before it have made of the arguments. Like After it returns
	// soon when ctx ends; what it returns is not looked at then.
	Before(ctx context.Context, c *Call) Hooked
	// After does the same with the raw JSON of the result of c.
	After(ctx context.Context, c *Call, result []byte) Hooked
}

// Hooked is what hooks have made of a call or of a result.
type Hooked struct {
	Move    Move     // Forward or Deny
	Changed []byte   // Forward: raw JSON in place of the arguments or the result; nil: they stay
	By      []string // the programs that changed or refused it, in their order
	Failed  []string // those that could not be asked and whose owner lets calls go on without them, each with why
	Reason  string   // Deny: one sentence for a person and a model
}
