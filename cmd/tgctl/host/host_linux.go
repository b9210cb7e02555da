package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// LookAtKernel tries what the kernel can do.
func LookAtKernel() Kernel {
	k := Kernel{Name: "Linux"}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.Name += " " + unix.ByteSliceToString(name.Release[:])
	}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		k.PIDFD = true
		_ = unix.Close(fd) // nothing was written to it
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
	p, err := sock.ProcessOf(pid)
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the clock since boot: %w", err)
	}
	return time.Duration(now.Nano()) - time.Duration(p.Start)*(time.Second/hertz), nil
}

// LookAtService asks the user's systemd. Without one nothing is known, which is no
// error.
func LookAtService(ctx context.Context, getenv func(string) string) (Service, error) {
	s := Service{Remote: getenv("SSH_CONNECTION") != "" || getenv("XDG_SESSION_TYPE") == "tty"}
	runtime := getenv("XDG_RUNTIME_DIR")
	if _, err := os.Stat(filepath.Join(runtime, "systemd", "private")); runtime == "" || err != nil {
		return s, nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", "--user", "show", "--property=LoadState,ActiveState,UnitFileState,MainPID,NRestarts", unit).Output()
	if err != nil {
		return s, fmt.Errorf("ask systemd for %s: %w", unit, err)
	}
	s.Manager = "systemd"
	s.read(string(out))
	if name := getenv("USER"); name != "" {
		_, err := os.Stat(filepath.Join("/var/lib/systemd/linger", filepath.Base(name)))
		s.Lingers = err == nil
	}
	return s, nil
}

// read takes in what systemctl prints: a line for each property.
func (s *Service) read(properties string) {
	for line := range strings.Lines(properties) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "LoadState":
			s.Known = value == "loaded"
		case "ActiveState":
			s.State = value
		case "UnitFileState":
			s.Enabled = strings.HasPrefix(value, "enabled")
		case "MainPID":
			s.PID, _ = strconv.Atoi(value) // systemd writes numbers
		case "NRestarts":
			s.Restarts, _ = strconv.Atoi(value)
		}
	}
}
