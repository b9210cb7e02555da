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

// Read returns what the system says of a process, also of one that has ended and was not
// waited for. Its program is left out, which [Look] returns.
func Read(pid int32) (Info, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", int(pid))
	// For a pid that is not in use the answer is empty.
	if errors.Is(err, unix.EIO) || (err == nil && k.Proc.P_pid != pid) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, err
	}
	return infoOf(k), nil
}

// zombieStat is SZOMB of sys/proc.h.
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

// All returns every process, in no order, without its program. One that comes or goes
// meanwhile may be missing, or still be there.
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

// Descendants returns false: the system does not list them.
func Descendants() ([]Info, bool) { return nil, false }

// ttyName turns a device number into the name of a terminal.
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

// describe adds the program. The directory of another process can't be had
// without libproc.
func describe(p *Info) {
	if raw, err := unix.SysctlRaw("kern.procargs2", int(p.PID)); err == nil {
		p.Exe, _, _, _ = parseProcArgs(raw)
	}
}

// Args returns the arguments that a process was started with; a claim, and none of one
// that has ended.
func Args(pid int32) []string {
	raw, _ := unix.SysctlRaw("kern.procargs2", int(pid))
	_, args, _, _ := parseProcArgs(raw)
	return args
}

// Environ returns the environment that a process was started with. For programs
// of Apple's it is empty: the system keeps it to itself.
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

// Cgroup returns nothing: macOS has no control groups.
func Cgroup(int32) (string, error) { return "", nil }

// SameUserNamespace is always so: macOS has no user namespaces.
func SameUserNamespace(int32) (bool, error) { return true, nil }

// Now is this moment as [Process].Start counts: in microseconds of the clock.
func Now() uint64 { return uint64(time.Now().UnixMicro()) }

// innerChild returns false: there are no PID namespaces.
func innerChild(_, _ int32) (child int32, inside bool) { return 0, false }

// OpenProgram opens the file that the process was started from. There is no
// other way to what it runs here, so that a file which has taken its name since
// is taken for it.
func OpenProgram(p Info) (*os.File, error) { return os.Open(p.Exe) }

// openPidfd returns -1: there are no pidfds. Between the look at a process's start and
// the signal to its number, the number could change hands. The system gives numbers out
// in turn, so that would take a whole round of them in a few microseconds.
func openPidfd(int32) (int, error) { return -1, nil }

// signalPidfd is not called.
func signalPidfd(int, syscall.Signal) error { return unix.ENOSYS }

func memoryOf(int32) (size uint64, shared bool) { return 0, false }
