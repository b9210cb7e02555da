package child

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysProcAttr is the same for all children.
var sysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}

// blockUntilExit returns when the leader has exited. It leaves the entry in the process table.
func (c *Child) blockUntilExit() {
	var info siginfo
	waitid(unix.P_PID, c.process.Pid, &info, unix.WEXITED|unix.WNOWAIT)
}

// siginfo is filled in by the kernel: three numbers, padding where pointers have eight bytes,
// and then pid, uid and status.
type siginfo [32]int32

const (
	infoSigno  = 0
	infoCode   = 2
	infoStatus = 5 + unsafe.Sizeof(uintptr(0))/8
)

func waitid(kind, id int, info *siginfo, options int) error {
	for {
		err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(info)), options, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// exitedLocked returns how the leader exited, and whether its entry has been removed. That
// happens only if other code waited for a process that is not its own; how it exited is lost
// then.
func (c *Child) exitedLocked() (State, bool) {
	var info siginfo
	if err := waitid(unix.P_PID, c.process.Pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG); err != nil {
		c.process.Release()
		return State{Code: ExitInternal}, true
	}
	status := info[infoStatus]
	if info[infoCode] == cldExited {
		return State{Code: int(status)}, false
	}
	return State{Signal: syscall.Signal(status)}, false
}

// cldExited is the code of a child that exited by itself; the others mean signals, with and
// without a core.
const cldExited = 1
