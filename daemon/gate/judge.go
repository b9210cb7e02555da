package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Gate judges calls. Its fields must be set before the first call and not changed afterwards.
type Gate struct {
	Policy   func() Policy // returns the set in force; called once per judgement
	Hooks    Hooks         // nil: no extension is called
	Scope    Scope         // narrows the set to a project; nil: no project rules
	Facts    Facts
	Pins     Pins // nil: definitions are not compared
	Approver Approver
	Grants   Grants   // nil: there are no grants
	Presence Presence // nil: nobody can prove presence
	Copies   Copies   // nil: no file is copied
	Sampler  Sampler  // nil: agents answer what servers request
	Recorder Recorder
	Listener Listener // nil: listed tools are not passed on
	Tracer   Tracer   // nil: no traces
	Logger   *slog.Logger

	Open *OpenCalls // nil: no call waits for another one

	Meter func(server string) Meter // nil: nothing is counted

	// Arrived is called with each call of a tool, before it is judged, and must not block. If it is
	// nil, nobody wants to know.
	Arrived func(*Call)

	// Orphan returns how long a request may have no answer before it is recorded as an orphan.
	// If it is nil, none is recorded.
	Orphan func() time.Duration
	// Orphaned returns the seqs of the requests of an attachment that a previous daemon has
	// recorded as orphans. If it is nil, none are known.
	Orphaned func(attachment string) map[uint64]bool

	timeouts timeouts // of judgements
}

// Verdict is the decision on one submitted line.
type Verdict struct {
	Seq      uint64
	Move     Move   // Ask means that the line is held and a final verdict follows
	Line     []byte // Forward: the line to write
	Replaced bool   // Line is not what was submitted
	Notice   string // Forward: text for the agent, put before the result's content
	Question string // Forward: the agent is to ask its own user this; empty: nothing is left to ask
	Answer   []byte // Deny: the reply to the requester; nil for none
	Reason   string
	Approval string
	Inspect  bool // Forward of a request: hooks want to see its result

	supplied bool // Deny: Answer is not a denial but the result, given in place of the agent
	parked   bool // Deny: the agent is told to repeat the call
}

// judgeTimeout is how long the gates may take for one call. A call that takes longer is
// denied. A call of maximum length takes less, even on a busy machine.
const judgeTimeout = 5 * time.Second

var errTooLong = fmt.Errorf("it could not be judged within %v; make the call smaller, with fewer paths and addresses in it", judgeTimeout)

// judge takes c through the gates as far as possible without waiting. The record of the
// verdict has been written when it returns. If the verdict is Ask, the second result is what
// to wait for. If ctx ends before c is judged, nobody waits for the verdict and there is none:
// its Move is 0.
func (g *Gate) judge(ctx context.Context, c *Call, known *record.Record) (Verdict, *asked) {
	policy := g.policy(c)
	if c.Profile = c.inForce(policy); c.isCanary() {
		c.Profile = Production // the canary is there to be denied
	}
	g.observe(c)
	w, made := g.weighMade(ctx, policy, c)
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), ErrWithdrawn) {
			g.cancelled(ctx, policy, c, w)
		}
		return Verdict{}, nil
	}
	ctx = context.WithoutCancel(ctx) // it is judged: the rest is recorded even if nobody waits
	ruling := w.ruling
	if made != c {
		if known = g.known(made); known == nil {
			if err := g.otherVersion(ctx, policy, c, made, ruling.Redact); err != nil {
				return g.unrecorded(c, err), nil
			}
		}
	}
	if c.Profile == Development {
		return g.wouldHave(ctx, c, c.record(policy, w.facts, ruling), ruling), nil
	}
	c = made
	r := c.record(policy, w.facts, ruling)
	switch ruling.Move {
	case Forward:
		v := g.forward(ctx, c, r, ruling.Redact)
		if c.Trace == nil { // otherwise the record is needed at the call's end
			spare.Put(r)
		}
		return v, nil
	case Deny:
		return g.deny(ctx, c, r, ruling), nil
	}
	if ruling.Unable != "" {
		return g.deny(ctx, c, r, refusedQuestion(ruling, errors.New(ruling.Unable))), nil
	}
	if approval := c.from.retries.carriesOn(c, ruling, w.facts); approval != "" {
		r.Gate, r.Reason, r.Approval = "ask", "continues an approved call", approval
		v := g.forward(ctx, c, r, ruling.Redact)
		v.Approval = approval
		return v, nil
	}
	return g.ask(ctx, c, w, r, known)
}

