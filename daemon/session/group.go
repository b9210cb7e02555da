package session

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// termGrace is the grace period of a process after SIGTERM.
const termGrace = 2 * time.Second

// EndGroup ends what is left of a server's process group after its shim has ended, whether or not
// the group's leader lives: a shim that was killed could not do it. When ctx ends, it kills at
// once.
func (r *Registry) EndGroup(ctx context.Context, leader Process) {
	if leader.PID == 0 {
		return
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		over := time.Now().Add(termGrace)
		n := signalGroup(leader, sig)
		if n == 0 {
			return
		}
		r.log.Warn("ending processes that a tg-shim left behind", "group", leader.PID, "signal", unix.SignalName(sig), "processes", n)
		for time.Now().Before(over) && ctx.Err() == nil {
			if signalGroup(leader, 0) == 0 {
				return
			}
			time.Sleep(pollInterval)
		}
	}
}

// signalGroup signals the living members of the group and returns their number. Members are younger
// than the leader; a group with the same number and an older member is another group.
func signalGroup(leader Process, sig unix.Signal) int {
	// Most groups end with their leaders; then there is no need to inspect all processes.
	if unix.Kill(-int(leader.PID), 0) == unix.ESRCH {
		return 0
	}
	return proc.SignalAll(sig, func(p proc.Info) bool { return p.Group == leader.PID && p.Start >= leader.Start })
}
