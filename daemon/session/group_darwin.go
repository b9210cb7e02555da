package session

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

// termGrace is how long a process may take to end after SIGTERM.
const termGrace = 2 * time.Second

// endGroup ends the process group that leader led. There are no pidfds here:
// the group is signalled by its number, and only while its leader is surely
// the process that was meant. A group whose leader has gone is left alone.
func endGroup(ctx context.Context, leader Process, log *slog.Logger) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if leader.PID == 0 || !Alive(leader) || unix.Kill(-int(leader.PID), sig) != nil {
			return
		}
		log.Warn("ending what a shim left behind", "group", leader.PID, "signal", unix.SignalName(sig))
		for over := time.Now().Add(termGrace); time.Now().Before(over) && ctx.Err() == nil && Alive(leader); {
			time.Sleep(look)
		}
	}
}

// Alive reports whether p runs still.
func Alive(p Process) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", int(p.PID))
	if err != nil || info.Proc.P_stat == 5 { // SZOMB
		return false
	}
	start := info.Proc.P_starttime
	return uint64(start.Sec)*1e6+uint64(start.Usec) == p.Start
}
