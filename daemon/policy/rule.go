package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// rule is a rule of the configuration, or one of its defaults, as it is judged by.
type rule struct {
	*config.Rule // nil for a default
	action       config.Action
	label        string // as `"delete_*" (thoughtgate.yaml:12)`
	ask          *asking
	digest       [32]byte // over what it says, wherever it stands
}

// compileRules resolves what the rules name.
func (l *loader) compileRules() {
	for i := range l.cfg.Governance.Rules {
		r := &l.cfg.Governance.Rules[i]
		// Config has checked that a workflow of this name exists.
		l.rules = append(l.rules, rule{Rule: r, action: r.Action, label: label(r), ask: l.asking(r.Approval), digest: digestOfRule(r)})
	}
	d := &l.cfg.Governance.Defaults
	l.defaults = rule{action: d.Action, label: defaultLabel("action", l.cfg.Place(&d.Action)), ask: l.asking("")}
	l.forAsks = rule{action: d.Asks, label: defaultLabel("asks", l.cfg.Place(&d.Asks)), ask: l.asking("")}
	for _, w := range l.cfg.Approval {
		l.redact = append(l.redact, w.RedactFields...)
	}
	slices.Sort(l.redact)
	l.redact = slices.Compact(l.redact)
}

// digestOfRule is SHA-256 over what a rule says. A default says no more than that
// it is one: its digest is zero.
func digestOfRule(r *config.Rule) [32]byte {
	said := *r
	said.Place = config.Place{}
	return sha256.Sum256(fmt.Appendf(nil, "%#v", said))
}

// matches reports whether r is about the call. name is one spelling of what the
// call is about.
func (r *rule) matches(s *subject, name string, facts []gate.Fact) bool {
	switch {
	case len(r.Method) > 0:
		if !config.MatchAny(r.Method, s.method) {
			return false
		}
	case s.class != acts:
		return false // what doesn't act, or is not known, must be named
	}
	return r.Match.Match(name) &&
		(len(r.Source) == 0 || config.MatchAny(r.Source, s.server)) &&
		(len(r.Agent) == 0 || config.MatchAny(r.Agent, s.agent)) &&
		(len(r.When) == 0 || holds(r.When, facts) != nil)
}

// holds returns the first of facts that is one of wanted.
func holds(wanted []config.Fact, facts []gate.Fact) *gate.Fact {
	for i := range facts {
		if slices.Contains(wanted, config.Fact(facts[i].Name)) {
			return &facts[i]
		}
	}
	return nil
}

// Rule takes a call through the gates visible, rule and permit. When it is about
// several things, or about a URI that has several spellings, each is
// judged by itself, and the strictest answer counts.
//
// With an error only the Redact of the ruling counts: what must not be recorded
// of a call must not be recorded of one that could not be judged either.
func (s *Set) Rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	if ctx.Err() != nil {
		return gate.Ruling{Redact: s.redact}, context.Cause(ctx)
	}
	sub, err := subjectOf(c)
	if err != nil {
		return gate.Ruling{Redact: s.redact}, err
	}
	if r, ok := s.hidden(ctx, sub, c); ok {
		return r, nil
	}
	if r, ok := s.unknownRevision(c); ok {
		return r, nil
	}
	var strictest gate.Ruling
	for i, name := range sub.names {
		r, err := s.ruleFor(ctx, sub, name, c, facts)
		if err != nil {
			return gate.Ruling{Redact: s.redact}, err
		}
		if i == 0 || strictness(&r) > strictness(&strictest) {
			strictest = r
		}
	}
	return strictest, nil
}

// strictness orders rulings by how little they let through.
func strictness(r *gate.Ruling) int {
	switch r.Move {
	case gate.Forward:
		return 0
	case gate.Ask:
		return 1
	}
	return 2
}

// ruleFor is the gates rule and permit for one spelling of a name.
func (s *Set) ruleFor(ctx context.Context, sub *subject, name string, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	for i := range s.rules {
		if ctx.Err() != nil {
			return gate.Ruling{}, context.Cause(ctx)
		}
		if r := &s.rules[i]; r.matches(sub, name, facts) {
			return s.apply(r, sub, name, c, facts)
		}
	}
	switch sub.class {
	case acts:
		return s.apply(&s.defaults, sub, name, c, facts)
	case asks:
		if sub.free && !slices.ContainsFunc(facts, func(f gate.Fact) bool { return f.Name == "smelly" }) {
			return s.apply(&rule{action: config.Forward}, sub, name, c, facts)
		}
		return s.apply(&s.forAsks, sub, name, c, facts)
	case unknown:
		return s.unknown(sub, c, facts)
	}
	return gate.Ruling{Move: gate.Forward, Gate: "rule"}, nil
}

