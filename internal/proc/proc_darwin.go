package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Read describes a process, including one that has ended and was not waited for. Only [Look]
// returns its program.
func Read(pid int32) (Info, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", int(pid))
	// For an unused pid the answer is empty.
	if errors.Is(err, unix.EIO) || (err == nil && k.Proc.P_pid != pid) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, err
	}
	return infoOf(k), nil
}

// zombieStat is SZOMB in sys/proc.h.
const zombieStat = 5

func infoOf(k *unix.KinfoProc) Info {
	start := k.Proc.P_starttime
	name, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
	return Info{
		Process: Process{k.Proc.P_pid, uint64(start.Sec)*1e6 + uint64(start.Usec)},
		PPID:    k.Eproc.Ppid, Group: k.Eproc.Pgid,
		Name: string(name),
		TTY:  ttyName(uint32(k.Eproc.Tdev)), Foreground: max(k.Eproc.Tpgid, 0),
		Zombie: k.Proc.P_stat == zombieStat,
	}
}

// All returns every process without its program, in no order. A process that starts or ends
// meanwhile may or may not be included.
func All() ([]Info, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	table := make([]Info, len(all))
	for i := range all {
		table[i] = infoOf(&all[i])
	}
	return table, nil
}

// Descendants returns false: macOS does not list them.
func Descendants() ([]Info, bool) { return nil, false }

// ttyName returns the name of the terminal with a device number.
func ttyName(dev uint32) string {
	const none, ptys = ^uint32(0), 16
	major, minor := dev>>24, dev&0xffffff
	switch {
	case dev == none || dev == 0:
		return ""
	case major == ptys:
		return fmt.Sprintf("/dev/ttys%03d", minor)
	}
	return fmt.Sprintf("device %d:%d", major, minor)
}

// describe adds the program. The directory of another process is available only from libproc.
func describe(p *Info) {
	if raw, err := unix.SysctlRaw("kern.procargs2", int(p.PID)); err == nil {
		p.Exe, _, _, _ = parseProcArgs(raw)
	}
}

// Args returns the arguments of a process. They are not trusted.
func Args(pid int32) ([]string, error) {
	raw, err := unix.SysctlRaw("kern.procargs2", int(pid))
	var args []string
	if err == nil {
		_, args, _, err = parseProcArgs(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read the arguments of process %d: %w", pid, err)
	}
	return args, nil
}

// Environ returns the environment that a process was started with. It is empty for Apple's
// programs, for which the system does not disclose it.
func Environ(pid int32) ([]string, error) {
	raw, err := unix.SysctlRaw("kern.procargs2", int(pid))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	var env []string
	if err == nil {
		_, _, env, err = parseProcArgs(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment of process %d: %w", pid, err)
	}
	return env, nil
}

// Cgroup returns an empty string: macOS has no control groups.
func Cgroup(int32) (string, error) { return "", nil }

// SameUserNamespace returns true: macOS has no user namespaces.
func SameUserNamespace(int32) (bool, error) { return true, nil }

// Now returns the current time in the unit of [Process].Start: microseconds of the clock.
func Now() uint64 { return uint64(time.Now().UnixMicro()) }

// Began returns when the process was started, by the clock of that moment.
func (p Process) Began() time.Time { return time.UnixMicro(int64(p.Start)) }

// innerChild returns false: macOS has no PID namespaces.
func innerChild(_, _ int32) (child int32, inside bool) { return 0, false }

// OpenProgram opens the file that the process was started from. It has only the path, so a file
// that has replaced the program is taken for it.
func OpenProgram(p Info) (*os.File, error) { return os.Open(p.Exe) }

// openPidfd returns -1: macOS has no pidfds. Between the check of a process's start and the
// signal to its pid, the pid could be reused. The system assigns pids in order, so that would
// take a full round of them in a few microseconds.
func openPidfd(int32) (int, error) { return -1, nil }

// signalPidfd is not called on macOS.
func signalPidfd(int, syscall.Signal) error { return unix.ENOSYS }

func memoryOf(int32) (size uint64, shared bool) { return 0, false }
