package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// asked is a call that waits for a person.
type asked struct {
	call   *Call
	ruling Ruling
	facts  []Fact
	// What the person was asked about; an approval holds for nothing else.
	subject, digest [32]byte
	held            Held
}

// ask files the question about c, unless a grant covers it. The record of the question has
// been written when ask returns, unless known shows that a previous daemon wrote it.
func (g *Gate) ask(ctx context.Context, c *Call, w weighed, r, known *record.Record) (Verdict, *asked) {
	ruling := w.ruling
	if c.Of != "" { // the question is shown without the call that led to it
		ruling.Reason += fmt.Sprintf("; part of the server's answer to %s", c.Of)
	}
	if c.hooks != nil && len(c.hooks.By) > 0 {
		ruling.Reason += "; " + c.hooks.names() + " changed what is shown"
	}
	question := &Question{Call: w.shown, Ruling: ruling, Facts: w.facts, Subject: c.subject(ruling.Basis), Digest: c.Digest()}
	if (known == nil || c.noted) && g.granted(ctx, question, r) {
		return g.forward(ctx, c, r, ruling.Redact), nil
	}
	if c.asksNatively(&ruling, w.facts) {
		return g.askNatively(ctx, c, &ruling, w.facts, r), nil
	}
	held, err := g.Approver.Ask(ctx, question)
	if err != nil {
		return g.deny(ctx, c, r, refusedQuestion(ruling, err)), nil
	}
	a := &asked{call: c, ruling: ruling, facts: w.facts, subject: question.Subject, digest: c.Digest(), held: held}
	if answer, ok := answered(ctx, held); ok && (answer.Edit == nil || !g.wants(c, false)) {
		return g.conclude(ctx, a, answer, nil, nil), nil
	}
	r.Approval = held.ID()
	if known == nil || c.noted {
		c.noted = false // it has another question now
		r.Verdict = record.Hold
		if err := g.putCall(ctx, c, r, ruling.Redact); err != nil {
			withdraw(ctx, held)
			return g.unrecorded(c, err), nil
		}
	}
	return Verdict{Seq: c.Seq, Move: Ask, Reason: ruling.Reason, Approval: held.ID()}, a
}

// granted reports whether a grant covers the call, and notes the grant in the call's record.
// If looking for a grant fails, a person is asked.
func (g *Gate) granted(ctx context.Context, q *Question, r *record.Record) bool {
	if g.Grants == nil {
		return false
	}
	grant, err := g.Grants.Use(ctx, q)
	if err != nil {
		g.Logger.Error("look for a grant", "server_id", q.Call.Server, "method", q.Call.Method, "tool", q.Call.Subject, "err", err)
	}
	if grant == nil || err != nil {
		return false
	}
	r.Gate, r.Approval, r.Grant, r.Decider = "ask", grant.Approval, grant.ID, grant.Decider
	return true
}

// answered returns the answer to a question that has one already.
func answered(ctx context.Context, held Held) (Answer, bool) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	answer, err := held.Wait(ctx)
	return answer, err == nil
}

// await waits for the person. It returns false if ctx ended first and no verdict is due: the
// call was cancelled or will be asked about again.
func (g *Gate) await(ctx context.Context, a *asked) (Verdict, bool) {
	t := a.call.Trace
	waits := t.Begin(StageAsk)
	answer, err := a.held.Wait(ctx)
	t.Finish(waits)
	if ctx.Err() != nil {
		return Verdict{}, false
	}
	if t != nil {
		t.Answer = answer.State
	}
	edited := g.edited(ctx, a, answer, err)
	if ctx.Err() != nil {
		return Verdict{}, false
	}
	var late error
	if err == nil && answer.Approved {
		if late = g.approvedBehind(ctx, a, answer); ctx.Err() != nil {
			return Verdict{}, false
		}
	}
	gates := t.Begin(StageGate)
	defer t.Finish(gates)
	if late != nil {
		policy := g.policy(a.call)
		ruling := lapsed(a.ruling, answer, late.Error())
		r := a.call.record(policy, a.facts, ruling)
		r.Approval = a.held.ID()
		v := g.deny(ctx, a.call, r, ruling)
		v.Approval = r.Approval
		return v, true
	}
	v := g.conclude(ctx, a, answer, err, edited)
	return v, v.Move != 0
}

