package host

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// LookAtKernel tries what the kernel can do.
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
		k.Ptrace, _ = strconv.Atoi(strings.TrimSpace(string(text))) // what is no number keeps nobody apart
	}
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION: nothing is made
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); errno == 0 {
		k.Landlock = int(abi)
	}
	return k
}

// peerPIDFD asks for the process behind a socket, which is this one.
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

// hertz is the unit of starts of processes: the kernel promises it to programs,
// whatever it uses itself.
const hertz = 100

// Age is for how long a process has run, by a clock that nobody sets and that goes
// on while the machine sleeps.
func Age(pid int32) (time.Duration, error) {
	p, err := proc.Look(pid)
	if err != nil {
		return 0, err
	}
	return time.Duration(int64(proc.Now())-int64(p.Start)) * (time.Second / hertz), nil
}
