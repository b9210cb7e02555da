package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// determining holds the policies that determine Cedar's decision, by file and position.
type determining struct {
	forbids []*policy
	permits []*policy // empty if there are forbids
}

// authorize evaluates the policies that may apply to a call. It fails if any of them cannot be
// evaluated, whatever the others decide: the failing one may be the one that forbids.
func (s *Set) authorize(sub *subject, name string, c *gate.Call, facts []gate.Fact, policyID string) (d determining, err error) {
	if len(s.policies) == 0 {
		return d, nil
	}
	// The arguments may be hostile. A panic in Cedar must fail this call only, and not end every
	// session.
	defer func() {
		if p := recover(); p != nil {
			d, err = determining{}, fmt.Errorf("evaluate the policies: panic: %v", p)
		}
	}()
	known := s.known(c)
	w, err := newCedarCall(sub, name, c, &known)
	if err != nil {
		return d, err
	}
	policies := s.index.candidates(w.actions(), w.resources())
	if len(policies) == 0 {
		return d, nil
	}
	part := c.Trace.Begin(gate.StageCedar)
	defer c.Trace.Finish(part)
	w.used = policies.uses()
	takes, err := s.shapeOf(sub, w.name, c, w.used)
	if err != nil {
		return d, err
	}
	context, err := newContext(sub, c, &known, facts, policyID, policies, takes)
	if err != nil {
		return d, err
	}
	d, err = s.decide(policies, w, cedar.Request{
		Principal: w.principal, Action: w.action, Resource: w.resource, Context: context,
	})
	if w.err != nil { // an attribute could not be determined, so the decision does not count
		return determining{}, w.err
	}
	return d, err
}

// shapeOf returns the shape of the arguments of a call, or nil if it is unknown or no policy
// reads the arguments.
func (s *Set) shapeOf(sub *subject, name string, c *gate.Call, used members) (*shape.Shape, error) {
	switch {
	case used&(useArguments|useLists) == 0 || !s.generated():
		return nil, nil
	case sub.method == "tools/call":
		return s.toolShape(sub.server, c.Launch, name)
	}
	return methodParams[sub.method], nil
}

// decide evaluates policies on a request.
func (s *Set) decide(policies candidates, entities cedar.EntityGetter, request cedar.Request) (determining, error) {
	decision, diagnostic := cedar.Authorize(policies, entities, request)
	if len(diagnostic.Errors) > 0 {
		return determining{}, s.failures(diagnostic.Errors)
	}
	found := s.byReasons(diagnostic.Reasons)
	if decision == cedar.Allow {
		return determining{permits: found}, nil
	}
	return determining{forbids: found}, nil
}

// byReasons returns the policies that Cedar gives as reasons, by file and position.
func (s *Set) byReasons(reasons []cedar.DiagnosticReason) []*policy {
	var found []*policy
	for _, r := range reasons {
		found = append(found, s.byID[string(r.PolicyID)])
	}
	slices.SortFunc(found, func(a, b *policy) int { return a.order - b.order })
	return slices.Compact(found)
}

// failures returns the error for policies that could not be evaluated. It names the first one by
// file and position.
func (s *Set) failures(failed []cedar.DiagnosticError) error {
	first, why := s.byID[string(failed[0].PolicyID)], failed[0].Message
	others := map[*policy]bool{}
	for _, e := range failed {
		p := s.byID[string(e.PolicyID)]
		others[p] = true
		if p.order < first.order {
			first, why = p, e.Message
		}
	}
	where := first.title()
	if n := len(others) - 1; n > 0 {
		return fmt.Errorf("evaluate policy %s: %s; %d more failed", where, why, n)
	}
	return fmt.Errorf("evaluate policy %s: %s", where, why)
}

func ids(policies []*policy) []string {
	return each(policies, func(p *policy) string { return p.id })
}
