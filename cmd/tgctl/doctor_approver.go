package main

import (
	"context"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// recoveryAge is how long the removal of a secret is reported.
const recoveryAge = 7 * 24 * time.Hour

// lookAtApprover reports how far an agent is kept from approving its own calls.
func (x *examination) lookAtApprover(ctx context.Context) {
	if x.status == nil {
		return
	}
	st := x.status.GetPresence()
	if wants := x.wantPresence(ctx); len(wants) > 0 && !st.GetEnrolled() {
		x.addFinding("approver.not-enrolled", "", "calls that would be asked about in the way of %s are refused: it requires presence, and no secret is enrolled", strings.Join(wants, ", "))
	}
	if locked := st.GetLocked().AsDuration(); locked > 0 {
		x.addFinding("approver.locked", "", "no passphrase or code is looked at for %s, after %s", display.Span(locked), plural(st.GetFailures(), "wrong one", "wrong ones"))
	}
	if at := st.GetRecovered(); at != nil && x.now().Sub(at.AsTime()) < recoveryAge {
		x.addFinding("approver.recovered", "", "the secret of presence was removed without it, %s, by %s", display.Moment(at.AsTime(), x.now()), st.GetRecoverer())
	}
	x.addOK("approver", "%s", protection(st))
}

// wantPresence names the workflows whose questions need presence to be approved.
func (x *examination) wantPresence(ctx context.Context) (names []string) {
	set, err := x.client.PolicySet(ctx)
	if err != nil {
		x.addFinding("daemon.unreachable", "", "the daemon does not say what is in force: %v", err)
	}
	wants := func(w *pb.PolicyWorkflow) bool { return w.GetRequire() == levelPresence }
	return each(filter(set.GetDetail().GetWorkflows(), wants), (*pb.PolicyWorkflow).GetName)
}

// protection describes the level of protection in force and its limit.
func protection(st *pb.PresenceState) string {
	const watch = "whatever descends from an agent may not approve"
	if !st.GetEnrolled() {
		return "level watch: " + watch + "; a program that leaves its descent, as with systemd-run, gets round it. To ask for proof: tgctl presence enrol"
	}
	return "level presence: " + watch + ", and a yes needs your secret where a workflow says so or the risk is high"
}

// lookAtKernel reports which kernel features for identifying a caller are missing.
func (x *examination) lookAtKernel() {
	k := x.kernel()
	if k.NotLinux {
		x.addFinding("kernel.other", "", "%s has none of pidfd, Yama and subreapers: who descends from an agent is seen less surely than on Linux", k.Name)
		return
	}
	if !k.PIDFD {
		x.addFinding("kernel.pidfd", "", "%s has no pidfd: a process that ends while it is looked at could be taken for another", k.Name)
	}
	if k.PIDFD && !k.PeerPIDFD {
		x.addFinding("kernel.peer", "", "%s has no SO_PEERPIDFD: who is behind a socket is found by a number that could be another's by then", k.Name)
	}
	if k.Ptrace == 0 {
		x.addFinding("kernel.ptrace", "", "programs of yours may trace one another (Yama is off): an agent with a shell can make a terminal of yours say yes")
	}
	does := []string{"pidfd", "SO_PEERPIDFD", "Yama"}
	if k.Landlock > 0 {
		does = append(does, "Landlock (not used yet)")
	}
	x.addOK("kernel", "%s has %s", k.Name, strings.Join(does, ", "))
}
