package child

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// leaderOf describes a child that has just been started and not been waited
// for, so that its number is still its own.
func leaderOf(pid int) proc {
	if p, ok := readProc(pid); ok {
		return p
	}
	return proc{pid: pid, pgid: pid}
}

// readProc reads /proc/PID/stat. The second field is the program's name in
// parentheses, which may itself hold blanks and parentheses.
func readProc(pid int) (proc, bool) {
	b, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, b)
}

// readFile is os.ReadFile for what the kernel makes up: nothing waits for it, so that
// the poller need not be asked whether it may. Many such files are read whenever a
// child ends.
func readFile(name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for b := make([]byte, 0, 512); ; b = slices.Grow(b, 512) {
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if n <= 0 || err != nil {
			return b, err
		}
		b = b[:len(b)+n]
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

func parseStat(pid int, b []byte) (proc, bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return proc{}, false
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 {
		return proc{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(f[i]))
		return n
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	return proc{
		pid:  pid,
		ppid: number(1), pgid: number(2), sid: number(3),
		start:  start,
		zombie: f[0][0] == 'Z' || f[0][0] == 'X',
	}, err == nil
}

// processTable returns the processes among which a child's may be. Where
// orphans come to us these are our own descendants, and the kernel lists them;
// otherwise it is all there are.
func processTable() []proc {
	if subreaper, _ := family.origin(); subreaper && listsChildren() {
		return descendants(os.Getpid())
	}
	return allProcesses()
}

func allProcesses() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := make([]proc, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProc(pid); ok {
				table = append(table, p)
			}
		}
	}
	return table
}

// listsChildren reports whether the kernel was built with the lists of
// children in /proc.
var listsChildren = sync.OnceValue(func() bool {
	pid := strconv.Itoa(os.Getpid())
	_, err := os.Stat("/proc/" + pid + "/task/" + pid + "/children")
	return err == nil
})

// descendants walks down from self. What loses its parent meanwhile moves to
// self, so self's list is read again until nothing new stands in it.
func descendants(self int) []proc {
	var table []proc
	seen := make(map[int]bool)
	for {
		queue := slices.DeleteFunc(childrenOf(self), func(pid int) bool { return seen[pid] })
		if len(queue) == 0 {
			return table
		}
		for len(queue) > 0 {
			pid := queue[0]
			queue = queue[1:]
			if seen[pid] {
				continue
			}
			seen[pid] = true
			if p, ok := readProc(pid); ok {
				table = append(table, p)
				queue = append(queue, childrenOf(pid)...)
			}
		}
	}
}

// childrenOf returns the children of all threads of pid.
func childrenOf(pid int) []int {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	dir, err := os.Open(base)
	if err != nil {
		return nil
	}
	threads, _ := dir.Readdirnames(-1)
	dir.Close()
	var pids []int
	for _, thread := range threads {
		b, err := readFile(base + "/" + thread + "/children")
		if err != nil {
			continue
		}
		for _, field := range bytes.Fields(b) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// environHas reports whether pid was started with entry in its environment.
func environHas(pid int, entry string) bool {
	b, err := readFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for part := range bytes.SplitSeq(b, []byte{0}) {
		if string(part) == entry {
			return true
		}
	}
	return false
}

// handle stands for one process for good: by a pidfd, or, on a kernel that has
// none, by its number and start, which leaves a moment between look and signal.
type handle struct {
	proc
	fd int // -1 without a pidfd
}

// openHandle returns false when p has gone.
func openHandle(p proc) (handle, bool) {
	h := handle{proc: p, fd: -1}
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch err {
	case nil:
		h.fd = fd
		family.watch(fd)
	case unix.ESRCH, unix.EINVAL:
		return handle{}, false
	}
	// The number may have changed hands before the descriptor was made.
	if now, ok := readProc(p.pid); !ok || now.start != p.start {
		h.close()
		return handle{}, false
	}
	return h, true
}

// alive reports whether the process still runs; a zombie doesn't.
func (h handle) alive() bool {
	if h.fd >= 0 {
		set := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(set, 0)
			if err != unix.EINTR {
				return n == 0
			}
		}
	}
	p, ok := readProc(h.pid)
	return ok && p.start == h.start && !p.zombie
}

func (h handle) signal(sig syscall.Signal) error {
	if h.fd >= 0 {
		return unix.PidfdSendSignal(h.fd, sig, nil, 0)
	}
	if !h.alive() {
		return syscall.ESRCH
	}
	return syscall.Kill(h.pid, sig)
}

func (h handle) close() {
	if h.fd >= 0 {
		family.unwatch(h.fd)
		unix.Close(h.fd)
	}
}
