package rehearse

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Answer says what the gate would do with a Line.
type Answer struct {
	Verdict   string // forward, ask, deny
	Hidden    bool   // denied as if the thing did not exist
	Observed  bool   // it was already answered, and nothing in the answer is judged
	Forwarded bool   // it is forwarded all the same: the profile is development
	Profile   gate.Profile
	Gate      string // visible, rule, permit, ask, accident
	Rule      string // as in records
	Policies  []string
	Reason    string
	Facts     []gate.Fact
	Set       string // digest

	// Perhaps is the verdict if the call destroyed something on a disk that nobody knows, which Unclear
	// describes: ask or deny. It is empty if Verdict is the same whether it did or not.
	Perhaps, Unclear string
	Shown            []byte // arguments of such a call, or of one that is not forwarded, by Redact of the stage; nil without

	// For ask: who is asked, for how long and where, and what an approval requires.
	Workflow string
	Timeout  time.Duration
	Surfaces []string
	Level    gate.Level
	Natively bool // the agent asks its own user, if it can
	// Hooks are the extensions that would see the call first, and ResultHooks those that would see
	// the result.
	Hooks, ResultHooks []string

	// Grant says what a grant would cover; empty unless a person is asked.
	Grant string

	Why *gate.Explained // nil unless asked for, or if no rule was evaluated
}

// answer builds the answer from what was seen while l was judged.
func (s *Stage) answer(ctx context.Context, l *Line, seen sighting, why bool) *Answer {
	a := &Answer{Verdict: verdict(seen.verdict.Move)}
	if r := seen.record; r != nil {
		a.fromRecord(r)
	}
	if seen.verdict.Reason != "" {
		a.Reason = seen.verdict.Reason
	}
	if j := seen.judged; j != nil {
		a.Facts = j.facts
		if c := &j.call; s.hooks != nil && c.Side == wire.FromAgent && c.Envelope.Kind == wire.Request {
			a.Hooks, a.ResultHooks = s.hooks.Who(c, false), s.hooks.Who(c, true)
		}
		a.Hidden = a.Verdict == "deny" && a.Gate == "visible"
		a.ifDestroyed(ctx, j)
		if s.Redact != nil && (a.Verdict != "forward" || a.Perhaps != "") {
			a.Shown = s.Redact(j.call.Arguments())
		}
		if why {
			if e, ok := j.policy.(gate.Explainer); ok {
				explained := e.Explain(ctx, &j.call, j.facts)
				a.Why = &explained
				a.explainBuiltIn()
			}
		}
	}
	if member, _ := mcp.ListOf(l.Method); member != "" && l.Result != nil {
		a.ofList(l, seen.held)
	}
	if a.Verdict == "ask" && l.Result == nil {
		a.asking(l, seen)
	}
	return a
}

// ifDestroyed sets what the verdict would be if the call destroyed what it may have destroyed.
func (a *Answer) ifDestroyed(ctx context.Context, j *judgement) {
	if j.call.Unclear == "" || a.Verdict != "forward" || j.err != nil {
		return
	}
	facts := append(slices.Clone(j.facts), gate.Fact{Name: gate.FactDestroys, Detail: j.call.Unclear})
	if r, err := j.policy.Rule(ctx, &j.call, facts); err == nil && r.Move != gate.Forward {
		a.Perhaps, a.Unclear, a.Reason = verdict(r.Move), j.call.Unclear, r.Reason
	}
}

func (a *Answer) fromRecord(r *record.Record) {
	a.Profile, a.Gate, a.Rule, a.Policies, a.Reason, a.Set = gate.Profile(r.Profile), r.Gate, r.Rule, r.Policies, r.Reason, r.Set
	for _, name := range r.Facts {
		a.Facts = append(a.Facts, gate.Fact{Name: name})
	}
	switch r.Would {
	case "":
	case "WOULD_REDACT": // by extensions; the gates forward it
	case "WOULD_ASK":
		a.Verdict, a.Forwarded = "ask", true
	default:
		a.Verdict, a.Forwarded = "deny", true
	}
}

// ofList sets the answer for a list: it is forwarded, and what is withheld of it waits for a
// person.
func (a *Answer) ofList(l *Line, held []string) {
	if a.Gate == "accident" {
		return
	}
	a.Verdict = "forward"
	if len(held) == 0 {
		return
	}
	a.Verdict = "ask"
	for i, name := range held {
		held[i] = l.Server + "/" + name
	}
	a.Grant = "the definitions of " + strings.Join(held, ", ")
}

// builtIn is the prefix of built-in rules in records.
const builtIn = "built in: "

// explainBuiltIn adds the built-in rule before the written rules that it overrules.
func (a *Answer) explainBuiltIn() {
	name, ok := strings.CutPrefix(a.Rule, builtIn)
	if !ok || a.Why == nil {
		return
	}
	e := a.Why
	step := gate.Step{Change: "accepting the definition: tgctl tools accept", Move: e.Ruling.Move, By: e.Ruling.Rule}
	switch {
	case a.Verdict == "ask":
		step.Change = "no rule can change it; only another name in the call can"
	case a.Rule == record.CanaryRule:
		step.Change = "no rule can change it; only another server id can"
	}
	e.Cited = append([]gate.Cited{{Kind: "built in", Name: name, Does: a.Verdict}}, e.Cited...)
	e.Steps = append([]gate.Step{step}, e.Steps...)
}

// asking sets the fields about the question.
func (a *Answer) asking(l *Line, seen sighting) {
	var r gate.Ruling
	switch {
	case seen.question != nil:
		r = seen.question.Ruling
	case seen.judged != nil && seen.judged.ruling.Move == gate.Ask:
		r = seen.judged.ruling
	}
	a.Workflow, a.Timeout, a.Surfaces, a.Level = r.Workflow, r.Timeout, r.Surfaces, r.Level
	a.Natively = l.Server == agenthook.Server && r.MayAskNatively(l.Agent, a.Facts)
	a.Grant = grant(l, a.Facts)
}

func verdict(m gate.Move) string {
	if m == gate.Ask || m == gate.Deny {
		return m.String()
	}
	return "forward"
}

// grant says what a grant would cover: the thing, and the place that the question is about.
func grant(l *Line, facts []gate.Fact) string {
	what := l.Server + "/" + l.Subject
	if l.Method != "tools/call" {
		what = strings.TrimSpace(l.Server + " " + l.Method + " " + l.Subject)
	}
	for _, f := range facts {
		if f.Place != "" {
			if f.Place == what { // if a send names no place, its tool counts as the place
				return what
			}
			return what + " to " + f.Place
		}
	}
	return what
}
