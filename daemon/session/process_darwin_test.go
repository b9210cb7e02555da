package session

import "golang.org/x/sys/unix"

// statOf identifies a living process.
func statOf(pid int) (Process, bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Process{}, false
	}
	start := info.Proc.P_starttime
	return Process{PID: int32(pid), Start: uint64(start.Sec)*1e6 + uint64(start.Usec)}, true
}

// groupLives reports whether the group has a member.
func groupLives(leader Process) bool { return unix.Kill(-int(leader.PID), 0) == nil }