// cancelled records that c was cancelled while it was judged, with what w holds so far. It is
// not forwarded, and no verdict is sent.
func (g *Gate) cancelled(ctx context.Context, policy Policy, c *Call, w weighed) {
	ruling := accident(errors.New("cancelled before it was judged"))
	ruling.Redact = w.ruling.Redact
	g.deny(context.WithoutCancel(ctx), c, c.record(policy, w.facts, ruling), ruling)
}

// weighed is the decision of the gates visible, rule and permit.
type weighed struct {
	facts  []Fact
	ruling Ruling
	shown  *Call // what a person is asked about
}

// weigh takes c through the gates visible, rule and permit: a request as it is, an answer by
// the asks in it. It takes at most judgeTimeout.
func (g *Gate) weigh(ctx context.Context, policy Policy, c *Call) weighed {
	ctx, timeout := g.timeouts.context(ctx)
	defer timeout.end()
	var w weighed
	switch {
	case c.carriesAsks():
		w = g.weighAsks(ctx, policy, c)
	case c.Method == "subscriptions/listen" && c.Profile != Development:
		w = g.weighListen(ctx, policy, c)
	default:
		facts, ruling := g.rule(ctx, policy, c)
		g.whoAnswers(c, &ruling)
		w = weighed{facts, ruling, c}
	}
	g.setLevel(&w)
	return w
}

// inForce returns the profile that c is judged under: that of the session or else that of the
// set, tightened if the shim requested it.
func (c *Call) inForce(policy Policy) Profile {
	if c.Limit != "" {
		return c.Profile.Tighter(c.Limit)
	}
	return c.Profile.Tighter(policy.Profile())
}

// stages rule on a request, in this order: an agent's as it is, a server's, or an ask in an
// answer. Each sees what the ones before it found and decided. A stage that returns true
// decides for all behind it. Only the policy may forward: every other stage can only make the
// ruling stricter, and what goes wrong denies.
//
// What comes before is in [Attachment.SubmitFor] (the reader, hooks, calls that must end
// first), what follows in judge (the record, the development profile, grants, the question).
var stages = [...]func(g *Gate, ctx context.Context, c *Call) (final bool){
	(*Gate).compareDefinition, // with the accepted one
	(*Gate).findFacts,         // what is true of the call
	(*Gate).evaluatePolicy,    // the gates visible, rule and permit
	(*Gate).withholdCall,      // a withheld definition denies
	(*Gate).denyPage,          // an address that nobody may be sent to denies
	(*Gate).askAboutOurs,      // a person is asked about ThoughtGate's own files
	(*Gate).denyCanary,        // a call of tgctl doctor is denied
	(*Gate).checkCopy,         // whether what it destroys can be brought back
}

// rule takes c through the stages.
func (g *Gate) rule(ctx context.Context, policy Policy, c *Call) ([]Fact, Ruling) {
	c.policy, c.pinned, c.facts, c.ruling = policy, Pinned{}, nil, Ruling{}
	for _, stage := range stages {
		if stage(g, ctx, c) {
			break
		}
	}
	return c.facts, c.ruling
}

func (g *Gate) compareDefinition(_ context.Context, c *Call) bool {
	c.pinned = g.pinned(c)
	return false
}

func (g *Gate) findFacts(ctx context.Context, c *Call) bool {
	if c.early != nil {
		c.facts, c.early = *c.early, nil
	} else {
		c.facts = g.Facts.Of(ctx, c)
	}
	c.facts = append(c.facts, c.pinned.Facts...)
	return false
}

func (g *Gate) evaluatePolicy(ctx context.Context, c *Call) bool {
	ruling, err := c.policy.Rule(ctx, c, c.facts)
	c.ruling = ruling
	if why := context.Cause(ctx); why != nil { // not all facts were found, or not all rules evaluated
		if ruling.Move != Deny {
			c.ruling = accident(why)
			c.ruling.Redact = ruling.Redact
		}
		return true
	}
	if err != nil {
		g.Logger.Error("judge call", "server_id", c.Server, "method", c.Method, "tool", c.Subject, "err", err)
		c.ruling = accident(fmt.Errorf("the policy could not be evaluated (%w)", err))
		c.ruling.Code, c.ruling.Redact = mcp.CodePolicy, ruling.Redact
		return true
	}
	return false
}

