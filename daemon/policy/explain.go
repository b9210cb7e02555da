package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

var _ gate.Explainer = (*Set)(nil)

// Explain implements gate.Explainer.
func (s *Set) Explain(ctx context.Context, c *gate.Call, facts []gate.Fact) gate.Explained {
	if s.fleet != nil {
		return s.explainInFleet(ctx, c, facts)
	}
	var e gate.Explained
	e.Ruling, e.Err = s.Rule(ctx, c, facts)
	sub, err := subjectOf(c)
	if err != nil {
		return e
	}
	if e.Ruling.Hidden {
		source := s.cfg.Source(sub.server)
		cited := citedAt("source", fmt.Sprintf("%q", source.ID), source.Place, "hide", "")
		cited.Fleet = s.ofFleet
		e.Cited = append(e.Cited, cited)
	} else {
		name := s.decidingName(ctx, sub, c, facts)
		i := s.firstMatch(ctx, sub, name, facts)
		e.Near = s.nearMisses(sub, name, facts, i)
		if cited, ok := s.citedRule(sub, i, facts); ok {
			e.Cited = append(e.Cited, cited)
		}
		for _, id := range e.Ruling.Policies {
			e.Cited = append(e.Cited, s.byID[id].cited())
		}
	}
	e.Steps = s.steps(ctx, sub, c, facts)
	return e
}

// decidingName returns the spelling of the call's subject whose ruling counts.
func (s *Set) decidingName(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) string {
	best, at := -1, sub.names[0]
	for _, name := range sub.names {
		r, err := s.ruleFor(ctx, sub, name, c, facts)
		strict := strictness(&r)
		if err != nil {
			strict = 3 // an error overrides all other rulings
		}
		if strict > best {
			best, at = strict, name
		}
	}
	return at
}

// citedRule cites the rule at i, or the default that applies if i is -1. It returns false if no
// default applies either.
func (s *Set) citedRule(sub *subject, i int, facts []gate.Fact) (gate.Cited, bool) {
	switch r := s.defaultFor(sub, facts); {
	case i >= 0:
		return s.rules[i].cited, true
	case r != nil && r.cited.Kind != "":
		return r.cited, true
	case sub.class == classUnknown:
		return citedAt("default", "unknown", s.cfg.Place(&s.cfg.Unknown), "", ""), true
	}
	return gate.Cited{}, false
}

func citedAt(kind, name string, at config.Place, does, says string) gate.Cited {
	return gate.Cited{Kind: kind, Name: name, File: at.File, Line: at.Line, Column: at.Column, Does: does, Says: says}
}

func (p *policy) cited() gate.Cited {
	kind, does := "permit", "permit"
	switch {
	case p.cedar.Effect() == cedar.Forbid:
		kind, does = "forbid", "forbid"
	case p.ask != nil:
		does = "ask"
	}
	cited := citedAt(kind, p.id, p.place, does, p.reason)
	cited.Fleet = p.fleet
	return cited
}

// maxNear is the maximum number of near misses to list.
const maxNear = 5

// nearMisses lists the rules before the one at i that match the call except for one condition,
// which may be a mistake. It omits rules about another name, unless the names are similar, and
// rules whose fact is absent.
func (s *Set) nearMisses(sub *subject, name string, facts []gate.Fact, i int) []gate.Near {
	if i < 0 {
		i = len(s.rules)
	}
	var found []gate.Near
	for n := range s.rules[:i] {
		r := &s.rules[n]
		other := !r.Match.Match(name) && config.Nearest(name, []string{r.Match.String()}) == ""
		if other || len(r.When) > 0 && firstFact(r.When, facts) == nil {
			continue
		}
		if because := r.mismatches(sub, name, facts); len(because) == 1 && len(found) < maxNear {
			found = append(found, gate.Near{Cited: r.cited, Because: because[0]})
		}
	}
	return found
}

