package child

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// tree is what one child has started, as far as it was found.
type tree struct {
	child    *Child
	ended    bool              // the child is no longer counted in family
	known    map[int32]uint64  // every process ever found to belong to it: pid to start
	members  map[int32]*member // known processes that may still run
	unmarked map[int32]uint64  // processes that were seen not to carry the mark
}

type member struct {
	*proc.Handle
	group  int32
	exempt bool // this process may not signal it
}

func newTree(c *Child) *tree {
	return &tree{
		child:    c,
		known:    map[int32]uint64{c.leader.PID: c.leader.Start},
		members:  make(map[int32]*member),
		unmarked: make(map[int32]uint64),
	}
}

func (t *tree) close() {
	for pid := range t.members {
		t.drop(pid)
	}
}

// drop removes a member.
func (t *tree) drop(pid int32) {
	m := t.members[pid]
	delete(t.members, pid)
	if f := m.File(); f != nil {
		family.watched.Delete(int(f.Fd()))
	}
	_ = m.Close() // nothing was written
}

// add adds a process that may still run.
func (t *tree) add(p proc.Info) {
	h, err := proc.Open(p.Process)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return
	case err != nil: // no descriptor is left for it
		h = &proc.Handle{Process: p.Process}
	case h.File() != nil:
		family.watched.Store(int(h.File().Fd()), true)
	}
	t.members[p.PID] = &member{Handle: h, group: p.Group}
}

// refresh finds new processes, drops those that have ended, and reports whether any that can be
// ended are left. The leader does not count.
func (t *tree) refresh() bool {
	table := processTable()
	alone := family.alone(t.ended) // must follow processTable; see alone
	adopted := func(p proc.Info) bool { return t.adopted(p, alone) }
	for _, p := range proc.Kin(table, int32(os.Getpid()), t.child.leader.Process, t.known, adopted) {
		t.known[p.PID] = p.Start
		switch m := t.members[p.PID]; {
		case m == nil:
			t.add(p)
		case m.Process != p.Process:
			t.drop(p.PID)
			t.add(p)
		default:
			m.group = p.Group
		}
	}
	left := false
	for pid, m := range t.members {
		if !m.Alive() {
			t.drop(pid)
		} else if !m.exempt {
			left = true
		}
	}
	return left
}

// processTable returns the processes among which those of a child may be: the descendants of
// this process if it adopts orphans and the kernel lists them, otherwise all.
func processTable() []proc.Info {
	if family.adopts.Load() {
		if table, ok := proc.Descendants(); ok {
			return table
		}
	}
	table, _ := proc.All() // what can't be seen can't be ended
	return table
}

// adopted reports whether p, whose ancestry no longer shows it, belongs to this child: it
// carries the mark, or it has become a child of this process and no other child can have
// started it.
func (t *tree) adopted(p proc.Info, alone bool) bool {
	adopts := family.adopts.Load()
	if p.Start < family.first.Load() || (adopts && int(p.PPID) != os.Getpid()) {
		return false
	}
	if t.child.mark != "" && t.unmarked[p.PID] != p.Start {
		if env, err := proc.Environ(p.PID); err == nil && slices.Contains(env, t.child.mark) {
			return true
		}
		t.unmarked[p.PID] = p.Start
	}
	return adopts && alone && !held(p.PID)
}

// signal sends sig to the group and to each process outside it.
func (t *tree) signal(sig syscall.Signal) {
	leader := t.child.leader
	group := t.child.Signal(sig) == nil
	// A leader can't create a session, but it can move to another group.
	if now, err := proc.Read(leader.PID); !group || (err == nil && now.Process == leader.Process && now.Group != leader.Group) {
		t.child.signalLeader(sig)
	}
	for _, m := range t.members {
		if !group || m.group != leader.Group {
			m.signal(sig)
		}
	}
}

func (m *member) signal(sig syscall.Signal) {
	if m.Signal(sig) == syscall.EPERM {
		m.exempt = true
	}
}

// kill kills all processes of the tree. A stopped process can't fork: first all are stopped,
// until no new ones are found, and only then killed. The number of rounds is limited for
// something that forks faster than it can be found.
func (t *tree) kill() {
	for range 100 {
		before := len(t.known)
		t.signal(syscall.SIGSTOP)
		t.refresh()
		if len(t.known) == before {
			break
		}
	}
	t.child.Signal(syscall.SIGKILL)
	t.child.signalLeader(syscall.SIGKILL)
	for _, m := range t.members {
		m.signal(syscall.SIGKILL)
	}
}
