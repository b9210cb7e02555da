package mcp

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Methods returns the known methods of messages that side writes: requests and
// notifications of every era, sorted.
func Methods(side wire.Side) []string {
	var all []string
	for k := range rules {
		if k.side == side {
			all = append(all, k.method)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SubjectKind returns the kind of subject of an agent's request for method. It is None if
// the request has no subject or the method is unknown.
func SubjectKind(method string) Subject {
	for _, modern := range []bool{false, true} {
		if rule, ok := rules[key{method, wire.FromAgent, false, modern}]; ok && rule.Acting {
			return rule.Subject
		}
	}
	return None
}
