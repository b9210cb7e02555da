package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// rule is a compiled rule or default of the configuration.
type rule struct {
	*config.Rule // nil for a default
	action       config.Action
	label        string     // such as `"delete_*" (thoughtgate.yaml:12)`
	cited        gate.Cited // as explanations cite it
	ask          *workflowRef
	digest       [32]byte // of the rule without its place; zero for a default
}

// compileRules resolves the workflows of the rules and defaults.
func (l *loader) compileRules() {
	for i := range l.cfg.Governance.Rules {
		r := &l.cfg.Governance.Rules[i]
		l.rules = append(l.rules, l.compile("rule", r, r.Approval))
	}
	d := &l.cfg.Governance.Defaults
	l.defaults, l.forAsks = l.defaultRule("defaults.action", &d.Action), l.defaultRule("defaults.asks", &d.Asks)
	for _, w := range l.cfg.Approval {
		l.redact = append(l.redact, w.RedactFields...)
	}
	slices.Sort(l.redact)
	l.redact = slices.Compact(l.redact)
}

// compile compiles a rule, which explanations cite as one of kind. Config has checked that the
// workflow exists.
func (l *loader) compile(kind string, r *config.Rule, workflow string) rule {
	cited := citedAt(kind, patternOf(r), r.Place, string(r.Action), r.Description)
	return rule{Rule: r, action: r.Action, label: label(r), cited: cited, ask: l.workflow(workflow), digest: digestOfRule(r)}
}

// compileOwnTools adds the built-in rules for the tools of agents themselves. Where a
// configuration forwards what no rule of it matches, it was most likely written for MCP servers,
// and these tools can do more. A stricter default stays as it is.
func (l *loader) compileOwnTools() {
	if l.defaults.action != config.Forward {
		return
	}
	builtIn := config.Default()
	for i := range builtIn.Governance.Rules {
		r := &builtIn.Governance.Rules[i]
		l.ownTools = append(l.ownTools, l.compile("default", r, ""))
	}
}

// digestOfRule returns the SHA-256 of a rule without its place.
func digestOfRule(r *config.Rule) [32]byte {
	said := *r
	said.Place = config.Place{}
	return sha256.Sum256(fmt.Appendf(nil, "%#v", said))
}

// matches reports whether r applies to the call under one of its subject's names.
func (r *rule) matches(s *subject, name string, facts []gate.Fact) bool {
	switch {
	case len(r.Method) > 0:
		if !config.MatchAny(r.Method, s.method) {
			return false
		}
	case s.class != classAct:
		return false // only a rule that names such a method applies to it
	}
	return r.Match.Match(name) &&
		(len(r.Source) == 0 || config.MatchAny(r.Source, s.server)) &&
		(len(r.Agent) == 0 || config.MatchAny(r.Agent, s.agent)) &&
		(len(r.When) == 0 || firstFact(r.When, facts) != nil)
}

// firstFact returns the first of facts that is in wanted, or nil.
func firstFact(wanted []config.Fact, facts []gate.Fact) *gate.Fact {
	for i := range facts {
		if slices.Contains(wanted, config.Fact(facts[i].Name)) {
			return &facts[i]
		}
	}
	return nil
}

// Rule judges a call by the gates visible, rule and permit. If the call has several subjects, or
// a URI with several spellings, each is judged separately and the strictest ruling is returned.
//
// If Rule fails, only Redact is set in the ruling: the record of a call must be redacted even if
// the call cannot be judged.
func (s *Set) Rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	if s.fleet != nil {
		return s.ruleInFleet(ctx, c, facts)
	}
	return s.ruleAlone(ctx, c, facts)
}

