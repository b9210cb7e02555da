// Package gate decides what happens to a message.
//
// A message that is judged passes four gates, each of which can only end it or
// hand it on: visible (may the agent know of this tool at all), rule (the first
// rule of the configuration that matches), permit (Cedar), ask (a person). What
// comes out is a Verdict: a value. An error on the way is an accident, and in
// this package an accident becomes a verdict that refuses.
//
// The package states, as small interfaces, what it needs of its siblings, so
// that none of them knows another.
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

// Tighter returns the stricter of two profiles; an empty one asks for nothing.
func (p Profile) Tighter(q Profile) Profile {
	if p == Production || q == Production || p == "" && q == "" {
		return Production
	}
	return Development
}

// Call is one message to be judged, and who says it. Only the gate changes it
// while it is being judged.
type Call struct {
	Attachment string
	Seq        uint64
	ID         string // correlation id, unique over all calls
	Received   time.Time

	Session string // empty outside a wrap
	Agent   string // agent type, as claude-code; empty when not known
	Project string // folder of the wrap, or of the shim without one
	Cwd     string // folder that the shim, and so the server, was started in
	Server  string
	Launch  string // hex SHA-256 over the resolved command and its arguments
	Command []string
	// Patience is after how long the agent gives a call up; 0 where nobody knows.
	Patience time.Duration
	Limit    Profile // the loosest profile of the session; empty: that of the set in force
	Claimed  bool    // where it belongs is its own word: see Shim
	Profile  Profile // what the shim asked for; Judge makes it what is in force

	Side     wire.Side
	Line     []byte // without its line end
	Envelope wire.Envelope
	Method   string // Envelope.Method, or for a result the method it answers
	Modern   bool
	Subject  string // tool or prompt name or resource URI, unescaped; empty for other methods

	Revisions []string // of MCP, that the server has said it speaks; empty when it was not asked

	Definition [32]byte // of what is called, when its judgement began; zero when no list has shown one

	Task    string // of a call about a task: the tool that it runs; empty when not known
	Answers uint64 // of a result: the seq of the judged request that it answers; 0 for none
	Of      string // of a result: the Subject of that request; empty when not known

	Trace *Trace // nil: nobody wants to know how long it takes

	Waited bool   // for other calls or a person: links may have changed since it came
	Known  []Fact // what was true of it when it came; for hooks only, else nil

	came     came                // what was submitted
	scope    func(Policy) Policy // what the project makes of a set, once the call is being judged
	from     *Attachment         // that it was submitted to
	unable   bool                // of what a server asks: the agent has not said that it can answer
	answerer string              // who answers it in the agent's place when it goes on; empty: the agent
	spliced  bool                // Line is not what was submitted
	heard    bool                // what a server says in it is in the memory
	hooks    *hooked             // what they have said; nil: they were not asked
	earlier  *record.Record      // what an earlier daemon wrote down for it
	notice   string              // what the agent is told of it when it goes on
	noted    bool                // an earlier daemon has put on record that it goes on
	withheld []string            // what was cut out of it, and why
}

// Arguments returns the raw JSON object of the call's arguments, nil when it has none.
func (c *Call) Arguments() []byte { return c.Envelope.Arguments.Of(c.Line) }

// Fact is something true of a call (FACTS: secret, secret-place, acts, ...).
type Fact struct {
	Name   string
	Detail string // what made it true, for a person; never the secret itself
	Member string // path of the argument, as `headers.authorization`; may be empty
	Place  string // the mail address, host or account it is about; may be empty
	By     string // the server whose text made it true; may be empty
}

// Facts finds what is true of a call, and remembers what was said before it in
// its session. All of it must be bounded in time and memory whatever is said, and
// safe for concurrent use.
type Facts interface {
	// Of returns what is true of c. It is asked about every call that is
	// judged, and takes what c names first to be said by the agent. It returns soon
	// after ctx has ended, with a part of it.
	Of(ctx context.Context, c *Call) []Fact
	// Observe takes note of what passes unjudged, before it is forwarded.
	Observe(m *Message)
	// Forwarded takes note that c was sent on.
	Forwarded(c *Call)
	// Forget drops what is remembered of a session, or of a shim without one.
	Forget(session, attachment string)
}

// Message is text that passes between a server and an agent: a result, an
// error, a list, something that the server asks, or what the agent answers to it.
type Message struct {
	Session    string // empty outside a wrap
	Attachment string
	Server     string
	Profile    Profile   // in force for the attachment
	Side       wire.Side // who says it
	Method     string    // of it, or of the request that it answers
	Text       []byte    // raw JSON: the line, or a piece of it
	Missing    uint64    // bytes of the line that are in no piece
}

// Move is what a gate wants done with a message.
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

