package policy

import (
	"iter"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// index finds the policies whose scope may match an action and a resource. Cedar
// evaluates each policy of a set in turn, which with thousands of them would be the
// cost of every call. A policy that the index leaves out must be certain not to match:
// a forbid that is overlooked is a way around the gate. A policy is in the index under
// each pair of an action and a resource that its scope names by == or in, with the
// zero EntityUID for a scope that is open or names a type. A scope that doesn't match
// is never an error in Cedar, so no refusal is lost.
type index map[scopeKey]*bucket

type scopeKey struct{ action, resource cedar.EntityUID }

func newIndex(policies []*policy) index {
	ix := index{}
	for _, p := range policies {
		seen := map[scopeKey]bool{} // action in [A, A]
		for _, action := range scopeEntities(p.scope.Action) {
			for _, resource := range scopeEntities(p.scope.Resource) {
				key := scopeKey{action, resource}
				if !seen[key] {
					seen[key] = true
					if ix[key] == nil {
						ix[key] = &bucket{}
					}
					ix[key].add(p)
				}
			}
		}
	}
	return ix
}

// scopeEntities lists the entities that a scope names; the zero EntityUID stands for
// any.
func scopeEntities(scope ast.IsScopeNode) []cedar.EntityUID {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeIsIn:
		return []cedar.EntityUID{s.Entity}
	case ast.ScopeTypeInSet:
		return s.Entities
	}
	return []cedar.EntityUID{{}}
}

// candidates returns the policies that may match. actions and resources are
// the action and the resource of the request, each with all of its ancestors.
func (ix index) candidates(actions, resources []cedar.EntityUID) candidates {
	var found candidates
	for i := -1; i < len(actions); i++ {
		var key scopeKey
		if i >= 0 {
			key.action = actions[i]
		}
		for j := -1; j < len(resources); j++ {
			key.resource = cedar.EntityUID{}
			if j >= 0 {
				key.resource = resources[j]
			}
			if b := ix[key]; b != nil {
				found = append(found, b)
			}
		}
	}
	return found
}

// bucket holds the policies under one key, and what any of them reads.
type bucket struct {
	policies  []*policy
	uses      members
	arguments map[string]bool // by name
	whole     bool            // the arguments are read as a whole
}

func (b *bucket) add(p *policy) {
	b.policies = append(b.policies, p)
	b.uses |= p.uses
	for _, seen := range p.arguments {
		b.whole = b.whole || seen.whole
		for _, name := range seen.names() {
			if b.arguments == nil {
				b.arguments = map[string]bool{}
			}
			b.arguments[name] = true
		}
	}
}

// candidates are the policies that may apply to a call. A policy whose scope names
// an action and an ancestor of it is in several buckets, and is evaluated as often.
type candidates []*bucket

// All implements cedar.PolicyIterator.
func (cs candidates) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, b := range cs {
			for _, p := range b.policies {
				if !yield(cedar.PolicyID(p.id), p.cedar) {
					return
				}
			}
		}
	}
}

// uses returns the members of the context that any of the policies reads.
func (cs candidates) uses() members {
	var used members
	for _, b := range cs {
		used |= b.uses
	}
	return used
}

// readsArgument reports whether any of the policies reads an argument.
func (cs candidates) readsArgument(name string) bool {
	for _, b := range cs {
		if b.whole || b.arguments[name] {
			return true
		}
	}
	return false
}
