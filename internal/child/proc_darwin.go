package child

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"
)

// On macOS there is neither a subreaper nor a pidfd, so the promise of Stop is
// weaker there in two ways.
//
//   - A process that forked twice, left the group and lost its parent belongs
//     to launchd. It is found only if the child was started with a Mark and the
//     system lets us read its environment, which it doesn't for programs of
//     Apple's.
//   - Between the look at a process's start and the signal to its number, the
//     number could change hands. The system gives numbers out in turn, so that
//     would take a whole round of them in a few microseconds.

func leaderOf(pid int) proc {
	if p, ok := readProc(pid); ok {
		return p
	}
	return proc{pid: pid, pgid: pid}
}

func readProc(pid int) (proc, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return proc{}, false
	}
	return procOf(k), true
}

// zombieStat is SZOMB of sys/proc.h.
const zombieStat = 5

func procOf(k *unix.KinfoProc) proc {
	start := k.Proc.P_starttime
	return proc{
		pid:    int(k.Proc.P_pid),
		ppid:   int(k.Eproc.Ppid),
		pgid:   int(k.Eproc.Pgid),
		start:  uint64(start.Sec)*1e6 + uint64(start.Usec),
		zombie: k.Proc.P_stat == zombieStat,
	}
}

func processTable() []proc {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	table := make([]proc, len(all))
	for i := range all {
		table[i] = procOf(&all[i])
	}
	return table
}

// environHas reports whether entry stands in the environment, or among the
// arguments, that pid was started with.
func environHas(pid int, entry string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && bytes.Contains(raw, []byte("\x00"+entry+"\x00"))
}

// handle stands for one process, by its number and start.
type handle struct{ proc }

func openHandle(p proc) (handle, bool) {
	h := handle{p}
	return h, h.alive()
}

func (h handle) alive() bool {
	p, ok := readProc(h.pid)
	return ok && p.start == h.start && !p.zombie
}

func (h handle) signal(sig syscall.Signal) error {
	if !h.alive() {
		return syscall.ESRCH
	}
	return syscall.Kill(h.pid, sig)
}

func (h handle) close() {}