// conclude turns a person's answer into a verdict. The gates judge again, because the set in
// force may have changed. hooks is what hooks decided about the person's arguments, nil if
// they were not called. As with judge, there is no verdict if ctx ends before the gates have
// judged.
func (g *Gate) conclude(ctx context.Context, a *asked, answer Answer, failed error, hooks *hooked) Verdict {
	c := a.call
	var unusable error
	if failed == nil && answer.Approved && answer.Edit != nil {
		c, unusable = c.withArguments(answer.Edit, "a person")
	}
	if c != a.call {
		c.hooks = hooks
	}
	policy := g.policy(c)
	w := g.weigh(ctx, policy, c)
	if ctx.Err() != nil {
		return Verdict{}
	}
	ruling := w.ruling
	switch {
	case failed != nil:
		ruling = refusedQuestion(a.ruling, failed)
	case !answer.Approved:
		ruling = unapproved(a.ruling, answer)
	case unusable != nil:
		ruling = a.ruling.denied(mcp.CodeGate, fmt.Sprintf("it was approved (%s), but %v", answer.ID, unusable))
	case hooks != nil && (hooks.Move != Forward || hooks.Changed != nil):
		ruling = hooks.overPerson()
	case g.wants(c, false) && (c.hooks == nil || c.hooks.revision != g.Hooks.Revision()):
		ruling = lapsed(ruling, answer, "the extensions changed meanwhile and have not seen it")
	default:
		ruling = a.void(c, w, answer)
	}
	if c != a.call && ruling.Move == Deny {
		ruling.Reason = fmt.Sprintf("with the arguments that a person set (%s): %s", answer.ID, ruling.Reason)
	}
	r := c.record(policy, w.facts, ruling)
	r.Approval = a.held.ID()
	if ruling.Move == Deny {
		v := g.deny(ctx, c, r, ruling)
		v.Approval = r.Approval
		return v
	}
	r.Gate, r.Rule, r.Policies, r.Reason = "ask", a.ruling.Rule, a.ruling.Policies, ""
	if c != a.call {
		r.Reason = "with arguments changed by " + answer.Decider
	}
	v := g.forward(ctx, c, r, ruling.Redact)
	v.Approval = r.Approval
	if v.Move == Forward && c == a.call { // otherwise the agent would continue a call that was not approved
		c.from.retries.approved(c, a.ruling, a.facts, r.Approval)
	}
	if c != a.call && v.Move == Forward {
		v.Notice = fmt.Sprintf("A person changed the arguments of this call before it was executed (%s); this is the result of the changed call.", answer.ID)
	}
	return v
}

// void returns the ruling of w on c, which was approved, or a denial if the approval does not
// hold for c as it is now. If the person replaced the arguments, another rule may ask about
// the new ones: the person has answered that already. It does not stand in for an answer of
// other people.
func (a *asked) void(c *Call, w weighed, answer Answer) Ruling {
	why := ""
	switch r := &w.ruling; {
	case r.Move == Deny:
	case r.Move == Ask && r.Level == LevelPresence && answer.Level != LevelPresence:
		why = "approval now requires a presence proof"
	case a.call.Digest() != a.digest || c.Definition != a.call.Definition: // c is a copy if the person edited it
		why = "the call, or the definition of what it calls, is not what was shown to the person"
	case r.Move == Ask && (r.Workflow != a.ruling.Workflow || r.Basis.Workflow != a.ruling.Basis.Workflow):
		why = "the workflow for it changed meanwhile"
	case c != a.call:
	case r.Move == Ask && c.subject(r.Basis) != a.subject:
		why = "another rule or policy asks about it now"
	case r.Move == Ask && !shownWith(a.facts, NotInTheCall(w.facts)):
		why = "it has facts now that were not shown to the person"
		if i := slices.IndexFunc(w.facts, func(f Fact) bool { return f.Name == NoUndo }); i >= 0 {
			why += ": " + w.facts[i].Detail
		}
	case r.Move == Ask && c.Extent.IsBeyond(answer.Extent):
		why = "it destroys more than was shown"
		if i := slices.IndexFunc(w.facts, func(f Fact) bool { return f.Name == FactDestroys }); i >= 0 {
			why += ": it now " + w.facts[i].Detail
		}
	}
	if why == "" {
		return w.ruling
	}
	return lapsed(w.ruling, answer, why)
}

// lapsed returns the ruling on a call for which the approval no longer holds.
func lapsed(r Ruling, answer Answer, why string) Ruling {
	return r.denied(mcp.CodeRule, fmt.Sprintf("it was approved (%s), but %s; repeat the call", answer.ID, why))
}

// denied returns a ruling that denies what r asks about.
func (r *Ruling) denied(code int, reason string) Ruling {
	return Ruling{Move: Deny, Gate: "ask", Rule: r.Rule, Policies: r.Policies, Redact: r.Redact, Code: code, Reason: reason}
}

// IsWarning reports whether a fact is a reason to ask a person again who has not seen it. That a
// text steered the session is no reason to ask, and that files can be brought back is none to be
// careful.
func IsWarning(name string) bool { return name != FactSteered && name != Undo }

// shownWith reports whether each of facts that is a warning was among shown, compared by name.
func shownWith(shown, facts []Fact) bool {
	return !slices.ContainsFunc(facts, func(f Fact) bool {
		return IsWarning(f.Name) && !slices.ContainsFunc(shown, func(s Fact) bool { return s.Name == f.Name })
	})
}

