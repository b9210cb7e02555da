package record

// The canary is a call that is made to be refused: whoever makes it learns that
// calls do pass the gate, and that it refuses, without a rule of the user's being
// needed for it.
const (
	// CanaryServer is the id of the server that the canary calls. Every call of a
	// server of that id is refused.
	CanaryServer = "thoughtgate-canary"

	// CanaryRule is what the record names as the rule that refused it.
	CanaryRule = "built in: canary"
)
