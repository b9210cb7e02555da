package policy

import (
	"iter"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// index finds the policies whose scope may match an action and a resource. Cedar evaluates every
// policy of a set, which with thousands of them would burden every call. A policy that the index
// omits must be certain not to match: a forbid that is omitted can be bypassed. The index holds a
// policy under each pair of an action and a resource that its scope names by == or in. The zero
// EntityUID stands for a scope that is open or names a type. In Cedar a scope that does not match
// is never an error, so no denial is lost.
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

// candidates returns the policies that may match. actions and resources hold the action and the
// resource of the request, each followed by all of its ancestors.
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

// candidates are the policies that may apply to a call. A policy whose scope names an action and
// one of its ancestors is in several buckets and is evaluated several times.
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