func (g *Gate) withholdCall(_ context.Context, c *Call) bool {
	c.ruling = c.pinned.over(c.ruling)
	return false
}

func (g *Gate) denyPage(_ context.Context, c *Call) bool {
	c.ruling = c.page(c.ruling)
	return false
}

func (g *Gate) askAboutOurs(_ context.Context, c *Call) bool {
	i := slices.IndexFunc(c.facts, func(f Fact) bool { return f.Name == FactOurs })
	if i < 0 || c.ruling.Move != Forward {
		return false
	}
	r := &c.ruling
	r.Move, r.Gate = Ask, "ask"
	r.Rule, r.Policies, r.By, r.Basis.Rule = "built in: ours", nil, "", [32]byte{}
	r.Reason = fmt.Sprintf("it names ThoughtGate's own files or a wrapped configuration: %s", c.facts[i].Detail)
	c.policy.Whom(r)
	return false
}

// accident returns the ruling on a call that can't be judged.
func accident(why error) Ruling {
	return Ruling{Move: Deny, Gate: "accident", Code: mcp.CodeGate, Reason: why.Error()}
}

// factsOf returns the facts of a call outside of judging, as far as they are found within
// judgeTimeout.
func (g *Gate) factsOf(ctx context.Context, c *Call) []Fact {
	ctx, timeout := g.timeouts.context(ctx)
	defer timeout.end()
	return g.Facts.Of(ctx, c)
}

func (g *Gate) forward(ctx context.Context, c *Call, r *record.Record, redact []string) Verdict {
	inspect := g.wants(c, true)
	if why := c.unseen(); inspect && why != "" && c.Profile != Development {
		return g.deny(ctx, c, r, Ruling{Move: Deny, Gate: gateExtension, Reason: why, Code: mcp.CodeExtension, Redact: redact})
	}
	if err := g.keepCopy(ctx, c, r); err != nil {
		return g.deny(ctx, c, r, Ruling{Move: Deny, Gate: "ask", Rule: r.Rule, Policies: r.Policies, Reason: err.Error(), Code: mcp.CodeGate, Redact: redact})
	}
	r.Verdict, r.Reason, r.Answerer = record.Forward, c.hooks.addToReason(r.Reason), c.answerer
	if !c.noted {
		if err := g.putCall(ctx, c, r, redact); err != nil {
			return g.unrecorded(c, err)
		}
	}
	if c.Side == wire.FromAgent && !c.carriesAsks() && !c.native { // whether a native one runs is not known
		g.Facts.Forwarded(c)
	}
	c.from.retries.answered(c)
	return Verdict{Seq: c.Seq, Move: Forward, Line: c.Line, Replaced: c.spliced, Notice: c.notice, Inspect: inspect && c.unseen() == ""}
}

func (g *Gate) deny(ctx context.Context, c *Call, r *record.Record, ruling Ruling) Verdict {
	r.Verdict, r.Gate, r.Rule, r.Policies, r.Reason, r.Surface = record.Deny, ruling.Gate, ruling.Rule, ruling.Policies, ruling.Reason, ""
	if ruling.Parked {
		r.Verdict = record.Park
	}
	if err := g.putCall(ctx, c, r, ruling.Redact); err != nil {
		return g.unrecorded(c, err)
	}
	return refusal(c, ruling, r.Approval)
}

// wouldHave forwards a call of the development profile and records what production would have
// done with it (F-023).
func (g *Gate) wouldHave(ctx context.Context, c *Call, r *record.Record, ruling Ruling) Verdict {
	word := ""
	switch {
	case ruling.Move == Ask:
		word, r.Auto = wouldAsk, true
	case ruling.Gate == gatePin:
		word = wouldHold
	case ruling.Hidden:
		word = wouldHide
	case ruling.Move == Deny:
		word = wouldBlock
	case c.hooks != nil && c.hooks.Changed != nil:
		word = wouldRedact
	}
	if word != "" {
		would(r, word)
	}
	return g.forward(ctx, c, r, ruling.Redact)
}

