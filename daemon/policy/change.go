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

// mostSteps bounds how far what would have to change is followed.
const mostSteps = 8

// steps says what would have to change until the call goes through, one thing
// after the other, and what would become of it after each. It is found out by
// judging the call again without what decided.
func (s *Set) steps(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) []gate.Step {
	var steps []gate.Step
	now := s
	for range mostSteps {
		r, err := now.Rule(ctx, c, facts)
		if err == nil && r.Move == gate.Forward {
			break
		}
		change, next := now.without(ctx, sub, c, facts, r, err)
		step := gate.Step{Change: change}
		if next != nil {
			then, err := next.Rule(ctx, c, facts)
			step.Move, step.By = outcome(then, err)
		}
		steps = append(steps, step)
		if len(steps) == 1 {
			steps = append(steps, s.otherFacts(ctx, sub, c, facts)...)
		}
		if next == nil {
			break
		}
		now = next
	}
	return steps
}

// outcome is a ruling in short.
func outcome(r gate.Ruling, err error) (gate.Move, string) {
	switch {
	case err != nil:
		return gate.Deny, err.Error()
	case len(r.Policies) > 0 && r.Gate == "permit":
		return r.Move, strings.Join(r.Policies, ", ")
	}
	return r.Move, r.Rule
}

// otherFacts says what would become of the call without the facts that made the
// rule apply.
func (s *Set) otherFacts(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact) []gate.Step {
	i := s.first(sub, s.deciding(ctx, sub, c, facts), facts)
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

// without names what decided that r is no forward, and returns the set as it
// would be without that, or with what is wanting. It is nil when nobody can tell.
func (s *Set) without(ctx context.Context, sub *subject, c *gate.Call, facts []gate.Fact, r gate.Ruling, err error) (change string, next *Set) {
	switch {
	case err != nil:
		return "the policies or the call, so that they can be evaluated", nil
	case r.Hidden:
		source := s.cfg.Source(sub.server)
		return fmt.Sprintf("the source %q (%s), so that it lets the agent know of it", source.ID, source.Place), s.showing()
	}
	name := s.deciding(ctx, sub, c, facts)
	i := s.first(sub, name, facts)
	switch {
	case len(r.Policies) > 0 && r.Move == gate.Deny:
		return "without " + s.places(r.Policies, "forbid"), s.withPolicies(func(p *policy) *policy {
			if slices.Contains(r.Policies, p.id) {
				return nil
			}
			return p
		})
	case r.Gate == "permit" && r.Move == gate.Ask:
		return "without @approval on " + s.places(r.Policies, "permit"), s.withPolicies(func(p *policy) *policy {
			if p.ask == nil || !slices.Contains(r.Policies, p.id) {
				return p
			}
			plain := *p
			plain.ask = nil
			return &plain
		})
	case r.Gate == "permit":
		return s.permitting(sub, name, c)
	case i >= 0:
		next := s.copied()
		next.rules = slices.Delete(slices.Clone(s.rules), i, i+1)
		return "without the rule " + s.rules[i].label, next
	}
	return s.forwarding(sub, name, r.Rule)
}

// permitting adds the policy that is wanting.
func (s *Set) permitting(sub *subject, name string, c *gate.Call) (string, *Set) {
	w, err := newWorld(sub, name, c, &Known{})
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
	next := s.withPolicies(func(p *policy) *policy { return p })
	next.policies = append(next.policies, p)
	next.byID[p.id] = p
	next.index = newIndex(next.policies)
	return "with a policy that permits it, as: " + text, next
}

// forwarding adds a rule where a default decided.
func (s *Set) forwarding(sub *subject, name, by string) (string, *Set) {
	r := &config.Rule{Action: config.Forward}
	pattern, method, or := literal(name), "", fmt.Sprintf(", or another default (%s)", by)
	if sub.class != acts {
		pattern, method = "*", fmt.Sprintf(", method: %q", literal(sub.method))
	}
	if sub.class == unknown {
		or = ""
	}
	text := fmt.Sprintf("{match: %q%s, source: %q, action: forward}", pattern, method, literal(sub.server))
	for _, g := range []struct {
		text string
		to   *config.Glob
	}{{pattern, &r.Match}, {literal(sub.server), glob(&r.Source)}, {literal(sub.method), glob(&r.Method)}} {
		var err error
		if *g.to, err = config.NewGlob(g.text); err != nil { // a name that no pattern can be written for
			return "with another default (" + by + ")", nil
		}
	}
	next := s.copied()
	next.rules = append([]rule{{Rule: r, action: config.Forward, label: "the new rule", ask: s.defaults.ask}}, s.rules...)
	return "with a rule for it, as: " + text + or, next
}

// glob makes room for one pattern.
func glob(list *[]config.Glob) *config.Glob {
	*list = make([]config.Glob, 1)
	return &(*list)[0]
}

// showing is the set without what hides things.
func (s *Set) showing() *Set {
	next := s.copied()
	next.shows = true
	return next
}

// places names policies of one effect with where they stand.
func (s *Set) places(ids []string, effect string) string {
	words := make([]string, 0, len(ids))
	for _, id := range ids {
		p := s.byID[id]
		if effect == "permit" && p.ask == nil {
			continue
		}
		words = append(words, p.named())
	}
	return fmt.Sprintf("the %s %s", effect, strings.Join(words, ", "))
}

// withPolicies is the set with each policy as keep returns it, nil for none.
func (s *Set) withPolicies(keep func(*policy) *policy) *Set {
	next := s.copied()
	next.policies, next.byID = nil, map[string]*policy{}
	for _, p := range s.policies {
		if kept := keep(p); kept != nil {
			next.policies = append(next.policies, kept)
			next.byID[kept.id] = kept
		}
	}
	next.index = newIndex(next.policies)
	return next
}

// Knowing returns the set with another source of what is known of calls, see
// [WithKnown].
func (s *Set) Knowing(f func(*gate.Call) Known) *Set {
	next := s.copied()
	next.known = f
	return next
}

// copied is a set to try something on. What was checked of tools holds for the
// policies of s only.
func (s *Set) copied() *Set {
	next := *s
	next.checks = &checkedTools{}
	return &next
}

// literal is the pattern that matches text only.
func literal(text string) string {
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