// Ruling is what the policy says of a call: the outcome of the gates visible,
// rule and permit.
type Ruling struct {
	Move     Move
	Hidden   bool     // Deny, and the agent is told that there is no such tool
	Gate     string   // which gate decided: visible, rule, permit
	Rule     string   // the rule's pattern and place, as `"delete_*" (thoughtgate.yaml:12)`
	Policies []string // ids of the determining Cedar policies
	By       string   // Ask: the policy that asks, with its place; empty when none does
	Reason   string   // one sentence for a person and a model
	Workflow string   // Ask: whom to ask
	Basis    Basis    // Ask: what asks and whom
	Timeout  time.Duration
	// Ask: how long the answer waits for a call that was parked, and how long after
	// a yes the call may be carried on.
	Validity time.Duration
	Redact   []string // argument paths that are not shown or recorded
	Surfaces []string // where a yes may come from; empty: anywhere
	Unable   string   // Ask: why nobody can be asked in that way; the call is refused then
	Level    Level    // Ask: what a yes has to show
	Code     int      // JSON-RPC code of a denial
	Answer   string   // Forward, Ask: who answers what a server asks, AnswerAgent or AnswerProvider; empty: whoever usually does
	Parked   bool     // Deny, and the call is to be repeated to learn what a person has said
}

// Basis is what puts a question and to whom, by what it says and not by its name
// or its place in a file: a yes is not good for a call that something else asks
// about by the time it would be written, nor once others would be asked, or in
// another way.
type Basis struct {
	Rule     [32]byte // the rule, default or policies
	Workflow [32]byte
}

// Policy is one immutable set of rules and policies. Rule is safe for
// concurrent use, and returns with an error soon after ctx has ended. An error is an
// accident: the call is refused, and of the Ruling beside it only Redact counts.
type Policy interface {
	Rule(ctx context.Context, c *Call, facts []Fact) (Ruling, error)
	// Visible reports whether the agent may know of a tool, prompt or resource
	// that the server of c lists; kind is tools, prompts or resources.
	Visible(c *Call, kind, name string) bool
	// Whom fills in whom to ask, how and for how long, when a question is put
	// that no rule put.
	Whom(r *Ruling)
	// Profile is the loosest profile a shim may run under.
	Profile() Profile
	// Digest names the set in the record.
	Digest() string
}

// Question is what a person is asked.
type Question struct {
	Call    *Call
	Ruling  Ruling
	Facts   []Fact
	Subject [32]byte // what a yes is good for, see subject
}

// Answer is what a question came to.
type Answer struct {
	ID       string // of the question, as A-17
	Approved bool
	State    string // approved, rejected, expired, withdrawn, parked, spent, lapsed
	Level    Level  // what a yes has shown; empty with any other answer
	Note     string // what the person said
	Decider  string
	Edit     []byte // raw JSON of the arguments that the person put in place of the call's; nil for none
}

// States of an answer that are none of a question.
const (
	// StateParked: nobody has answered and the agent would not wait longer. The
	// question stays open, and an equal call learns what came of it.
	StateParked = "parked"
	// StateSpent: a yes has let another, equal call through.
	StateSpent = "spent"
	// StateLapsed: there was a yes, and it is good no more: its time was up, or what
	// it belonged to has ended, before a call made use of it.
	StateLapsed = "lapsed"
)

// Held is a question that has been filed.
type Held interface {
	ID() string
	// Wait returns the answer; one that is there already also when ctx has ended.
	// When ctx ends first, its cause says why: ErrWithdrawn (the agent took the
	// call back, or left) takes the call from the question; anything else leaves
	// it as it is.
	Wait(ctx context.Context) (Answer, error)
}

// Approver puts questions to people. A question for an (attachment, seq) that
// has one already is joined, also when it was answered meanwhile, and so is one
// that an equal call asks.
type Approver interface {
	Ask(ctx context.Context, q *Question) (Held, error)
}

// Grant is a yes of a person that remembers, and lets a call through.
type Grant struct {
	ID       string // as G-3
	Approval string // the question that it was given with
	Decider  string
}

// Grants knows what a person has granted ahead.
type Grants interface {
	// Use returns the grant that lets a call through which a person would be
	// asked about, and counts it; nil when there is none.
	Use(ctx context.Context, q *Question) (*Grant, error)
}

// Recorder writes down. Record returns when r is as safe as the configuration
// asks for; an error means that it is not, and the verdict must refuse. values
// is the raw JSON that is to be kept beside the record, nil for none; redact
// names members of it that are never kept. One of Telling need not be that safe yet.
// r is the caller's again when Record returns.
type Recorder interface {
	Record(ctx context.Context, r *record.Record, values []byte, redact []string) error
}

// Meter counts what is seen of one server's messages. Its methods must not block,
// nor allocate once they have seen a kind of message; they are safe for concurrent
// use.
type Meter interface {
	// Messages counts n messages, or answers to a method, that side wrote.
	Messages(side wire.Side, method string, n uint64)
	// Refused counts a line that the relay's reader refused; kind is one of wire.Kinds.
	Refused(kind string)
}

// unmetered counts nothing.
type unmetered struct{}

func (unmetered) Messages(wire.Side, string, uint64) {}
func (unmetered) Refused(string)                     {}

func (g *Gate) meter(server string) Meter {
	if g.Meter == nil {
		return unmetered{}
	}
	return g.Meter(server)
}

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

// Scope narrows the set in force to the project that a call is made in.
// project is a folder, as [Call.Project]. The function that it returns says what
// a set is there, and is kept for the call: whatever becomes of the project's
// files meanwhile, a call is judged by what they said when it came. It must be
// quick and is safe for concurrent use.
type Scope func(project string) func(Policy) Policy

// policy is what c is judged by: the set in force, as it is in the project of c.
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
