package main

import (
	"strings"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtApprover says how far an agent is kept from approving its own calls.
func (x *examination) lookAtApprover() {
	if x.status == nil {
		return
	}
	x.fine("approver", "%s", protection(x.status))
}

// protection names the level of protection in force, and its limit.
func protection(*pb.StatusResponse) string {
	return "level watch: whatever descends from an agent may not approve; a program that leaves its descent, as with systemd-run, gets round it"
}

// lookAtKernel says what the kernel does for whoever looks at a peer.
func (x *examination) lookAtKernel() {
	k := x.kernel()
	if k.Apart {
		x.find("kernel.other", "", "%s has none of pidfd, Yama and subreapers: who descends from an agent is seen less surely than on Linux", k.Name)
		return
	}
	if !k.PIDFD {
		x.find("kernel.pidfd", "", "%s has no pidfd: a process that ends while it is looked at could be taken for another", k.Name)
	}
	if k.PIDFD && !k.PeerPIDFD {
		x.find("kernel.peer", "", "%s has no SO_PEERPIDFD: who is behind a socket is found by a number that could be another's by then", k.Name)
	}
	if k.Ptrace == 0 {
		x.find("kernel.ptrace", "", "programs of yours may trace one another (Yama is off): an agent with a shell can make a terminal of yours say yes")
	}
	does := []string{"pidfd", "SO_PEERPIDFD", "Yama"}
	if k.Landlock > 0 {
		does = append(does, "Landlock (not used yet)")
	}
	x.fine("kernel", "%s has %s", k.Name, strings.Join(does, ", "))
}