// mismatches explains which conditions of r the call does not meet. The result is empty if and
// only if matches returns true.
func (r *rule) mismatches(sub *subject, name string, facts []gate.Fact) []string {
	var because []string
	if len(r.Method) == 0 && sub.class != classAct {
		because = append(because, fmt.Sprintf("it does not name the method %s", printable(sub.method)))
	}
	for _, c := range []struct {
		what, is string
		wanted   []config.Glob
	}{{"method", sub.method, r.Method}, {"match", name, []config.Glob{r.Match}}, {"source", sub.server, r.Source}, {"agent", sub.agent, r.Agent}} {
		if len(c.wanted) > 0 && !config.MatchAny(c.wanted, c.is) {
			because = append(because, fmt.Sprintf("its %s is %s, the call's is %s", c.what, strings.Join(each(c.wanted, config.Glob.String), " or "), printable(c.is)))
		}
	}
	if len(r.When) > 0 && firstFact(r.When, facts) == nil {
		because = append(because, "the call lacks the fact "+strings.Join(words(r.When), " or "))
	}
	return because
}

// maxSteps is the maximum number of changes that steps follows.
const maxSteps = 8

// steps lists what would have to change, one thing after another, until the call is forwarded,
// with the outcome after each change. To find each, it judges the call again without what
// decided.
func (s *Set) steps(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) []gate.Step {
	var steps []gate.Step
	now := s
	for range maxSteps {
		r, err := now.Rule(ctx, c, facts)
		if err == nil && r.Move == gate.Forward {
			break
		}
		change, next := now.withoutCause(ctx, sub, c, facts, r, err)
		step := gate.Step{Change: change}
		if next != nil {
			then, err := next.Rule(ctx, c, facts)
			step.Move, step.By = outcome(then, err)
		}
		steps = append(steps, step)
		if len(steps) == 1 {
			steps = append(steps, s.stepWithoutFacts(ctx, sub, c, facts)...)
		}
		if next == nil {
			break
		}
		now = next
	}
	return steps
}

// outcome summarizes a ruling.
func outcome(r gate.Ruling, err error) (gate.Move, string) {
	switch {
	case err != nil:
		return gate.Deny, err.Error()
	case len(r.Policies) > 0 && r.Gate == "permit":
		return r.Move, strings.Join(r.Policies, ", ")
	}
	return r.Move, r.Rule
}

// stepWithoutFacts returns the outcome of the call without the facts that made the rule match, if
// there are any.
func (s *Set) stepWithoutFacts(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) []gate.Step {
	i := s.firstMatch(ctx, sub, s.decidingName(ctx, sub, c, facts), facts)
	if i < 0 || len(s.rules[i].When) == 0 {
		return nil
	}
	var names []string
	rest := slices.DeleteFunc(slices.Clone(facts), func(f gate.Fact) bool {
		is := slices.Contains(s.rules[i].When, config.Fact(f.Name))
		if is && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
		return is
	})
	step := gate.Step{Change: "the call without the fact " + strings.Join(names, " and "), Or: true}
	step.Move, step.By = outcome(s.Rule(ctx, c, rest))
	return []gate.Step{step}
}

// withoutCause describes what prevented the call from being forwarded. It returns the set without
// that, or with what is missing. The set is nil if there is no such set.
func (s *Set) withoutCause(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact, r gate.Ruling, err error) (change string, next *Set) {
	switch {
	case err != nil:
		return "the policies or the call, so that they can be evaluated", nil
	case r.Hidden:
		source := s.cfg.Source(sub.server)
		next := s.clone()
		next.showHidden = true
		return fmt.Sprintf("the source %q (%s), so that it exposes it", source.ID, source.Place), next
	}
	name := s.decidingName(ctx, sub, c, facts)
	i := s.firstMatch(ctx, sub, name, facts)
	switch {
	case len(r.Policies) > 0 && r.Move == gate.Deny:
		return "without " + s.listPolicies(r.Policies, "forbid"), s.withPolicies(func(p *policy) *policy {
			if slices.Contains(r.Policies, p.id) {
				return nil
			}
			return p
		})
	case r.Gate == "permit" && r.Move == gate.Ask:
		return "without @approval on " + s.listPolicies(r.Policies, "permit"), s.withPolicies(func(p *policy) *policy {
			if p.ask == nil || !slices.Contains(r.Policies, p.id) {
				return p
			}
			plain := *p
			plain.ask = nil
			return &plain
		})
	case r.Gate == "permit":
		return s.withPermit(sub, name, c)
	case i >= 0:
		next := s.clone()
		next.rules = slices.Delete(slices.Clone(s.rules), i, i+1)
		return "without the rule " + s.rules[i].label, next
	}
	return s.withForwardRule(sub, name, r.Rule)
}