// unknown is what is done with a method that no table and no rule knows.
func (s *Set) unknown(sub *subject, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	u := s.cfg.Unknown.For(config.Profile(c.Profile))
	pass := u.Requests == config.UnknownForward
	if c.Envelope.Kind == wire.Notification {
		pass = u.Notifications == config.UnknownPass
	}
	if pass {
		return s.apply(&rule{action: config.Forward, label: "unknown methods"}, sub, "", c, facts)
	}
	return gate.Ruling{
		Move: gate.Deny, Gate: "rule", Rule: "unknown methods", Code: mcp.CodeUnknownMethod,
		Reason: "the method is none that ThoughtGate knows, and no rule names it", Redact: s.redact,
	}, nil
}

// unknownRevision refuses a request in a revision of MCP that the tables do not
// cover, unless the configuration lets such requests through: what a method means
// in it is not known.
func (s *Set) unknownRevision(c *gate.Call) (gate.Ruling, bool) {
	if mcp.KnownRevision(&c.Envelope, c.Line) || s.cfg.Unknown.For(config.Profile(c.Profile)).Revisions == config.UnknownForward {
		return gate.Ruling{}, false
	}
	return gate.Ruling{
		Move: gate.Deny, Gate: "rule", Rule: "unknown revisions", Code: mcp.CodeUnknownRevision,
		Reason: "it is in a revision of MCP that ThoughtGate does not know", Redact: s.redact,
	}, true
}

// apply carries out what r says, and asks Cedar.
func (s *Set) apply(r *rule, sub *subject, name string, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	ruling := gate.Ruling{Gate: "rule", Rule: r.label, Redact: s.redact}
	if r.Rule != nil {
		ruling.Answer = string(r.AnswerBy)
	}
	if r.action == config.Deny {
		ruling.Move, ruling.Code, ruling.Reason = gate.Deny, mcp.CodeRule, r.why(sub, facts, "is denied")
		return ruling, nil
	}
	var says opinion
	if !sub.light || r.action == config.Policy {
		policyID := ""
		if r.Rule != nil {
			policyID = r.PolicyID
		}
		var err error
		if says, err = s.consult(sub, name, c, facts, policyID); err != nil {
			return gate.Ruling{}, err
		}
	}
	if len(says.forbids) > 0 {
		return s.forbid(ruling, says.forbids), nil
	}
	asks := firstAsking(says.permits)
	switch {
	case r.action == config.Policy && len(says.permits) == 0:
		ruling.Move, ruling.Gate, ruling.Code = gate.Deny, "permit", mcp.CodePolicy
		ruling.Reason = "no policy permits it"
	case r.action == config.Approve:
		ask := r.ask
		// Two ask. A person's presence must not be saved by the other question.
		if asks != nil && asks.ask.level == gate.LevelPresence && ask.level != gate.LevelPresence {
			ask, ruling.Policies, ruling.By = asks.ask, ids(says.permits), asks.named()
		}
		question(&ruling, ask, r.why(sub, facts, "needs a person's approval"))
		ruling.Basis.Rule = r.digest
	case asks != nil:
		ruling.Gate, ruling.Policies, ruling.By = "permit", ids(says.permits), asks.named()
		question(&ruling, asks.ask, asks.why("needs a person's approval"))
		ruling.Basis.Rule = sha256.Sum256(slices.Concat(r.digest[:], asks.digest[:]))
	default:
		ruling.Move, ruling.Policies = gate.Forward, ids(says.permits)
		if r.action == config.Policy {
			ruling.Gate = "permit"
		}
	}
	if ruling.Move == gate.Ask {
		ruling.Level = strictest(ruling.Level, says.permits)
	}
	return ruling, nil
}

// strictest is the level of a question that others ask as well: one of them names
// the people, and none saves what another wants of them.
func strictest(level gate.Level, permits []*policy) gate.Level {
	for _, p := range permits {
		if p.ask != nil && p.ask.level.Stricter(level) {
			level = p.ask.level
		}
	}
	return level
}

