package sock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// zombieStat is SZOMB of sys/proc.h.
const zombieStat = 5

func readProcess(pid int32) (Process, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", int(pid))
	// For a pid that is not in use the answer is empty.
	if errors.Is(err, unix.EIO) || (err == nil && k.Proc.P_pid != pid) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Process{}, err
	}
	start := k.Proc.P_starttime
	name, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
	return Process{
		PID: pid, PPID: k.Eproc.Ppid,
		Start: uint64(start.Sec)*1e6 + uint64(start.Usec),
		Name:  string(name),
		TTY:   ttyName(uint32(k.Eproc.Tdev)), Foreground: max(k.Eproc.Tpgid, 0),
		zombie: k.Proc.P_stat == zombieStat,
	}, nil
}

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
func describe(p *Process) {
	if raw, err := unix.SysctlRaw("kern.procargs2", int(p.PID)); err == nil {
		p.Exe, _, _, _ = parseProcArgs(raw)
	}
}

// CalledAs returns the path by which a process was started, which may be a link to its
// program; empty where there is none.
func CalledAs(pid int32) string {
	raw, _ := unix.SysctlRaw("kern.procargs2", int(pid)) // of one that has ended there is none
	path, _, _, _ := parseProcArgs(raw)
	return path
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

// listProcesses returns the numbers of all processes.
func listProcesses() ([]int32, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	pids := make([]int32, len(all))
	for i, k := range all {
		pids[i] = k.Proc.P_pid
	}
	return pids, nil
}

// Now is this moment as [Process].Start counts: in microseconds of the clock.
func Now() uint64 { return uint64(time.Now().UnixMicro()) }

// innerChild returns false: there are no PID namespaces.
func innerChild(_, _ int32) (child int32, inside bool) { return 0, false }
