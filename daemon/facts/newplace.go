package facts

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// newPlaces adds a fact for each destination to which nothing was sent before. In a session that
// has not read anything yet, a single destination does not count: there is nothing to leak, and
// only a definition could have misled the agent, which would add a second destination. A shim
// without a session has no such exception, since its agent may have read through another one.
func (r *recall) newPlaces() {
	to := r.destinations()
	if len(to) == 1 && r.look.call.Session != "" && !r.memory.hasRead() {
		return
	}
	for _, to := range to {
		if !r.memory.has(&r.memory.sent, to.key) {
			r.look.addFact(gate.Fact{
				Name: NewPlace, Detail: fmt.Sprintf("nothing was sent to %s before in this session", to.name),
				Member: to.member, Place: to.name,
			})
		}
	}
}

// destinations returns where the call sends to: the addresses among its arguments or, without
// any, the tool itself.
func (r *recall) destinations() []argued {
	var to []argued
	for i := range r.all {
		if a := &r.all[i]; a.addressed && r.counts(a) {
			to = append(to, *a)
		}
	}
	if len(to) == 0 {
		c := r.look.call
		to = []argued{{key: r.tool, name: c.Server + "/" + c.Subject}}
	}
	return to
}