// unrecorded denies c because it can't be recorded, whatever the profile.
func (g *Gate) unrecorded(c *Call, err error) Verdict {
	return refusal(c, accident(fmt.Errorf("it could not be recorded (%w), and only recorded calls are forwarded", err)), "")
}

// refusal returns the verdict that denies c according to ruling. approval is the question
// behind the ruling, if any.
func refusal(c *Call, ruling Ruling, approval string) Verdict {
	return Verdict{
		Seq: c.Seq, Move: Deny, Reason: ruling.Reason, Approval: approval, parked: ruling.Parked,
		Answer: mcp.Deny(c.Line, &c.Envelope, denial(c, ruling, approval)),
	}
}

// record returns a new audit record of a verdict on c.
func (c *Call) record(policy Policy, facts []Fact, ruling Ruling) *record.Record {
	r := spare.Get().(*record.Record)
	*r = record.Record{
		Kind: record.KindCall, Attachment: c.Attachment, Call: c.Seq, ID: c.ID,
		Session: c.Session, Agent: c.Agent, Server: c.Server, Launch: c.Launch,
		Direction: Direction(c.Side), Method: c.Method, Tool: c.Subject, MessageID: string(c.Envelope.ID.Of(c.Line)),
		Gate: ruling.Gate, Rule: ruling.Rule, Policies: ruling.Policies, Reason: ruling.Reason,
		Profile: string(c.Profile), Set: policy.Digest(), Digest: hexOf(c.sum()),
		LatencyUS: time.Since(c.Received).Microseconds(),
	}
	if len(facts) > 0 {
		r.Facts = make([]string, len(facts))
		for i := range facts {
			r.Facts[i] = facts[i].Name
		}
	}
	c.hooks.addToRecord(r)
	c.Trace.judged(r)
	return r
}

// Direction returns the name of a message's direction in records.
func Direction(side wire.Side) string {
	if side == wire.FromServer {
		return "server_to_agent"
	}
	return "agent_to_server"
}

// isCanary reports whether c is a call of `tgctl doctor`. It is asked several times about each call,
// and reads the arguments once.
func (c *Call) isCanary() bool {
	if !c.canary.known {
		c.canary.known, c.canary.is = true, c.comesFromDoctor()
	}
	return c.canary.is
}

// comesFromDoctor reports whether c goes to doctor's own server, or is the command that it gives to an
// agent's hook.
func (c *Call) comesFromDoctor() bool {
	switch {
	case c.Side != wire.FromAgent:
		return false
	case c.Server != agenthook.Server || c.Subject != agenthook.Shell:
		return c.Server == record.CanaryServer
	}
	arguments := rawjson.Read(c.Arguments())
	return arguments.OptionalText("command") == record.CanaryCommand && arguments.Err() == nil
}

// denyCanary denies a canary whatever the policy decided. By then the canary has passed the policy
// and everything else that a call passes. Faults are not hidden: an accident never gets here.
func (g *Gate) denyCanary(_ context.Context, c *Call) bool {
	if c.isCanary() {
		c.ruling = Ruling{
			Move: Deny, Gate: "rule", Rule: record.CanaryRule, Code: mcp.CodeRule, Redact: c.ruling.Redact,
			Reason: "it is a test call of `tgctl doctor`, which is always denied",
		}
	}
	return false
}

// What production would have done, as the records and the log of the development profile name
// it (F-023).
const (
	wouldBlock = "WOULD_BLOCK"
	wouldAsk   = "WOULD_ASK"
	wouldHide  = "WOULD_HIDE"
	wouldHold  = "WOULD_HOLD"
	// wouldRedact: hooks would have replaced something, and the message would have been
	// forwarded.
	wouldRedact = "WOULD_REDACT"
)

// would notes in r what production would have done with the message, which is forwarded.
func would(r *record.Record, word string) { r.Would, r.Forwarded = word, true }

// InForce returns the profile of calls whose session was opened with limit, which may be
// empty, and whose shim requests none.
func (g *Gate) InForce(limit Profile) Profile {
	c := Call{Case: Case{Limit: limit}}
	return c.inForce(g.Policy())
}

// Profile returns the profile that the attachment's calls are judged under now.
func (a *Attachment) Profile() Profile {
	c := Call{Case: Case{Limit: a.shim.Limit, Profile: a.shim.Requested}}
	return c.inForce(a.gate.Policy())
}
