package proc

import "syscall"

// Below returns the processes of table that descend from one in found or for which joins is
// true, in no order, and adds them to found. It skips self and processes that only self has
// started.
func Below(table []Info, self int32, found map[int32]bool, joins func(Info) bool) []Info {
	var below []Info
	for more := true; more; {
		more = false
		for _, p := range table {
			if found[p.PID] || p.PID == self || p.PID <= 1 {
				continue
			}
			if found[p.PPID] || joins != nil && joins(p) {
				found[p.PID], more = true, true
				below = append(below, p)
			}
		}
	}
	return below
}

// Kin returns the processes of table that belong to leader, except leader itself and those that
// have ended: its descendants, the members of its group, those of groups and sessions that a
// known process created, and their descendants. known holds what was found before, by pid and
// start, including the leader. adopted decides about all other processes; nil means no.
func Kin(table []Info, self int32, leader Process, known map[int32]uint64, adopted func(Info) bool) []Info {
	found := make(map[int32]bool, len(known))
	now := make(map[int32]uint64, len(table)) // pid to start
	for _, p := range table {
		now[p.PID] = p.Start
		if start, ok := known[p.PID]; ok && start == p.Start {
			found[p.PID] = true
		}
	}
	// founded reports whether a process of ours created the group or session id: id was once
	// the pid of one, and is not the pid of another process now.
	founded := func(id int32) bool {
		start, was := known[id]
		current, taken := now[id]
		return found[id] || was && (!taken || current == start)
	}
	Below(table, self, found, func(p Info) bool {
		// A process can't join a group or session before it was created.
		joined := p.Start >= leader.Start && (founded(p.Group) || founded(p.Session))
		return joined || adopted != nil && adopted(p)
	})
	var kin []Info
	for _, p := range table {
		if found[p.PID] && !p.Ended() && p.PID != leader.PID {
			kin = append(kin, p)
		}
	}
	return kin
}

// SignalAll sends sig to every running process that match accepts and returns their number. It
// does not signal a process that has reused the pid of one.
func SignalAll(sig syscall.Signal, match func(Info) bool) int {
	all, _ := All() // what can't be seen can't be signalled
	n := 0
	for _, p := range all {
		if p.Ended() || !match(p) {
			continue
		}
		if h, err := Open(p.Process); err == nil {
			if h.Signal(sig) == nil {
				n++
			}
			_ = h.Close() // nothing was written
		}
	}
	return n
}
