package mcp

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Methods lists the methods that are known of what side writes, requests and
// notifications of every era, in order.
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

// SubjectKind returns what kind of thing a request of an agent for method is
// about, None for those that are about nothing or are not known.
func SubjectKind(method string) Subject {
	for _, modern := range []bool{false, true} {
		if rule, ok := rules[key{method, wire.FromAgent, false, modern}]; ok && rule.Acting {
			return rule.Subject
		}
	}
	return None
}
