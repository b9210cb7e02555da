package session

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// statOf identifies a living process.
func statOf(pid int) (Process, bool) {
	s, err := proc.Read(int32(pid))
	return s.Process, err == nil
}

// groupLives reports whether the group has a member that is not a zombie; the process that adopted
// a zombie may be slow to reap it.
func groupLives(leader Process) bool { return signalGroup(leader, 0) > 0 }

// This check is made for each shim that leaves, and the process table may be long.
func TestGroupThatHasGoneCostsNoLookAtAllProcesses(t *testing.T) {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := Process{PID: int32(cmd.Process.Pid), Start: 1}
	if n := testing.AllocsPerRun(10, func() { signalGroup(gone, unix.SIGTERM) }); n > 0 {
		t.Errorf("%.0f allocations, want none", n)
	}
}
