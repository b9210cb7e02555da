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
	var e gate.Explained
	e.Ruling, e.Err = s.Rule(ctx, c, facts)
	sub, err := subjectOf(c)
	if err != nil {
		return e
	}
	if e.Ruling.Hidden {
		e.Cited = append(e.Cited, s.cited(s.cfg.Source(sub.server)))
	} else {
		name := s.deciding(ctx, sub, c, facts)
		i := s.first(sub, name, facts)
		e.Near = s.near(sub, name, facts, i)
		if cited, ok := s.citedRule(sub, i); ok {
			e.Cited = append(e.Cited, cited)
		}
		for _, id := range e.Ruling.Policies {
			e.Cited = append(e.Cited, s.byID[id].cited())
		}
	}
	e.Steps = s.steps(ctx, sub, c, facts)
	return e
}

// deciding returns the spelling of the call's subject whose ruling counts.
func (s *Set) deciding(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) string {
	best, at := -1, sub.names[0]
	for _, name := range sub.names {
		r, err := s.ruleFor(ctx, sub, name, c, facts)
		strict := strictness(&r)
		if err != nil {
			strict = 3 // whatever the others say, the call is refused
		}
		if strict > best {
			best, at = strict, name
		}
	}
	return at
}

// first returns the index of the rule that counts, -1 when a default does.
func (s *Set) first(sub *subject, name string, facts []gate.Fact) int {
	return slices.IndexFunc(s.rules, func(r rule) bool { return r.matches(sub, name, facts) })
}

// citedRule cites the rule at i, or the default that counts; false when neither
// says anything of such a call.
func (s *Set) citedRule(sub *subject, i int) (gate.Cited, bool) {
	if i >= 0 {
		return citedRule(&s.rules[i]), true
	}
	switch {
	case sub.class == acts:
		return s.citedDefault("defaults.action", &s.cfg.Governance.Defaults.Action), true
	case sub.class == asks && !sub.free:
		return s.citedDefault("defaults.asks", &s.cfg.Governance.Defaults.Asks), true
	case sub.class == unknown:
		return s.citedUnknown(), true
	}
	return gate.Cited{}, false
}

func citedRule(r *rule) gate.Cited {
	return gate.Cited{
		Kind: "rule", Name: patternOf(r.Rule), File: r.Place.File, Line: r.Place.Line, Column: r.Place.Column,
		Does: string(r.action), Says: r.Description,
	}
}

// patternOf names a rule without its place.
func patternOf(r *config.Rule) string {
	what, _, _ := strings.Cut(label(r), " ("+r.Place.String()+")")
	return what
}

func (s *Set) citedDefault(name string, a *config.Action) gate.Cited {
	at := s.cfg.Place(a)
	return gate.Cited{Kind: "default", Name: name, File: at.File, Line: at.Line, Column: at.Column, Does: string(*a)}
}

func (s *Set) citedUnknown() gate.Cited {
	at := s.cfg.Place(&s.cfg.Unknown)
	return gate.Cited{Kind: "default", Name: "unknown", File: at.File, Line: at.Line, Column: at.Column}
}

func (s *Set) cited(source *config.Source) gate.Cited {
	at := source.Place
	return gate.Cited{Kind: "source", Name: fmt.Sprintf("%q", source.ID), File: at.File, Line: at.Line, Column: at.Column, Does: "hide"}
}

func (p *policy) cited() gate.Cited {
	c := gate.Cited{Kind: "permit", Name: p.id, File: p.place.File, Line: p.place.Line, Column: p.place.Column, Does: "permit", Says: p.reason}
	switch {
	case p.cedar.Effect() == cedar.Forbid:
		c.Kind, c.Does = "forbid", "forbid"
	case p.ask != nil:
		c.Does = "ask"
	}
	return c
}

// mostNear is how many rules that nearly matched are told of.
const mostNear = 5

// near lists the rules before the one at i that miss the call by one condition,
// which may be a slip: not those that are about another name, unless it is nearly
// this one, nor those that wait for a fact.
func (s *Set) near(sub *subject, name string, facts []gate.Fact, i int) []gate.Near {
	if i < 0 {
		i = len(s.rules)
	}
	var found []gate.Near
	for n := range s.rules[:i] {
		r := &s.rules[n]
		other := !r.Match.Match(name) && config.Nearest(name, []string{r.Match.String()}) == ""
		if other || len(r.When) > 0 && holds(r.When, facts) == nil {
			continue
		}
		if because := r.misses(sub, name, facts); len(because) == 1 && len(found) < mostNear {
			found = append(found, gate.Near{Cited: citedRule(r), Because: because[0]})
		}
	}
	return found
}

// misses lists the conditions of r that the call doesn't meet. It says the same
// as matches, in words.
func (r *rule) misses(sub *subject, name string, facts []gate.Fact) []string {
	var because []string
	miss := func(what, is string, globs []config.Glob) {
		words := make([]string, len(globs))
		for i, g := range globs {
			words[i] = g.String()
		}
		because = append(because, fmt.Sprintf("its %s is %s, the call's is %s", what, strings.Join(words, " or "), shown(is)))
	}
	switch {
	case len(r.Method) > 0:
		if !config.MatchAny(r.Method, sub.method) {
			miss("method", sub.method, r.Method)
		}
	case sub.class != acts:
		because = append(because, fmt.Sprintf("it doesn't name the method %s", shown(sub.method)))
	}
	if !r.Match.Match(name) {
		miss("match", name, []config.Glob{r.Match})
	}
	if len(r.Source) > 0 && !config.MatchAny(r.Source, sub.server) {
		miss("source", sub.server, r.Source)
	}
	if len(r.Agent) > 0 && !config.MatchAny(r.Agent, sub.agent) {
		miss("agent", sub.agent, r.Agent)
	}
	if len(r.When) > 0 && holds(r.When, facts) == nil {
		words := make([]string, len(r.When))
		for i, f := range r.When {
			words[i] = string(f)
		}
		because = append(because, "the call has not the fact "+strings.Join(words, " or "))
	}
	return because
}
