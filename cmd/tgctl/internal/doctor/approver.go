package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
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
		x.addFinding("approver.not-enrolled", "", "calls that ask by workflow %s are denied: it requires presence, and no secret is enrolled", strings.Join(wants, ", "))
	}
	if locked := st.GetLocked().AsDuration(); locked > 0 {
		x.addFinding("approver.locked", "", "passphrases and codes are not accepted for %s, after %s", display.Span(locked), ui.Plural(st.GetFailures(), "wrong one", "wrong ones"))
	}
	if at := st.GetRecovered(); at != nil && x.Now().Sub(at.AsTime()) < recoveryAge {
		x.addFinding("approver.recovered", "", "the secret of presence was removed without giving it, %s, by %s", display.Moment(at.AsTime(), x.Now()), st.GetRecoverer())
	}
	x.addOK("approver", "%s", protection(st))
}

// wantPresence names the workflows whose questions need presence to be approved.
func (x *examination) wantPresence(ctx context.Context) (names []string) {
	set, err := x.client.PolicySet(ctx)
	if err != nil {
		x.addFinding("daemon.unreachable", "", "the daemon does not report what is in force: %v", err)
	}
	wants := func(w *pb.PolicyWorkflow) bool { return w.GetRequire() == approval.LevelPresence }
	return ui.Map(ui.Filter(set.GetDetail().GetWorkflows(), wants), (*pb.PolicyWorkflow).GetName)
}

// protection describes the level of protection in force and its limit.
func protection(st *pb.PresenceState) string {
	const watch = "no descendant of an agent may approve"
	if !st.GetEnrolled() {
		return "level watch: " + watch + "; a program started outside its descent, as with systemd-run, can. To require proof: tgctl presence enrol"
	}
	return "level presence: " + watch + ", and an approval needs your secret if a workflow requires it or the risk is high"
}

// lookAtKernel reports which kernel features for identifying a caller are missing.
func (x *examination) lookAtKernel() {
	k := x.kernel()
	if k.NotLinux {
		x.addFinding("kernel.other", "", "%s lacks pidfd, Yama and subreapers: descendants of an agent are found less reliably than on Linux", k.Name)
		return
	}
	if !k.PIDFD {
		x.addFinding("kernel.pidfd", "", "%s has no pidfd: a process that ends while it is checked could be mistaken for another", k.Name)
	}
	if k.PIDFD && !k.PeerPIDFD {
		x.addFinding("kernel.peer", "", "%s has no SO_PEERPIDFD: a caller is found by its pid, which could belong to another process by then", k.Name)
	}
	if k.Ptrace == 0 {
		x.addFinding("kernel.ptrace", "", "your programs may trace one another (Yama is off): an agent with a shell can approve through your terminal")
	}
	does := []string{"pidfd", "SO_PEERPIDFD", "Yama"}
	if k.Landlock > 0 {
		does = append(does, "Landlock (not used yet)")
	}
	x.addOK("kernel", "%s has %s", k.Name, strings.Join(does, ", "))
}
