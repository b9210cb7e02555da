package doctor

import (
	"cmp"
	"context"
)

// lookAtFleet looks whether the courier of a machine in a fleet works, and whether the daemon takes
// the fleet's policy.
func (x *examination) lookAtFleet(ctx context.Context) {
	state := x.status.GetFleet()
	if state.GetDevice() == "" {
		return
	}
	name, found := state.GetFleet(), len(x.found)
	if why := state.GetFailure(); why != "" {
		x.addFinding("fleet.refused", name, "a policy of the fleet %s is refused, and the one before it stays in force: %s", name, why)
	}
	switch c := x.courier(ctx); {
	case c.Fork != "":
		x.addFinding("fleet.fork", name, "no records go to the fleet %s: %s", name, c.Fork)
	case !c.Running:
		x.addFinding("fleet.stopped", name, "tg-fleet does not run, so no policy of the fleet %s comes and no record leaves", name)
	case c.LastError != "" || !c.Connected:
		x.addFinding("fleet.failing", name, "tg-fleet does not reach the fleet %s: %s", name, cmp.Or(c.LastError, "it is not connected"))
	}
	if len(x.found) == found {
		x.addOK("fleet", "tg-fleet is connected to the fleet %s, and its policy is in force", name)
	}
}
