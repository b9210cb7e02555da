package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// LookAtKernel probes the kernel's features.
func LookAtKernel() Kernel {
	k := Kernel{Name: "Linux"}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.Name += " " + unix.ByteSliceToString(name.Release[:])
	}
	if self, err := proc.Open(proc.Process{PID: int32(os.Getpid())}); err == nil {
		k.PIDFD = self.File() != nil
		_ = self.Close() // nothing was written to it
	}
	k.PeerPIDFD = peerPIDFD()
	if text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		k.Ptrace, _ = strconv.Atoi(strings.TrimSpace(string(text))) // text that is not a number counts as 0
	}
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION: creates no ruleset
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); errno == 0 {
		k.Landlock = int(abi)
	}
	return k
}

// peerPIDFD reports whether SO_PEERPIDFD works, by trying it on a socket pair.
func peerPIDFD() bool {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	fd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// hertz is the unit of process start times. The kernel guarantees this value to user space,
// whatever its own tick rate.
const hertz = 100

// Age returns how long a process has run. It uses a clock that cannot be set and that advances
// during suspend.
func Age(pid int32) (time.Duration, error) {
	p, err := proc.Look(pid)
	if err != nil {
		return 0, err
	}
	return time.Duration(int64(proc.Now())-int64(p.Start)) * (time.Second / hertz), nil
}
