package policy

import (
	"context"
	"fmt"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Partly is a Set that judges calls of which not everything is known. It must not be
// used concurrently.
type Partly struct {
	*Set
	outside map[*policy]outsideReads
	reduced map[gate.Lacks]*Set // without the policies that read what is lacking
}

var _ gate.Partial = (*Partly)(nil)

// outsideReads is what a policy reads outside of the context.
type outsideReads struct{ process, command bool }

// Partly returns the set for calls of which not everything is known.
func (s *Set) Partly() *Partly {
	p := &Partly{Set: s, outside: map[*policy]outsideReads{}, reduced: map[gate.Lacks]*Set{}}
	for _, one := range s.policies {
		p.outside[one] = one.outsideReads()
	}
	return p
}

// NeedsCommand reports whether a source or a policy depends on the command of a
// server.
func (p *Partly) NeedsCommand() bool {
	for i := range p.cfg.Sources {
		if !p.cfg.Sources[i].Command.IsZero() {
			return true
		}
	}
	for _, sees := range p.outside {
		if sees.command {
			return true
		}
	}
	return false
}

// RulePartly implements gate.Partial. What isn't known matters only to policies and to
// sources with a command. So the call is judged without the policies that read what is
// lacking. Unless it is denied then, each of these policies is a reason for doubt.
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
		doubt = fmt.Sprintf("the source %q (%s) is tied to a command, and that of the server is not on record", source.ID, source.Place)
		return gate.Ruling{Redact: p.redact}, doubt, nil
	}
	r, err = p.withoutLacking(lacks).Rule(ctx, c, facts)
	if err != nil || r.Move == gate.Deny && (r.Gate != "permit" || len(r.Policies) > 0) {
		return r, "", err // the call is refused whatever the other policies decide
	}
	for _, name := range sub.names {
		if doubt = p.doubt(sub, name, c, facts, lacks); doubt != "" {
			break
		}
	}
	return r, doubt, nil
}

// withoutLacking returns the set without the policies that read what is lacking.
func (p *Partly) withoutLacking(lacks gate.Lacks) *Set {
	if p.reduced[lacks] == nil {
		p.reduced[lacks] = p.withPolicies(func(one *policy) *policy {
			if p.reasonLacking(one, lacks) != "" {
				return nil
			}
			return one
		})
	}
	return p.reduced[lacks]
}

// reasonLacking names what a policy reads that is lacking; empty: nothing.
func (p *Partly) reasonLacking(one *policy, lacks gate.Lacks) string {
	sees := p.outside[one]
	for _, m := range []struct {
		lacks bool
		sees  bool
		what  string
	}{
		{lacks.Arguments, one.uses&(useArguments|useLists|useAsk) != 0, "the arguments"},
		{lacks.Details, one.uses&useFactDetails != 0, "details of the facts"},
		{lacks.Annotations, one.uses&useAnnotations != 0, "the tool's annotations"},
		{lacks.Arguments, one.uses&useParams != 0, "what stands beside the arguments"},
		{lacks.Session, one.uses&useResponses != 0, "what the user answered"},
		{lacks.Session, one.uses&useSession != 0, "what went before in the session"},
		{lacks.Process, sees.process, "the agent's process"},
		{lacks.Command, sees.command, "the server's command"},
	} {
		if m.lacks && m.sees {
			return m.what
		}
	}
	return ""
}

// doubt names a policy that may apply to the call and reads what is lacking; empty:
// there is none.
func (p *Partly) doubt(sub *subject, name string, c *gate.Call, facts []gate.Fact, lacks gate.Lacks) string {
	action := p.actionFor(sub, name, facts)
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
			if what := p.reasonLacking(one, lacks); what != "" {
				return fmt.Sprintf("the policy %s looks at %s, which can't be told from the record", one.title(), what)
			}
		}
	}
	return ""
}

// actionFor returns the action of the rule or default that applies, or forward if none
// does.
func (s *Set) actionFor(sub *subject, name string, facts []gate.Fact) config.Action {
	if i := s.firstMatch(sub, name, facts); i >= 0 {
		return s.rules[i].action
	}
	switch {
	case sub.class == classAct:
		return s.defaults.action
	case sub.class == classAsk && !sub.unruled:
		return s.forAsks.action
	}
	return config.Forward
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
