package sock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func procFile(pid int32, name string) string {
	return "/proc/" + strconv.Itoa(int(pid)) + "/" + name
}

// readProc reads a file of a process, and says so when that has gone.
func readProc(pid int32, name string) ([]byte, error) {
	b, err := os.ReadFile(procFile(pid, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		err = os.ErrProcessDone
	}
	return b, err
}

func readProcess(pid int32) (Process, error) {
	b, err := readProc(pid, "stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat. The name stands in parentheses and may hold
// blanks and parentheses itself, so it ends with the last one.
func parseStat(pid int32, b []byte) (Process, error) {
	begin, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if begin < 0 || end < begin {
		return Process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return Process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	ppid, err1 := strconv.ParseInt(f[1], 10, 32)
	tty, err2 := strconv.ParseInt(f[4], 10, 32)
	front, err3 := strconv.ParseInt(f[5], 10, 32)
	start, err4 := strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Process{}, fmt.Errorf("malformed /proc/%d/stat: %w", pid, err)
	}
	return Process{
		PID: pid, PPID: int32(ppid), Start: start,
		Name: string(b[begin+1 : end]), TTY: ttyName(uint32(tty)), Foreground: max(int32(front), 0),
		zombie: f[0] == "Z" || f[0] == "X",
	}, nil
}

// ttyName turns a device number into the name of a terminal.
func ttyName(dev uint32) string {
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	switch {
	case dev == 0:
		return ""
	case major >= 136 && major < 144:
		return fmt.Sprintf("/dev/pts/%d", (major-136)<<20|minor)
	case major == 4 && minor < 64:
		return fmt.Sprintf("/dev/tty%d", minor)
	case major == 4:
		return fmt.Sprintf("/dev/ttyS%d", minor-64)
	}
	return fmt.Sprintf("device %d:%d", major, minor)
}

// describe adds what may be hidden from us.
func describe(p *Process) {
	p.Exe, _ = os.Readlink(procFile(p.PID, "exe"))
	p.Cwd, _ = os.Readlink(procFile(p.PID, "cwd"))
}

// CalledAs returns what a process was called by when it was started, which may be a link
// to its program; a claim, and empty where there is none. Unlike the program it is shown
// of processes that can't be read.
func CalledAs(pid int32) string {
	if args := Args(pid); len(args) > 0 {
		return args[0]
	}
	return ""
}

// Args returns the arguments that a process was started with; a claim, since it can have
// written over them, and none of one that has ended.
func Args(pid int32) []string {
	b, _ := readProc(pid, "cmdline")
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Environ returns the environment that a process was started with. The process
// can have written over it since. A process that has ended has none to show,
// which is an error and not an empty one.
func Environ(pid int32) ([]string, error) {
	b, err := readProc(pid, "environ")
	if len(b) == 0 {
		// Of a zombie the kernel shows nothing, or refuses to.
		if p, gone := readProcess(pid); gone != nil || p.zombie {
			err = os.ErrProcessDone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment of process %d: %w", pid, err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// Cgroup returns the control group of a process, as
// /user.slice/user-1000.slice/…; empty where there are none.
func Cgroup(pid int32) (string, error) {
	b, err := readProc(pid, "cgroup")
	if err != nil {
		return "", fmt.Errorf("read the control group of process %d: %w", pid, err)
	}
	var named string
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path; the one hierarchy of version 2 is 0 and
		// names none, and systemd's own of version 1 is called so.
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			return parts[2], nil
		case parts[1] == "name=systemd":
			named = parts[2]
		}
	}
	return named, nil
}

// SameUserNamespace reports whether a process is in our user namespace. In
// another one it can be root over things that only look like ours.
func SameUserNamespace(pid int32) (bool, error) {
	theirs, err := os.Stat(procFile(pid, "ns/user"))
	if err != nil {
		return false, fmt.Errorf("look at the user namespace of process %d: %w", pid, err)
	}
	ours, err := os.Stat("/proc/self/ns/user")
	if err != nil {
		return false, fmt.Errorf("look at our user namespace: %w", err)
	}
	return os.SameFile(theirs, ours), nil
}

// listProcesses returns the numbers of all processes.
func listProcesses() ([]int32, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var pids []int32
	for _, name := range names {
		if pid, err := strconv.ParseInt(name, 10, 32); err == nil {
			pids = append(pids, int32(pid))
		}
	}
	return pids, err
}

// Now is this moment as [Process].Start counts: in hundredths of a second since the
// system was started.
func Now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano() / 1e7)
}

// innerChild returns the child of parent that is pid in parent's PID namespace, 0 for
// none, and whether that namespace is another one than ours.
func innerChild(parent, pid int32) (child int32, inside bool) {
	depth, name := len(numbers(parent)), strconv.Itoa(int(pid))
	if depth < 2 {
		return 0, false
	}
	entries, _ := os.ReadDir("/proc") // what can't be read has no child to show
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		p, err := readProcess(int32(n))
		if err != nil || p.PPID != parent {
			continue
		}
		// A child may be in a namespace further down, where it is another number still.
		if all := numbers(p.PID); len(all) >= depth && all[depth-1] == name {
			return p.PID, true
		}
	}
	return 0, true
}

// numbers returns the pid of a process in each PID namespace that it is in, from
// ours inwards.
func numbers(pid int32) []string {
	b, err := readProc(pid, "status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if all, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(all)
		}
	}
	return nil
}
