package facts

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// newPlaces notes to where nothing was sent before. In a session that has read
// nothing yet, one place is none: there is nothing to carry off and nobody has
// talked the agent into it but, in a definition, who adds a second one.
// What a shim without a session serves may have read by another.
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

// destinations returns where the call sends to: the addresses among its
// arguments, else what the tool itself stands for.
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