// forbid turns ruling into the refusal of policies.
func (s *Set) forbid(ruling gate.Ruling, by []*policy) gate.Ruling {
	ruling.Move, ruling.Gate, ruling.Code = gate.Deny, "permit", mcp.CodePolicy
	ruling.Policies = ids(by)
	ruling.Reason = by[0].why("forbids it")
	for _, p := range by {
		if p.reason != "" {
			ruling.Reason = p.reason
			break
		}
	}
	return ruling
}

// question turns ruling into a question to the people of a workflow.
func question(ruling *gate.Ruling, a *asking, reason string) {
	ruling.Move, ruling.Reason, ruling.Redact = gate.Ask, reason, a.redact
	a.whom(ruling)
}

// whom fills in who is asked by a workflow, and how.
func (a *asking) whom(ruling *gate.Ruling) {
	ruling.Workflow, ruling.Timeout, ruling.Validity = a.workflow, a.timeout, a.validity
	ruling.Surfaces, ruling.Basis.Workflow, ruling.Level = a.surfaces, a.digest, a.level
}

// Whom implements gate.Policy: those who are asked by a default that names no
// workflow.
func (s *Set) Whom(r *gate.Ruling) { s.defaults.ask.whom(r) }

// firstAsking returns the first policy, by file and position, that asks.
func firstAsking(permits []*policy) *policy {
	for _, p := range permits {
		if p.ask != nil {
			return p
		}
	}
	return nil
}

// label names a rule by its pattern and its place.
func label(r *config.Rule) string {
	what := strconv.Quote(r.Match.String())
	if len(r.When) > 0 {
		facts := make([]string, len(r.When))
		for i, f := range r.When {
			facts[i] = string(f)
		}
		what += " when " + strings.Join(facts, " or ")
	}
	return fmt.Sprintf("%s (%s)", what, r.Place)
}

func defaultLabel(key string, p config.Place) string {
	if p.Line == 0 {
		return "defaults." + key
	}
	return fmt.Sprintf("defaults.%s (%s)", key, p)
}

// why says in a clause why the rule applies: in the words of whoever wrote it,
// else that the method on this server is, say, denied.
func (r *rule) why(s *subject, facts []gate.Fact, otherwise string) string {
	if r.Rule != nil && r.Description != "" {
		return fill(r.Description, r.When, facts)
	}
	return fmt.Sprintf("%s on server %s %s", s.method, shown(s.server), otherwise)
}

// why says in a clause what the policy did: its @reason, else where it stands.
func (p *policy) why(otherwise string) string {
	if p.reason != "" {
		return p.reason
	}
	return fmt.Sprintf("the policy %s %s", shown(p.id), otherwise)
}

// fill puts into a description what made the rule apply: the place, the server
// that named it and the argument, of the facts that the rule asks for, else of
// any.
func fill(description string, when []config.Fact, facts []gate.Fact) string {
	if !strings.ContainsRune(description, '{') {
		return description
	}
	values := map[string]string{}
	take := func(f *gate.Fact) {
		for name, value := range map[string]string{"{place}": f.Place, "{by}": f.By, "{member}": f.Member} {
			if value != "" && values[name] == "" {
				values[name] = shown(value)
			}
		}
	}
	for _, only := range []bool{true, false} {
		for i := range facts {
			if f := &facts[i]; !only || holds(when, facts[i:i+1]) != nil {
				take(f)
			}
		}
	}
	for name, unknown := range map[string]string{"{place}": "a place", "{by}": "unknown", "{member}": "an argument"} {
		if values[name] == "" {
			values[name] = unknown
		}
	}
	return strings.NewReplacer("{place}", values["{place}"], "{by}", values["{by}"], "{member}", values["{member}"]).Replace(description)
}

// maxShown is how much of a name from outside goes into a sentence.
const maxShown = 120

// shown makes text from outside fit for a sentence: short, on one line, and in
// quotes when it is more than a name, so that it can't pass for a part of the
// sentence.
func shown(text string) string {
	short := text
	if len(short) > maxShown {
		short = strings.ToValidUTF8(short[:maxShown], "") + "…"
	}
	for _, r := range text {
		if r > 0x7e || r <= ' ' || strings.ContainsRune("\"'`(){};,", r) {
			return strconv.QuoteToASCII(short)
		}
	}
	return short
}
