package child

import (
	"os"
	"syscall"
)

// proc is one line of the process table.
type proc struct {
	pid, ppid int
	pgid, sid int    // sid is zero where the platform doesn't tell
	start     uint64 // when it started; only compared, in the platform's unit
	zombie    bool
}

// tree is what one child has started, as far as it was found.
type tree struct {
	child   *Child
	ended   bool            // the child no longer counts among the living
	known   map[int]uint64  // every process ever found to belong to it: pid to start
	members map[int]*member // those that may still live
	strange map[int]uint64  // those that were seen not to carry the mark
}

type member struct {
	proc
	handle handle
	exempt bool // not ours to signal
}

func newTree(c *Child) *tree {
	return &tree{
		child:   c,
		known:   map[int]uint64{c.leader.pid: c.leader.start},
		members: make(map[int]*member),
		strange: make(map[int]uint64),
	}
}

func (t *tree) close() {
	for pid, m := range t.members {
		m.handle.close()
		delete(t.members, pid)
	}
}

// look finds what has been started since, forgets what has gone, and reports
// whether anything is left that can be ended. The leader is not counted.
func (t *tree) look() bool {
	table := processTable()
	alone := family.alone(t.ended) // after the table: see there
	adopted := func(p proc) bool { return t.adopted(p, alone) }
	for _, p := range kin(table, os.Getpid(), t.child.leader, t.known, adopted) {
		t.known[p.pid] = p.start
		if m := t.members[p.pid]; m != nil {
			if m.start == p.start {
				m.proc = p
				continue
			}
			m.handle.close()
			delete(t.members, p.pid)
		}
		if h, ok := openHandle(p); ok {
			t.members[p.pid] = &member{proc: p, handle: h}
		}
	}
	left := false
	for pid, m := range t.members {
		if !m.handle.alive() {
			m.handle.close()
			delete(t.members, pid)
		} else if !m.exempt {
			left = true
		}
	}
	return left
}

// adopted reports whether p, with whose parents nothing is to be shown any
// more, belongs to this child: it carries the mark, or it has become our own
// child and nobody else can have brought it here.
func (t *tree) adopted(p proc, alone bool) bool {
	subreaper, first := family.origin()
	if p.start < first || (subreaper && p.ppid != os.Getpid()) {
		return false
	}
	if t.child.mark != "" && t.strange[p.pid] != p.start {
		if environHas(p.pid, t.child.mark) {
			return true
		}
		t.strange[p.pid] = p.start
	}
	return subreaper && alone && !held(p.pid)
}

// signal sends sig to the group, and to each process outside of it.
func (t *tree) signal(sig syscall.Signal) {
	leader := t.child.leader
	group := t.child.Signal(sig) == nil
	// A leader can't found a session, but it can move to another group.
	if now, ok := readProc(leader.pid); !group || (ok && now.start == leader.start && now.pgid != leader.pgid) {
		t.child.signalLeader(sig)
	}
	for _, m := range t.members {
		if !group || m.pgid != leader.pgid {
			m.signal(sig)
		}
	}
}

func (m *member) signal(sig syscall.Signal) {
	if m.handle.signal(sig) == syscall.EPERM {
		m.exempt = true
	}
}

// kill ends all of it. What is stopped can't fork: first everything is stopped,
// until no more is found, and only then killed. The number of rounds is bounded
// for something that forks faster than it can be looked for.
func (t *tree) kill() {
	for range 100 {
		before := len(t.known)
		t.signal(syscall.SIGSTOP)
		t.look()
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

// alive returns the pids that are left, and lets go of all.
func (t *tree) alive() []int {
	var pids []int
	for pid, m := range t.members {
		if m.handle.alive() {
			pids = append(pids, pid)
		}
	}
	t.close()
	reapOrphans()
	return pids
}

// kin returns the processes of table that belong to the leader, itself and
// zombies left out: its descendants, the members of its group, those of groups
// and sessions that a known process founded, and their descendants in turn.
// known holds what was found before, by pid and start, the leader included;
// adopted decides on processes for which none of this holds.
func kin(table []proc, self int, leader proc, known map[int]uint64, adopted func(proc) bool) []proc {
	found := make(map[int]bool, len(known))
	now := make(map[int]uint64, len(table)) // pid to start
	for _, p := range table {
		now[p.pid] = p.start
		if start, ok := known[p.pid]; ok && start == p.start {
			found[p.pid] = true
		}
	}
	// founded reports whether the group or session id was made by one of ours:
	// it was once the pid of one, and is not now the pid of somebody else.
	founded := func(id int) bool {
		if found[id] {
			return true
		}
		start, was := known[id]
		current, taken := now[id]
		return was && (!taken || current == start)
	}
	for changed := true; changed; {
		changed = false
		for _, p := range table {
			if found[p.pid] || p.pid == self || p.pid <= 1 {
				continue
			}
			// Nobody joins a group or session before it was founded.
			joined := p.start >= leader.start && (founded(p.pgid) || founded(p.sid))
			if found[p.ppid] || joined || adopted(p) {
				found[p.pid] = true
				changed = true
			}
		}
	}
	var ours []proc
	for _, p := range table {
		if found[p.pid] && !p.zombie && p.pid != leader.pid {
			ours = append(ours, p)
		}
	}
	return ours
}
