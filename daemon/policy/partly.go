package policy

import (
	"context"
	"fmt"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Partly is a Set that judges calls of which not all is known. It is for one
// goroutine.
type Partly struct {
	*Set
	sights  map[*policy]sight
	certain map[gate.Lacks]*Set // without the policies that look at what is lacking
}

var _ gate.Partial = (*Partly)(nil)

// sight is what a policy looks at beside the members of the context.
type sight struct{ process, command bool }

// Partly returns the set for calls of which not all is known.
func (s *Set) Partly() *Partly {
	p := &Partly{Set: s, sights: map[*policy]sight{}, certain: map[gate.Lacks]*Set{}}
	for _, one := range s.policies {
		p.sights[one] = one.sight()
	}
	return p
}

// NeedsCommand reports whether anything in the set looks at the command of a
// server.
func (p *Partly) NeedsCommand() bool {
	for i := range p.cfg.Sources {
		if !p.cfg.Sources[i].Command.IsZero() {
			return true
		}
	}
	for _, sees := range p.sights {
		if sees.command {
			return true
		}
	}
	return false
}

// RulePartly implements gate.Partial. What is not known matters only to policies
// and to what ties a server to a command; so the call is judged without the
// policies that look at it, and when that does not settle it there is doubt.
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
	r, err = p.without(lacks).Rule(ctx, c, facts)
	if err != nil || r.Move == gate.Deny && (r.Gate != "permit" || len(r.Policies) > 0) {
		return r, "", err // whatever the other policies say, it is refused
	}
	for _, name := range sub.names {
		if doubt = p.doubt(sub, name, c, facts, lacks); doubt != "" {
			break
		}
	}
	return r, doubt, nil
}

// without is the set without the policies that look at what is lacking.
func (p *Partly) without(lacks gate.Lacks) *Set {
	if p.certain[lacks] == nil {
		p.certain[lacks] = p.withPolicies(func(one *policy) *policy {
			if p.misses(one, lacks) != "" {
				return nil
			}
			return one
		})
	}
	return p.certain[lacks]
}

// misses says what of the lacking a policy looks at.
func (p *Partly) misses(one *policy, lacks gate.Lacks) string {
	sees := p.sights[one]
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

// doubt names a policy that is asked about the call and looks at what is lacking.
func (p *Partly) doubt(sub *subject, name string, c *gate.Call, facts []gate.Fact, lacks gate.Lacks) string {
	action := p.actionFor(sub, name, facts)
	if action == config.Deny || sub.light && action != config.Policy {
		return "" // Cedar is not asked
	}
	known := p.known(c)
	w, err := newWorld(sub, name, c, &known)
	if err != nil {
		return ""
	}
	for _, b := range p.index.candidates(w.actions(), w.resources()) {
		for _, one := range b.policies {
			if what := p.misses(one, lacks); what != "" {
				return fmt.Sprintf("the policy %s looks at %s, which can't be told from the record", one.named(), what)
			}
		}
	}
	return ""
}

// actionFor is what the rule or default says that counts; for what neither is
// about it is forward.
func (s *Set) actionFor(sub *subject, name string, facts []gate.Fact) config.Action {
	if i := s.first(sub, name, facts); i >= 0 {
		return s.rules[i].action
	}
	switch {
	case sub.class == acts:
		return s.defaults.action
	case sub.class == asks && !sub.free:
		return s.forAsks.action
	}
	return config.Forward
}

// sight returns what p looks at outside of the context.
func (p *policy) sight() sight {
	s := sight{process: p.reading.types[typeUser], command: p.reading.attributes["command"]}
	for _, t := range append(typesInScope(p.scope.Principal), typesInScope(p.scope.Resource)...) {
		s.process = s.process || t == typeUser
	}
	for name := range p.reading.attributes {
		s.process = s.process || processAttributes[name]
	}
	return s
}

// processAttributes are those of an agent that tell of its process.
var processAttributes = map[cedar.String]bool{"executable": true, "sha256": true, "cwd": true, "tty": true, "project": true}
