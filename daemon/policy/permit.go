package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// opinion is what Cedar says of a call.
type opinion struct {
	forbids []*policy // that hold, by file and position
	permits []*policy // likewise; with a forbid they don't count
}

// consult asks Cedar. A policy that can't be evaluated is an error, whatever
// the others say: nobody knows what it would have said.
func (s *Set) consult(sub *subject, name string, c *gate.Call, facts []gate.Fact, policyID string) (o opinion, err error) {
	if len(s.policies) == 0 {
		return o, nil
	}
	// Cedar is not ours, and what it reads may be hostile. A panic here is one
	// call that can't be judged, and must not be the end of every session.
	defer func() {
		if p := recover(); p != nil {
			o, err = opinion{}, fmt.Errorf("evaluate the policies: panic: %v", p)
		}
	}()
	known := s.known(c)
	w, err := newWorld(sub, name, c, &known)
	if err != nil {
		return o, err
	}
	policies := s.index.candidates(w.actions(), w.resources())
	if len(policies) == 0 {
		return o, nil
	}
	part := c.Trace.Begin(gate.StageCedar)
	defer c.Trace.Finish(part)
	w.used = policies.uses()
	takes, err := s.shapeOf(sub, w.name, c, w.used)
	if err != nil {
		return o, err
	}
	context, err := newContext(sub, c, &known, facts, policyID, policies, takes)
	if err != nil {
		return o, err
	}
	o, err = s.decide(policies, w, cedar.Request{
		Principal: w.principal, Action: w.action, Resource: w.resource, Context: context,
	})
	if w.err != nil { // nobody knows what a policy made of what could not be had
		return opinion{}, w.err
	}
	return o, err
}

// shapeOf is what is known of the arguments of a call, nil for nothing or when
// no policy looks at them.
func (s *Set) shapeOf(sub *subject, name string, c *gate.Call, used members) (*shape.Shape, error) {
	switch {
	case used&(useArguments|useLists) == 0 || !s.generated():
		return nil, nil
	case sub.method == "tools/call":
		return s.takes(sub.server, c.Launch, name)
	}
	return methodParams[sub.method], nil
}

// decide asks Cedar about the policies that may apply to a request.
func (s *Set) decide(policies candidates, entities cedar.EntityGetter, request cedar.Request) (opinion, error) {
	decision, diagnostic := cedar.Authorize(policies, entities, request)
	if len(diagnostic.Errors) > 0 {
		return opinion{}, s.failures(diagnostic.Errors)
	}
	determining := s.byReasons(diagnostic.Reasons)
	if decision == cedar.Allow {
		return opinion{permits: determining}, nil
	}
	return opinion{forbids: determining}, nil
}

// byReasons returns the policies that Cedar names, by file and position.
func (s *Set) byReasons(reasons []cedar.DiagnosticReason) []*policy {
	var found []*policy
	for _, r := range reasons {
		found = append(found, s.byID[string(r.PolicyID)])
	}
	slices.SortFunc(found, func(a, b *policy) int { return a.order - b.order })
	return slices.Compact(found)
}

// failures tells which policy could not be evaluated, where it stands and why.
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
	where := first.named()
	if n := len(others) - 1; n > 0 {
		return fmt.Errorf("evaluate policy %s: %s; %d more failed", where, why, n)
	}
	return fmt.Errorf("evaluate policy %s: %s", where, why)
}

func ids(policies []*policy) []string {
	var ids []string
	for _, p := range policies {
		ids = append(ids, p.id)
	}
	return ids
}
