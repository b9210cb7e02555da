package config

// The allowed words. Each type lists its words in the order in which messages show them.

// Profile specifies whether verdicts are enforced.
type Profile string

const (
	Production  Profile = "production"
	Development Profile = "development"
)

func (Profile) words() []string { return []string{"production", "development"} }

// Action specifies what a rule does.
type Action string

const (
	Forward Action = "forward"
	Deny    Action = "deny"
	Approve Action = "approve" // a person is asked
	Policy  Action = "policy"  // Cedar must permit it
)

func (Action) words() []string { return []string{"forward", "deny", "approve", "policy"} }

// AnswerBy specifies who answers a request to the model. If it is empty, the section sampling
// decides.
type AnswerBy string

const (
	AnswerByAgent    AnswerBy = "agent"
	AnswerByProvider AnswerBy = "provider"
)

func (AnswerBy) words() []string { return []string{"agent", "provider"} }

// SamplingWhen specifies when a provider answers in place of the agent.
type SamplingWhen string

const (
	SamplingUnable SamplingWhen = "unable" // if the agent does not declare that it can
	SamplingAlways SamplingWhen = "always"
	SamplingNever  SamplingWhen = "never" // except where a rule says so
)

func (SamplingWhen) words() []string { return []string{"unable", "always", "never"} }

// Kind is the protocol of a source. There is one: mcp.
type Kind string

func (Kind) words() []string { return []string{"mcp"} }

// Protocol is the protocol of a headless agent.
type Protocol string

const (
	ProtocolACP   Protocol = "acp"
	ProtocolTyped Protocol = "typed"
)

func (Protocol) words() []string { return []string{"acp", "typed"} }

// ExposeMode specifies how the lists of Expose are read.
type ExposeMode string

const (
	ExposeAll ExposeMode = "all"
	Allowlist ExposeMode = "allowlist"
	Blocklist ExposeMode = "blocklist"
)

func (ExposeMode) words() []string { return []string{"all", "allowlist", "blocklist"} }

// Fact names something that is true of a call.
type Fact string

func (Fact) words() []string {
	return []string{
		"secret", "secret-place", "planted", "prompted", "acts", "sends",
		"new-place", "changed", "smelly", "unlisted", "steered", "outside", "ours",
		"destroys", "uploads", "installs", "network-code", "opaque", "remote",
	}
}

// DestinationType is a kind of place where questions appear.
type DestinationType string

const (
	DestinationLocal DestinationType = "local"
	DestinationSlack DestinationType = "slack"
)

func (DestinationType) words() []string { return []string{"local", "slack"} }

// Require specifies what a person must show to approve a call. If it is empty, it depends on the
// call: a secret if the call is of high risk and one is enrolled, nothing otherwise.
type Require string

const (
	RequireAny      Require = "any"
	RequirePresence Require = "presence"
)

func (Require) words() []string { return []string{"any", "presence"} }

// Surface is where a person answers, as the caller reports it.
type Surface string

const (
	SurfaceTerminal Surface = "terminal"
	SurfaceDesktop  Surface = "desktop"
	SurfaceSlack    Surface = "slack"
	SurfaceScript   Surface = "script" // tgctl without a terminal
	SurfacePage     Surface = "page"   // the page of tgctl dashboard
	SurfacePhone    Surface = "phone"  // a notification's button, by an ntfy server: a claim of whoever reads the topic

	// SurfaceColleague is another machine of the fleet. No caller can claim it: it takes the
	// signature of an approver whom the fleet's policy names.
	SurfaceColleague Surface = "colleague"
)

func (Surface) words() []string {
	return []string{"terminal", "desktop", "slack", "script", "page", "phone", "colleague"}
}

// Surfaces returns the names of all surfaces.
func Surfaces() []string { return Surface("").words() }

// HasApprovers reports whether several people can answer on the surface, so that the destination of
// a workflow says who of them may.
func (s Surface) HasApprovers() bool { return s == SurfaceSlack }

// HookAsk specifies who asks a person about a call of an agent's own tool.
type HookAsk string

const (
	HookAskHold   HookAsk = "hold"   // ThoughtGate, as about any other call
	HookAskNative HookAsk = "native" // the agent asks its own user, where it can
)

func (HookAsk) words() []string { return []string{"hold", "native"} }

// Sync specifies how safe a record of the audit log is when it counts as recorded.
type Sync string

const (
	SyncNever    Sync = "never"    // the kernel has it: it survives a crash of the daemon
	SyncInterval Sync = "interval" // likewise, and on stable storage a moment later
	SyncAlways   Sync = "always"   // on stable storage: it survives a crash of the machine
)

func (Sync) words() []string { return []string{"never", "interval", "always"} }

// Values specifies what is recorded of the arguments of a call.
type Values string

const (
	ValuesNone     Values = "none"     // their length and HMAC
	ValuesRedacted Values = "redacted" // also the arguments, with secrets replaced by an HMAC; large ones in part
	ValuesFull     Values = "full"     // all arguments, except the members that are never kept
)

func (Values) words() []string { return []string{"none", "redacted", "full"} }

// PinMode specifies what happens when a definition changes.
type PinMode string

const (
	PinHold PinMode = "hold"
	PinWarn PinMode = "warn"
	PinOff  PinMode = "off"
)

func (PinMode) words() []string { return []string{"hold", "warn", "off"} }

// UnknownRequests specifies what happens to a request whose method is in no table.
type UnknownRequests string

const (
	UnknownRefuse  UnknownRequests = "refuse"
	UnknownForward UnknownRequests = "forward"
)

func (UnknownRequests) words() []string { return []string{"refuse", "forward"} }

// UnknownNotifications specifies what happens to a notification whose method is in no table.
type UnknownNotifications string

const (
	UnknownDrop UnknownNotifications = "drop"
	UnknownPass UnknownNotifications = "forward"
)

func (UnknownNotifications) words() []string { return []string{"drop", "forward"} }

// Stderr specifies how a server's stderr is shown.
type Stderr string

const (
	StderrEscaped Stderr = "escaped"
	StderrRaw     Stderr = "raw"
)

func (Stderr) words() []string { return []string{"escaped", "raw"} }

// FailOn is a condition under which a wrap is refused.
type FailOn string

// FailOnUngoverned is a server that the agent may start and that stays ungoverned.
const FailOnUngoverned FailOn = "ungoverned"

func (FailOn) words() []string { return []string{"ungoverned"} }

// Facts lists the facts that rules and policies may name.
func Facts() []string { return Fact("").words() }