// NotInTheCall returns the facts that a person can't see from the call itself. The destination
// is visible: if it became a new place while the person was asked, because of what the agent
// has read since, the call is still the same.
func NotInTheCall(facts []Fact) []Fact {
	return slices.DeleteFunc(slices.Clone(facts), func(f Fact) bool { return f.Name == FactNewPlace })
}

// withdraw withdraws a question that was filed and can't be answered any more.
func withdraw(ctx context.Context, held Held) {
	gone, cancel := context.WithCancelCause(ctx)
	cancel(ErrWithdrawn)
	// The answer to a withdrawn question is of no use.
	_, _ = held.Wait(gone)
}

func refusedQuestion(ruling Ruling, err error) Ruling {
	reason := fmt.Sprintf("a person must approve it, and the question could not be asked (%v)", err)
	switch {
	case errors.Is(err, ErrFull):
		reason = "too many calls are waiting for a person; repeat it when some are answered"
	case errors.Is(err, ErrBurst):
		reason = "too many questions were asked in a short time; wait a minute before you repeat it"
	case errors.Is(err, ErrNoColleague):
		reason = err.Error()
	}
	return ruling.denied(mcp.CodeGate, reason)
}

func unapproved(ruling Ruling, answer Answer) Ruling {
	code, reason, note := mcp.CodeRejected, "a person denied it (%s)", ""
	switch answer.State {
	case "expired":
		code, reason = mcp.CodeExpired, "nobody answered %s in time"
	case "withdrawn":
		reason = "the question %s was withdrawn"
	case StateParked:
		code, reason = mcp.CodeExpired, "waiting for a person (%s)"
		if answer.Note != "" {
			note = "; " + answer.Note
		}
	case StateLapsed:
		code, reason = mcp.CodeExpired, "it was approved (%s), but the approval has expired; repeat the call to ask again"
	case StateSpent:
		code, reason = mcp.CodeGate, "the approval %s was used for an equal call; repeat the call to ask again"
	default:
		if answer.Note != "" {
			note = ": " + answer.Note
		}
	}
	d := ruling.denied(code, fmt.Sprintf(reason, answer.ID)+note)
	d.Parked = answer.State == StateParked
	return d
}

// Level is how strongly an approver must prove to be a person.
type Level string

const (
	// LevelUsual is LevelPresence for a call of high risk if presence is set up, otherwise
	// LevelWatch. A Ruling has it until the facts of the call are known.
	LevelUsual Level = ""
	// LevelWatch admits any caller that no agent has started.
	LevelWatch Level = "watch"
	// LevelPresence admits a caller who knows a secret that no agent has.
	LevelPresence Level = "presence"
)

// strictness orders levels: the higher, the harder to satisfy.
var strictness = map[Level]int{LevelWatch: 1, LevelUsual: 2, LevelPresence: 3}

// Stricter reports whether an approval at level l requires more than one at other.
func (l Level) Stricter(other Level) bool { return strictness[l] > strictness[other] }

// Proof is a presence proof: either of the two. The verifier wipes it.
type Proof struct {
	Passphrase []byte
	Code       []byte // six digits
}

// Presence reports whether people can prove their presence.
type Presence interface {
	// Enrolled reports whether a secret is set up. It is quick and safe for concurrent use.
	Enrolled() bool
}

// Assumed stands for an unknown Presence when rules that are not in force are rehearsed: only
// a workflow that requires presence asks for it.
var Assumed Presence = assumed{}

type assumed struct{}

func (assumed) Enrolled() bool { return false }

// HighRisk are the facts of calls that only a person may approve, if presence is set up: calls
// that would disable ThoughtGate, that carry credentials or reach for them, or that a text put
// into the agent's mind, or that do with its own tools what is as grave. An agent that was talked
// into such a call may be talked into approving it too.
var HighRisk = []string{FactOurs, FactSecret, FactSecretPlace, FactPlanted, FactPrompted, FactDestroys, FactUploads, FactInstalls, FactNetworkCode}

// AsksColleagues reports whether the workflow accepts an approval from another machine of the
// fleet. A security key that was touched there counts as a proof of presence.
func (r *Ruling) AsksColleagues() bool { return slices.Contains(r.Surfaces, SurfaceColleague) }

// notEnrolled is why a question that requires presence can't be asked.
const notEnrolled = "the workflow requires presence, which is not set up; run `tgctl presence enrol`"

// setLevel sets the level of the question in w.
func (g *Gate) setLevel(w *weighed) {
	r := &w.ruling
	if r.Move != Ask {
		return
	}
	enrolled := g.Presence != nil && g.Presence.Enrolled()
	switch {
	case r.Level == LevelPresence:
		if !enrolled && g.Presence != Assumed && r.Unable == "" && !r.AsksColleagues() {
			r.Unable = notEnrolled
		}
	case r.Level == LevelUsual && enrolled && slices.ContainsFunc(w.facts, func(f Fact) bool { return slices.Contains(HighRisk, f.Name) }):
		r.Level = LevelPresence
	case r.Level == LevelUsual:
		r.Level = LevelWatch
	}
}
