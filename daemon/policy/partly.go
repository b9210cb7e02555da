package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Partly is a Set that judges calls with incomplete data, such as recorded calls. It is not safe
// for concurrent use.
type Partly struct {
	*Set
	reduced map[gate.Lacks]*Set // caches the set without the policies that read what is lacking
}

var _ gate.Partial = (*Partly)(nil)

// outsideReads describes what a policy reads outside of the context.
type outsideReads struct{ process, command bool }

// Partly returns a view of the set that judges calls with incomplete data.
func (s *Set) Partly() *Partly { return &Partly{Set: s, reduced: map[gate.Lacks]*Set{}} }

// NeedsCommand reports whether any source or policy depends on the command of a server.
func (p *Partly) NeedsCommand() bool {
	return slices.ContainsFunc(p.cfg.Sources, func(s config.Source) bool { return !s.Command.IsZero() }) ||
		slices.ContainsFunc(p.policies, func(one *policy) bool { return one.outside.command })
}

// RulePartly implements gate.Partial. Missing data matters only to policies and to sources with a
// command: what the conditions of rules read, and the time of arrival, every record has. So the
// call is judged without the policies that read what is lacking. Unless it is then denied, each of
// these policies is a reason for doubt. A rule with a condition on what a record may lack would be
// another.
func (p *Partly) RulePartly(ctx context.Context, c *gate.Call, facts []gate.Fact, lacks gate.Lacks) (r gate.Ruling, doubt string, err error) {
	if len(facts) == 0 {
		lacks.Details = false
	}
	sub, err := subjectOf(c)
	if err != nil {
		return gate.Ruling{Redact: p.redact}, "", err
	}
	source := p.cfg.Source(sub.server)
	if lacks.Command && source != nil && source.Enabled && !source.Command.IsZero() {
		doubt = fmt.Sprintf("the source %q (%s) is bound to a command, and the server's command is not recorded", source.ID, source.Place)
		return gate.Ruling{Redact: p.redact}, doubt, nil
	}
	r, err = p.withoutLacking(lacks).Rule(ctx, c, facts)
	if err != nil || r.Move == gate.Deny && (r.Gate != "permit" || len(r.Policies) > 0) {
		return r, "", err // no other policy can change the verdict
	}
	for _, name := range sub.names {
		if doubt = p.doubt(ctx, sub, name, c, facts, lacks); doubt != "" {
			break
		}
	}
	return r, doubt, nil
}

// withoutLacking returns the set without the policies that read what is lacking.
func (p *Partly) withoutLacking(lacks gate.Lacks) *Set {
	if p.reduced[lacks] == nil {
		p.reduced[lacks] = p.withPolicies(func(one *policy) *policy {
			if one.reasonLacking(lacks) != "" {
				return nil
			}
			return one
		})
	}
	return p.reduced[lacks]
}

// reasonLacking names what p reads that is lacking, or returns "".
func (p *policy) reasonLacking(lacks gate.Lacks) string {
	for _, m := range []struct {
		lacks bool
		sees  bool
		what  string
	}{
		{lacks.Arguments, p.uses&(useArguments|useLists|useAsk) != 0, "the arguments"},
		{lacks.Details, p.uses&useFactDetails != 0, "details of the facts"},
		{lacks.Annotations, p.uses&useAnnotations != 0, "the tool's annotations"},
		{lacks.Arguments, p.uses&useParams != 0, "the params other than the arguments"},
		{lacks.Session, p.uses&useResponses != 0, "the user's answers"},
		{lacks.Session, p.uses&useSession != 0, "the earlier calls of the session"},
		{lacks.Process, p.outside.process, "the agent's process"},
		{lacks.Command, p.outside.command, "the server's command"},
	} {
		if m.lacks && m.sees {
			return m.what
		}
	}
	return ""
}

// doubt names a policy that may apply to the call and reads what is lacking, or returns "".
func (p *Partly) doubt(ctx context.Context, sub *subject, name string, c *gate.Call, facts []gate.Fact, lacks gate.Lacks) string {
	action := config.Forward
	if i := p.firstMatch(ctx, sub, name, facts); i >= 0 {
		action = p.rules[i].action
	} else if r := p.defaultFor(sub, facts); r != nil {
		action = r.action
	}
	if action == config.Deny || sub.cedarByRule && action != config.Policy {
		return "" // no policy is evaluated
	}
	known := p.known(c)
	w, err := newCedarCall(sub, name, c, &known)
	if err != nil {
		return ""
	}
	for _, b := range p.index.candidates(w.actions(), w.resources()) {
		for _, one := range b.policies {
			if what := one.reasonLacking(lacks); what != "" {
				return fmt.Sprintf("the policy %s reads %s, which the record does not have", one.title(), what)
			}
		}
	}
	return ""
}

// outsideReads returns what p reads outside of the context.
func (p *policy) outsideReads() outsideReads {
	s := outsideReads{process: p.reading.types[typeUser], command: p.reading.attributes["command"]}
	for _, t := range append(typesInScope(p.scope.Principal), typesInScope(p.scope.Resource)...) {
		s.process = s.process || t == typeUser
	}
	for name := range p.reading.attributes {
		s.process = s.process || processAttributes[name]
	}
	return s
}

// processAttributes are the attributes of an agent that describe its process.
var processAttributes = map[cedar.String]bool{"executable": true, "sha256": true, "cwd": true, "tty": true, "project": true}
