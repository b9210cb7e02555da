package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func procFile(pid int32, name string) string {
	return "/proc/" + strconv.Itoa(int(pid)) + "/" + name
}

// readFile reads a file of a process, and returns os.ErrProcessDone if the process has ended.
// It does not use os.ReadFile: reading such files never blocks, so the poller is not needed,
// and many of them are read whenever a child ends.
func readFile(pid int32, name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(procFile(pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err == nil {
		defer unix.Close(fd)
	}
	b := make([]byte, 0, 512)
	for n := 1; err == nil && n > 0; {
		b = slices.Grow(b, 512)
		n, err = retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		b = b[:len(b)+max(n, 0)]
	}
	if err == unix.ENOENT || err == unix.ESRCH {
		err = os.ErrProcessDone
	}
	return b, err
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// Read describes a process from /proc/PID/stat, including one that has ended and was not waited
// for. Only [Look] returns its program and directory.
func Read(pid int32) (Info, error) {
	b, err := readFile(pid, "stat")
	if err != nil {
		return Info{}, err
	}
	return parseStat(pid, b)
}

// parseStat parses /proc/PID/stat. The name is in parentheses and may itself contain blanks and
// parentheses, so the last closing one ends it.
func parseStat(pid int32, b []byte) (Info, error) {
	begin, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if begin < 0 || end < begin {
		return Info{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return Info{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	var bad error
	number := func(field int) int32 {
		n, err := strconv.ParseInt(f[field], 10, 32)
		bad = errors.Join(bad, err)
		return int32(n)
	}
	p := Info{
		PPID: number(1), Group: number(2), Session: number(3), TTY: ttyName(uint32(number(4))), Foreground: max(number(5), 0),
		Name: string(b[begin+1 : end]), Zombie: f[0] == "Z" || f[0] == "X", threads: int(number(17)),
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(bad, err); err != nil {
		return Info{}, fmt.Errorf("malformed /proc/%d/stat: %w", pid, err)
	}
	p.Process = Process{pid, start}
	return p, nil
}

// ttyName returns the name of the terminal with a device number.
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

// describe adds details that may not be readable.
func describe(p *Info) {
	p.Exe, _ = os.Readlink(procFile(p.PID, "exe"))
	p.Cwd, _ = os.Readlink(procFile(p.PID, "cwd"))
}

// Args returns the arguments of a process. They are not trusted, since a process can overwrite
// them. There are none of a process that was not waited for yet.
func Args(pid int32) ([]string, error) {
	b, err := readFile(pid, "cmdline")
	if err != nil {
		return nil, fmt.Errorf("read the arguments of process %d: %w", pid, err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// Environ returns the environment that a process was started with, which the process can have
// overwritten since. For a process that has ended it returns an error, not an empty
// environment.
func Environ(pid int32) ([]string, error) {
	b, err := readFile(pid, "environ")
	if len(b) == 0 {
		// For a zombie the kernel returns nothing or an error.
		if p, gone := Read(pid); gone != nil || p.Zombie {
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

// Cgroup returns the control group of a process, as /user.slice/user-1000.slice/…; empty if
// there are none.
func Cgroup(pid int32) (string, error) {
	b, err := readFile(pid, "cgroup")
	if err != nil {
		return "", fmt.Errorf("read the control group of process %d: %w", pid, err)
	}
	var named string
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path; the hierarchy of version 2 is 0 and has no controllers,
		// and that of systemd in version 1 is named.
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

// SameUserNamespace reports whether a process is in the user namespace of this process. In
// another one it can be root over things that only seem to belong to this user.
func SameUserNamespace(pid int32) (bool, error) {
	theirs, err := os.Stat(procFile(pid, "ns/user"))
	if err != nil {
		return false, fmt.Errorf("read the user namespace of process %d: %w", pid, err)
	}
	ours, err := os.Stat("/proc/self/ns/user")
	if err != nil {
		return false, fmt.Errorf("read our own user namespace: %w", err)
	}
	return os.SameFile(theirs, ours), nil
}

// All returns every visible process, in no order, without its program and directory. A process
// that starts or ends meanwhile may or may not be included.
func All() ([]Info, error) {
	names, err := namesIn("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	all := make([]Info, 0, len(names))
	for _, name := range names {
		all = appendInfo(all, name)
	}
	return all, nil
}

// namesIn returns the names of what is in a folder, in no order.
func namesIn(folder string) ([]string, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// appendInfo appends the process whose pid is name, if there is one.
func appendInfo(all []Info, name string) []Info {
	if pid, err := strconv.ParseInt(name, 10, 32); err == nil {
		if p, err := Read(int32(pid)); err == nil {
			return append(all, p)
		}
	}
	return all
}

// listsChildren reports whether the kernel provides lists of children in /proc.
var listsChildren = sync.OnceValue(func() bool {
	pid := int32(os.Getpid())
	_, err := readFile(pid, "task/"+strconv.Itoa(int(pid))+"/children")
	return err == nil
})

// Descendants returns the descendants of this process without examining any other process. It
// returns false if the system does not list them.
func Descendants() ([]Info, bool) {
	if !listsChildren() {
		return nil, false
	}
	var table []Info
	self, seen := int32(os.Getpid()), map[string]bool{}
	// A process that loses its parent meanwhile moves to this one, so the own list is read
	// again until it has nothing new.
	for queue := unseenChildren(self, seen); len(queue) > 0; queue = unseenChildren(self, seen) {
		for len(queue) > 0 {
			p := queue[0]
			table = append(table, p)
			queue = append(queue[1:], unseenChildren(p.PID, seen)...)
		}
	}
	return table, true
}

// unseenChildren returns the children of all threads of a process that are not in seen, and
// adds them to seen.
func unseenChildren(of int32, seen map[string]bool) []Info {
	threads, _ := namesIn(procFile(of, "task")) // none if it has ended
	var children []Info
	for _, thread := range threads {
		b, _ := readFile(of, "task/"+thread+"/children") // a thread that has ended has none
		for _, pid := range strings.Fields(string(b)) {
			if !seen[pid] {
				seen[pid] = true
				children = appendInfo(children, pid)
			}
		}
	}
	return children
}

// Now returns the current time in the unit of [Process].Start: hundredths of a second since the
// boot.
func Now() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano() / 1e7)
}

// Began returns when the process was started, by the current clock.
func (p Process) Began() time.Time {
	return time.Now().Add(-time.Duration(Now()-p.Start) * (time.Second / 100))
}

// innerChild returns the child of parent whose pid in parent's PID namespace is pid, 0 if there
// is none, and whether that namespace differs from that of this process.
func innerChild(parent, pid int32) (child int32, inside bool) {
	depth, name := len(numbers(parent)), strconv.Itoa(int(pid))
	if depth < 2 {
		return 0, false
	}
	all, _ := All() // unreadable processes are left out
	for _, p := range all {
		if p.PPID != parent {
			continue
		}
		// A child may be in a deeper namespace, where it has yet another pid.
		if all := numbers(p.PID); len(all) >= depth && all[depth-1] == name {
			return p.PID, true
		}
	}
	return 0, true
}

// numbers returns the pid of a process in each PID namespace that it is in, from that of this
// process inwards.
func numbers(pid int32) []string {
	b, err := readFile(pid, "status")
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

// OpenProgram opens the program of a process, even if the file was removed since.
func OpenProgram(p Info) (*os.File, error) {
	f, err := os.Open(procFile(p.PID, "exe"))
	if err != nil {
		return nil, err
	}
	if is, err := Read(p.PID); err != nil || is.Start != p.Start {
		_ = f.Close() // nothing was written
		return nil, os.ErrProcessDone
	}
	return f, nil
}

// openPidfd returns a pidfd of a process, -1 where the system has none.
func openPidfd(pid int32) (int, error) {
	fd, err := unix.PidfdOpen(int(pid), 0)
	switch err {
	case nil:
		return fd, nil
	case unix.ESRCH, unix.EINVAL:
		return -1, os.ErrProcessDone
	case unix.ENOSYS, unix.EPERM:
		return -1, nil
	}
	return -1, os.NewSyscallError("pidfd_open", err)
}

func signalPidfd(fd int, sig syscall.Signal) error { return unix.PidfdSendSignal(fd, sig, nil, 0) }

// PidfdsOf returns the pidfds of another process that this process has open.
func PidfdsOf(pid int32) ([]int, error) {
	self := int32(os.Getpid())
	names, err := namesIn(procFile(self, "fd"))
	if err != nil {
		return nil, err
	}
	want := []byte("\nPid:\t" + strconv.Itoa(int(pid)) + "\n")
	var fds []int
	for _, name := range names {
		target, err := os.Readlink(procFile(self, "fd/"+name))
		if err != nil || !strings.Contains(target, "pidfd") {
			continue
		}
		info, _ := readFile(self, "fdinfo/"+name) // empty if it was closed meanwhile
		if fd, err := strconv.Atoi(name); err == nil && bytes.Contains(info, want) {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}