// withPermit returns the set with an added policy that permits the call.
func (s *Set) withPermit(sub *subject, name string, c *gate.Call) (string, *Set) {
	w, err := newCedarCall(sub, name, c, &Known{})
	if err != nil {
		return err.Error(), nil
	}
	text := fmt.Sprintf("permit (principal, action == %s, resource);", w.action.MarshalCedar())
	added, err := cedar.NewPolicyListFromBytes("", []byte(text))
	if err != nil {
		return err.Error(), nil
	}
	p := newPolicy(added[0])
	p.id, p.order = "the new permit", len(s.policies)
	next := s.clone()
	next.setPolicies(append(slices.Clip(s.policies), p))
	return "with a policy that permits it: " + text, next
}

// withForwardRule returns the set with an added rule that forwards the call. It applies where a
// default decided.
func (s *Set) withForwardRule(sub *subject, name, by string) (string, *Set) {
	r := &config.Rule{Action: config.Forward}
	pattern, method, or := globLiteral(name), "", fmt.Sprintf(", or another default (%s)", by)
	if sub.class != classAct {
		pattern, method = "*", fmt.Sprintf(", method: %q", globLiteral(sub.method))
	}
	if sub.class == classUnknown {
		or = ""
	}
	text := fmt.Sprintf("{match: %q%s, source: %q, action: forward}", pattern, method, globLiteral(sub.server))
	for _, g := range []struct {
		text string
		to   *config.Glob
	}{{pattern, &r.Match}, {globLiteral(sub.server), onePattern(&r.Source)}, {globLiteral(sub.method), onePattern(&r.Method)}} {
		var err error
		if *g.to, err = config.NewGlob(g.text); err != nil { // no pattern matches such a name
			return "with another default (" + by + ")", nil
		}
	}
	next := s.clone()
	next.rules = append([]rule{{Rule: r, action: config.Forward, label: "the new rule", ask: s.defaults.ask}}, s.rules...)
	return "with a rule for it: " + text + or, next
}

// onePattern sets list to one empty pattern and returns a pointer to it.
func onePattern(list *[]config.Glob) *config.Glob {
	*list = make([]config.Glob, 1)
	return &(*list)[0]
}

// listPolicies names policies of one effect with their places.
func (s *Set) listPolicies(ids []string, effect string) string {
	words := make([]string, 0, len(ids))
	for _, id := range ids {
		p := s.byID[id]
		if effect == "permit" && p.ask == nil {
			continue
		}
		words = append(words, p.title())
	}
	return fmt.Sprintf("the %s %s", effect, strings.Join(words, ", "))
}

// withPolicies returns the set with each policy replaced by what keep returns; nil
// removes it.
func (s *Set) withPolicies(keep func(*policy) *policy) *Set {
	var kept []*policy
	for _, p := range s.policies {
		if p = keep(p); p != nil {
			kept = append(kept, p)
		}
	}
	next := s.clone()
	next.setPolicies(kept)
	return next
}

// WithKnownFunc returns the set with f instead of the function that [WithKnown] set.
func (s *Set) WithKnownFunc(f func(*gate.Call) Known) *Set {
	next := s.clone()
	next.known = f
	if s.fleet != nil {
		next.fleet = s.fleet.withKnownFunc(f)
	}
	return next
}

// clone returns a copy of s that can be changed. Its tools must be checked again, since the
// outcome depends on the policies.
func (s *Set) clone() *Set {
	next := *s
	next.checks = &checkedTools{}
	return &next
}

// globLiteral returns the pattern that matches only text.
func globLiteral(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("*?[", r) {
			fmt.Fprintf(&b, "[%c]", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
