// Package gate decides what happens to a message.
//
// A judged message passes four gates: visible (may the agent know of this tool), rule (the
// first matching rule of the configuration), permit (Cedar) and ask (a person). Each gate
// either ends the message or hands it on. The result is a Verdict. An error on the way is an
// accident, and an accident becomes a verdict that denies.
//
// The package declares what it needs of its sibling packages as small interfaces, so that none
// of them imports another.
package gate

import (
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Profile says whether verdicts are enforced.
type Profile string

const (
	Production  Profile = "production"  // verdicts are enforced
	Development Profile = "development" // verdicts are recorded; nothing is changed
)

// Tighter returns the stricter of two profiles. An empty profile imposes nothing; two empty
// ones give Production.
func (p Profile) Tighter(q Profile) Profile {
	if p == Production || q == Production || p == "" && q == "" {
		return Production
	}
	return Development
}

// Call is a message to be judged: what arrived, from whom, and what the gates know and have
// decided so far. Only the gate modifies it while it is being judged.
type Call struct {
	Message
	Case
	Judgement
}

// Message is what arrived.
type Message struct {
	Seq      uint64
	ID       string    // correlation id, unique over all calls
	Received time.Time // when it arrived here; a call that is judged again keeps it

	Side     wire.Side
	Line     []byte // without its line end
	Envelope wire.Envelope
	Method   string // Envelope.Method; for a result, the method it answers
	Modern   bool
	Subject  string // tool or prompt name or resource URI, unescaped; empty for other methods

	Task    string // for a call about a task, the tool that it runs; empty if not known
	Answers uint64 // for a result, the seq of the judged request that it answers; 0 for none
	Of      string // for a result, the Subject of that request; empty if not known

	came came // line as submitted
}

// Case is who sent a message, to whom, and under which conditions.
type Case struct {
	Attachment string
	Session    string // empty outside a wrap
	Agent      string // agent type, such as claude-code; empty if not known
	Project    string // folder of the wrap, or of tg-shim without one
	Cwd        string // folder in which tg-shim, and so the server, was started
	Server     string
	Launch     string        // hex SHA-256 over the resolved command and its arguments
	Command    []string      // of the server; or its address, without what may be secret
	Remote     bool          // the server is behind an address
	Patience   time.Duration // how long the agent waits for an answer; 0 if not known
	CanAsk     bool          // the agent says that it can ask its own user
	Limit      Profile       // loosest profile of the session; empty: that of the set in force
	Claimed    bool          // tg-shim itself named its session: see Shim
	Profile    Profile       // what tg-shim requested; judge sets it to the profile in force

	Revisions  []string // MCP revisions that the server supports; empty if it was not asked
	Definition [32]byte // definition of the called tool when judging began; zero if no list has shown it

	from    *Attachment         // attachment that the message was submitted to
	scope   func(Policy) Policy // applies the project's rules to a set; nil until judging begins
	unable  bool                // for a server's request, the agent has not declared that it can answer
	earlier *record.Record      // record of a previous daemon for this call
}

// Judgement is what the gates know and have decided so far.
type Judgement struct {
	Trace  *Trace   // nil if the call is not traced
	Waited bool     // it waited for other calls or a person, so links may have changed since it arrived
	Known  []Fact   // facts when it arrived; only for hooks, otherwise nil
	Sends  []uint64 // what Facts.Of keeps of it for Facts.Forwarded
	Loses  *Loss    // what Facts.Of has found that it destroys in a work tree; nil: nothing
	Extent Extent   // of what Facts.Of has found that it destroys, as far as that depends on what there is
	// Unclear says what Facts.Of has found that it may destroy, where that depends on what there was on
	// a disk that nobody knows; empty: nothing.
	Unclear string
	Grain   *Grain // what Facts.Of has found that a grant may cover of it; nil: it is no call of the agent's shell

	canary struct{ known, is bool } // what isCanary has found

	early *[]Fact // facts that were found just before it is judged; nil: they are found then

	policy Policy // what decides; set by rule, as the next three
	pinned Pinned
	facts  []Fact
	ruling Ruling

	hooks    *hooked  // what the hooks returned; nil if they were not called
	answerer string   // extension that answers in place of the agent; empty: the agent answers
	notice   string   // text for the agent if the call is forwarded
	withheld []string // what was removed from it, and why
	spliced  bool     // Line is not what was submitted
	heard    bool     // Facts has observed the server's text in it
	native   bool     // its agent asks its own user
	noted    bool     // a previous daemon has recorded that it is forwarded
}

// Arguments returns the raw JSON object of the call's arguments, or nil if it has none.
func (c *Call) Arguments() []byte { return c.Envelope.Arguments.Of(c.Line) }

// Move is what a gate decides to do with a message.
type Move uint8

const (
	Forward Move = iota + 1
	Deny
	Ask
)

func (m Move) String() string {
	switch m {
	case Forward:
		return "forward"
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	}
	return "none"
}

// Ruling is what the gates visible, rule and permit decide about a call.
type Ruling struct {
	Move     Move
	Hidden   bool     // Deny, and the agent is told that there is no such tool
	Gate     string   // the gate that decided: visible, rule, permit
	Rule     string   // the rule's pattern and position, such as `"delete_*" (thoughtgate.yaml:12)`
	Policies []string // ids of the determining Cedar policies
	By       string   // Ask: the policy that asks, with its position; empty if none does
	Reason   string   // one sentence for a person and a model
	Workflow string   // Ask: workflow that names the people to ask
	Basis    Basis    // Ask: identity of the rule and the workflow
	Timeout  time.Duration
	// Ask: how long an answer is kept for a parked call, and how long after an approval the
	// call may be continued.
	Validity time.Duration
	Redact   []string // argument paths that are neither shown nor recorded
	Surfaces []string // surfaces that an approval may come from; empty: any
	Unable   string   // Ask: why nobody can be asked in that way; the call is then denied
	Level    Level    // Ask: what an approval must prove
	Code     int      // JSON-RPC code of a denial
	Answer   string   // Forward, Ask: who answers a server's request, AnswerAgent or AnswerProvider; empty: the default
	Parked   bool     // Deny, and the agent must repeat the call to learn the person's answer
	Natively []string // Ask: agents that may ask their own users instead; see native.go
	Undo     bool     // Ask: the files that the call destroys are copied before it is forwarded
}

// Basis identifies what asks a question and who is asked. It is derived from content, not from
// a name or a position in a file. An approval does not hold for a call once something else
// asks about it, or once other people would be asked or would be asked in another way.
type Basis struct {
	Rule     [32]byte // the rule, default or policies
	Workflow [32]byte
}

// Policy is one immutable set of rules and policies. Rule is safe for concurrent use, and
// returns an error soon after ctx has ended. An error is an accident: the call is denied, and
// only Redact of the Ruling is used.
type Policy interface {
	Rule(ctx context.Context, c *Call, facts []Fact) (Ruling, error)
	// Visible reports whether the agent may know of a tool, prompt or resource that the server
	// of c lists. kind is tools, prompts or resources.
	Visible(c *Call, kind, name string) bool
	// Whom sets whom to ask, how and for how long, for a question that no rule asks.
	Whom(r *Ruling)
	// Profile returns the loosest profile that an attachment may run under.
	Profile() Profile
	// Digest identifies the set in records.
	Digest() string
}

// Question is what a person is asked.
type Question struct {
	Call    *Call
	Ruling  Ruling
	Facts   []Fact
	Subject [32]byte // what an approval is valid for; see Call.subject
	Digest  [32]byte // of what is called; see Call.Digest
}

// Answer is how a question ended.
type Answer struct {
	ID       string // of the question, such as A-17
	Approved bool
	State    string // approved, rejected, expired, withdrawn, parked, spent, lapsed
	Level    Level  // what an approval has proved; empty with any other answer
	Note     string // the person's note; of a parked call, why nobody may answer soon
	Decider  string
	Edit     []byte // raw JSON of arguments that replace the call's; nil for none
	Extent   Extent // of what the call destroyed as it was shown; only with an approval
}

// States of an answer that are not states of a question.
const (
	// StateParked: nobody has answered and the agent would not wait longer. The question stays
	// open, and an equal call gets its answer.
	StateParked = "parked"
	// StateSpent: the approval was used for another, equal call.
	StateSpent = "spent"
	// StateLapsed: there was an approval, but it became invalid before a call used it: it
	// expired, or what it belonged to has ended.
	StateLapsed = "lapsed"
)

// SurfaceColleague is the surface of answers from other machines of the fleet.
const SurfaceColleague = "colleague"

// Signed is a colleague's decision whose signature was verified, by an approver whom the fleet's
// policy in force names.
type Signed struct {
	ID        string // of the question
	Statement []byte // of the question, on which was decided
	Approve   bool
	Note      string
	Approver  string // by name
	Key       string // fingerprint
	Touched   bool   // the key was touched
}

// What the key of a colleague proves, as recorded.
const (
	ProvedAccount = "account" // a plain key: somebody with access to their account
	ProvedTouch   = "touch"   // a security key: somebody has touched it
)

// Held is a question that has been filed.
type Held interface {
	ID() string
	// Wait returns the answer. If there is one already, Wait returns it even if ctx has ended.
	// If ctx ends first, its cause matters: ErrWithdrawn (the agent cancelled the call, or
	// left) detaches the call from the question; any other cause leaves the question as it is.
	Wait(ctx context.Context) (Answer, error)
}

// Approver asks people questions. If a question exists for the same (attachment, seq), even if
// it has been answered, or for an equal call, Ask joins it.
type Approver interface {
	Ask(ctx context.Context, q *Question) (Held, error)
}

// Grant is an approval that holds for more than one call.
type Grant struct {
	ID       string // such as G-3
	Approval string // the question that it was given with
	Decider  string
}

// Grants knows what people have granted in advance.
type Grants interface {
	// Use returns the grant that covers a call about which a person would be asked, and counts
	// the use. It returns nil if there is none; where one covers only a smaller extent, it adds that to
	// the reason of the question.
	Use(ctx context.Context, q *Question) (*Grant, error)
}

// Recorder writes records. Record returns when r is as durable as the configuration requires.
// An error means that it is not, and the verdict must be to deny. values is raw JSON to be
// kept beside the record, nil for none; redact names members of it that are never kept. A
// record with a context of Telling need not be durable yet. r belongs to the caller again when
// Record returns.
type Recorder interface {
	Record(ctx context.Context, r *record.Record, values []byte, redact []string) error
}

// Meter counts the messages of one server. Its methods must not block, and must not allocate
// once they have seen a kind of message. They are safe for concurrent use.
type Meter interface {
	// Messages counts n messages, or answers to a method, that side wrote.
	Messages(side wire.Side, method string, n uint64)
	// Refused counts a line that the relay's reader refused. kind is one of wire.Kinds.
	Refused(kind string)
}

// unmetered is a Meter that counts nothing.
type unmetered struct{}

func (unmetered) Messages(wire.Side, string, uint64) {}
func (unmetered) Refused(string)                     {}

func (g *Gate) meter(server string) Meter {
	if g.Meter == nil {
		return unmetered{}
	}
	return g.Meter(server)
}

// Hooks calls the user's extensions, which see a call before the gates, and its result before
// the agent does. Implementations are safe for concurrent use. There are no errors: if an
// extension fails, the call is denied, unless the owner has configured otherwise.
type Hooks interface {
	// Wants reports whether any extension wants to see c or, if after is set, its result. It
	// is called for every call, and must neither block nor allocate.
	Wants(c *Call, after bool) bool
	// Who names the extensions that want to see c or, if after is set, its result, in the
	// order in which they are called. It serves explanations, not calls.
	Who(c *Call, after bool) []string
	// Revision changes whenever an extension is installed, upgraded or removed. An earlier
	// approval does not hold for a call that an extension would now see and has not seen.
	// Revision must neither block nor allocate.
	Revision() uint64
	// Before shows c to the extensions that want it, one after the other. Each sees the
	// arguments as the previous ones left them. Before and After return soon after ctx ends;
	// the value they then return is ignored.
	Before(ctx context.Context, c *Call) Hooked
	// After does the same with the raw JSON of the result of c.
	After(ctx context.Context, c *Call, result []byte) Hooked
}

// Hooked is what hooks have decided about a call or a result.
type Hooked struct {
	Move    Move     // Forward or Deny
	Changed []byte   // Forward: raw JSON that replaces the arguments or the result; nil: no change
	By      []string // the extensions that changed or denied it, in order
	Failed  []string // extensions that failed and whose owner lets calls pass without them, each with the reason
	Reason  string   // Deny: one sentence for a person and a model
}

// Scope narrows the set in force to the project of a call. project is a folder, as in
// [Call.Project]. The function that Scope returns applies the project's rules to a set, and is
// kept for the call: later changes to the project's files do not affect it. Scope must be
// quick and is safe for concurrent use.
type Scope func(project string) func(Policy) Policy

// policy returns what c is judged by: the set in force, narrowed to the project of c.
func (g *Gate) policy(c *Call) Policy {
	set := g.Policy()
	if g.Scope == nil || c.Project == "" {
		return set
	}
	if c.scope == nil {
		c.scope = g.Scope(c.Project)
	}
	return c.scope(set)
}