// ruleAlone judges a call without the fleet's part.
func (s *Set) ruleAlone(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	if ctx.Err() != nil {
		return gate.Ruling{Redact: s.redact}, context.Cause(ctx)
	}
	sub, err := subjectOf(c)
	if err != nil {
		return gate.Ruling{Redact: s.redact}, err
	}
	if r, ok := s.hiddenRuling(ctx, sub, c); ok {
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

// strictness orders rulings: forward, ask, deny.
func strictness(r *gate.Ruling) int {
	switch r.Move {
	case gate.Forward:
		return 0
	case gate.Ask:
		return 1
	}
	return 2
}

// ruleFor judges a call under one of its names by the gates rule and permit.
func (s *Set) ruleFor(ctx context.Context, sub *subject, name string, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	r := s.defaultFor(sub, facts)
	if i := s.firstMatch(ctx, sub, name, facts); i >= 0 {
		r = &s.rules[i]
	}
	switch {
	case ctx.Err() != nil:
		return gate.Ruling{}, context.Cause(ctx)
	case r != nil:
		return s.apply(r, sub, name, c, facts)
	case sub.class == classUnknown:
		return s.unknownMethod(sub, c, facts)
	}
	return gate.Ruling{Move: gate.Forward, Gate: "rule"}, nil
}

// firstMatch returns the index of the first rule that matches, or -1 if a default applies. It
// stops when ctx is done.
func (s *Set) firstMatch(ctx context.Context, sub *subject, name string, facts []gate.Fact) int {
	for i := range s.rules {
		if ctx.Err() != nil {
			break
		}
		if s.rules[i].matches(sub, name, facts) {
			return i
		}
	}
	return -1
}

// defaultFor returns the default for a call that no rule matches, or nil if there is none for its
// method.
func (s *Set) defaultFor(sub *subject, facts []gate.Fact) *rule {
	switch {
	case sub.class == classAct:
		if sub.server == agenthook.Server {
			for i := range s.ownTools {
				if r := &s.ownTools[i]; r.matches(sub, sub.names[0], facts) {
					return r
				}
			}
		}
		return &s.defaults
	case sub.class != classAsk:
		return nil
	case sub.unruled && !slices.ContainsFunc(facts, func(f gate.Fact) bool { return f.Name == gate.FactSmelly }):
		return &rule{action: config.Forward}
	}
	return &s.forAsks
}

// unknownMethod rules on a method that is in no table and that no rule names.
func (s *Set) unknownMethod(sub *subject, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
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
		Reason: "ThoughtGate does not know the method, and no rule names it", Redact: s.redact,
	}, nil
}

// unknownRevision denies a request in a revision of MCP that the tables do not cover, since the
// meaning of its methods is unknown. The configuration may forward such requests instead.
func (s *Set) unknownRevision(c *gate.Call) (gate.Ruling, bool) {
	if mcp.KnownRevision(&c.Envelope, c.Line) || s.cfg.Unknown.For(config.Profile(c.Profile)).Revisions == config.UnknownForward {
		return gate.Ruling{}, false
	}
	return gate.Ruling{
		Move: gate.Deny, Gate: "rule", Rule: "unknown revisions", Code: mcp.CodeUnknownRevision,
		Reason: "it uses a revision of MCP that ThoughtGate does not know", Redact: s.redact,
	}, true
}

// apply returns the combined ruling of r and of the Cedar policies.
func (s *Set) apply(r *rule, sub *subject, name string, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	ruling := gate.Ruling{Gate: "rule", Rule: r.label, Redact: s.redact}
	if r.Rule != nil {
		ruling.Answer = string(r.AnswerBy)
	}
	if r.action == config.Deny {
		ruling.Move, ruling.Code, ruling.Reason = gate.Deny, mcp.CodeRule, r.reasonOr(sub, facts, "is denied")
		return ruling, nil
	}
	var found determining
	if !sub.cedarByRule || r.action == config.Policy {
		policyID := ""
		if r.Rule != nil {
			policyID = r.PolicyID
		}
		var err error
		if found, err = s.authorize(sub, name, c, facts, policyID); err != nil {
			return gate.Ruling{}, err
		}
	}
	if len(found.forbids) > 0 {
		return s.forbid(ruling, found.forbids), nil
	}
	asking := firstApproval(found.permits)
	switch {
	case r.action == config.Policy && len(found.permits) == 0:
		ruling.Move, ruling.Gate, ruling.Code = gate.Deny, "permit", mcp.CodePolicy
		ruling.Reason = "no policy permits it"
	case r.action == config.Approve:
		ask := r.ask
		// Both ask. The rule's workflow must not replace one that requires presence.
		if asking != nil && asking.ask.level == gate.LevelPresence && ask.level != gate.LevelPresence {
			ask, ruling.Policies, ruling.By = asking.ask, ids(found.permits), asking.title()
		}
		setQuestion(&ruling, ask, r.reasonOr(sub, facts, "needs a person's approval"))
		ruling.Basis.Rule = r.digest
	case asking != nil:
		ruling.Gate, ruling.Policies, ruling.By = "permit", ids(found.permits), asking.title()
		setQuestion(&ruling, asking.ask, asking.reasonOr("needs a person's approval"))
		ruling.Basis.Rule = sha256.Sum256(slices.Concat(r.digest[:], asking.digest[:]))
	default:
		ruling.Move, ruling.Policies = gate.Forward, ids(found.permits)
		if r.action == config.Policy {
			ruling.Gate = "permit"
		}
	}
	if ruling.Move == gate.Ask {
		ruling.Undo = r.Rule != nil && r.Undo
		ruling.Level = strictestLevel(ruling.Level, found.permits)
		if slices.ContainsFunc(found.permits, func(p *policy) bool { return p.ask != nil && p.ask.natively == nil }) {
			ruling.Natively = nil // somebody else is to approve it, too
		}
	}
	return ruling, nil
}

// strictestLevel returns the strictest of level and the levels that permits require. Only one
// workflow asks, but all levels apply.
func strictestLevel(level gate.Level, permits []*policy) gate.Level {
	for _, p := range permits {
		if p.ask != nil && p.ask.level.Stricter(level) {
			level = p.ask.level
		}
	}
	return level
}

// forbid turns ruling into a denial by policies.
func (s *Set) forbid(ruling gate.Ruling, by []*policy) gate.Ruling {
	ruling.Move, ruling.Gate, ruling.Code = gate.Deny, "permit", mcp.CodePolicy
	ruling.Policies = ids(by)
	ruling.Reason = by[0].reasonOr("forbids it")
	for _, p := range by {
		if p.reason != "" {
			ruling.Reason = p.reason
			break
		}
	}
	return ruling
}

// setQuestion turns ruling into a question to the approvers of a workflow.
func setQuestion(ruling *gate.Ruling, a *workflowRef, reason string) {
	ruling.Move, ruling.Reason, ruling.Redact = gate.Ask, reason, a.redact
	a.fill(ruling)
}

// fill sets who is asked, and how.
func (a *workflowRef) fill(ruling *gate.Ruling) {
	ruling.Workflow, ruling.Timeout, ruling.Validity = a.workflow, a.timeout, a.validity
	ruling.Surfaces, ruling.Basis.Workflow, ruling.Level = a.surfaces, a.digest, a.level
	ruling.Natively = a.natively
}

// Whom implements gate.Policy. It sets the workflow of the defaults.
func (s *Set) Whom(r *gate.Ruling) { s.defaults.ask.fill(r) }

// firstApproval returns the first policy that asks a person, or nil.
func firstApproval(permits []*policy) *policy {
	for _, p := range permits {
		if p.ask != nil {
			return p
		}
	}
	return nil
}

// label returns the label of a rule, which questions, denials and records show: what it says about
// the call itself, which is its pattern and its facts, and its place. Conditions on who calls whom
// by which method are not in it, but in an Entry.
func label(r *config.Rule) string { return fmt.Sprintf("%s (%s)", patternOf(r), r.Place) }

// patternOf returns the label of a rule without its place.
func patternOf(r *config.Rule) string {
	what := strconv.Quote(r.Match.String())
	if len(r.When) > 0 {
		what += " when " + strings.Join(words(r.When), " or ")
	}
	return what
}

// defaultRule compiles a default.
func (l *loader) defaultRule(name string, action *config.Action) rule {
	label, place := name, l.cfg.Place(action)
	if place.Line > 0 {
		label = fmt.Sprintf("%s (%s)", name, place)
	}
	return rule{action: *action, label: label, cited: citedAt("default", name, place, string(*action), ""), ask: l.workflow("")}
}

// reasonOr returns the description of the rule as a clause, or else a clause that ends in
// otherwise, such as "is denied".
func (r *rule) reasonOr(s *subject, facts []gate.Fact, otherwise string) string {
	if r.Rule != nil && r.Description != "" {
		return fillPlaceholders(r.Description, r.When, facts)
	}
	if s.server == agenthook.Server {
		return fmt.Sprintf("the agent's own tool %s %s", printable(s.names[0]), otherwise)
	}
	return fmt.Sprintf("%s on server %s %s", s.method, printable(s.server), otherwise)
}

// reasonOr returns the @reason of the policy, or else a clause that ends in otherwise.
func (p *policy) reasonOr(otherwise string) string {
	if p.reason != "" {
		return p.reason
	}
	return fmt.Sprintf("the policy %s %s", printable(p.id), otherwise)
}

// placeholders are what a description may contain, what stands for a value that no fact has, and
// which it is of a fact.
var placeholders = []struct {
	name, unknown string
	of            func(*gate.Fact) string
}{
	{"{place}", "a place", func(f *gate.Fact) string { return f.Place }},
	{"{by}", "unknown", func(f *gate.Fact) string { return f.By }},
	{"{member}", "an argument", func(f *gate.Fact) string { return f.Member }},
	{"{detail}", "not known", func(f *gate.Fact) string { return f.Detail }},
}

// fillPlaceholders replaces the placeholders in the description of a rule by the values of the
// facts in when, or else of any fact.
func fillPlaceholders(description string, when []config.Fact, facts []gate.Fact) string {
	if !strings.ContainsRune(description, '{') {
		return description
	}
	var pairs []string
	for _, p := range placeholders {
		value := ""
		for _, only := range []bool{true, false} {
			for i := range facts {
				if value == "" && (!only || firstFact(when, facts[i:i+1]) != nil) {
					value = printable(p.of(&facts[i]))
				}
			}
		}
		pairs = append(pairs, p.name, cmp.Or(value, p.unknown))
	}
	return strings.NewReplacer(pairs...).Replace(description)
}

// maxPrintable is the maximum length of an untrusted name in a message, in bytes.
const maxPrintable = 120

// printable formats untrusted text for a message: short, on one line, and quoted unless it is a
// plain name, so that it cannot be mistaken for a part of the message.
func printable(text string) string {
	short := text
	if len(short) > maxPrintable {
		short = strings.ToValidUTF8(short[:maxPrintable], "") + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > 0x7e || r <= ' ' || strings.ContainsRune("\"'`(){};,", r) }) {
		return strconv.QuoteToASCII(short)
	}
	return short
}
