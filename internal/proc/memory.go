package proc

import (
	"os"
	"slices"
)

// Memory is what a program and all that it has started take.
type Memory struct {
	Bytes uint64 // 0: not known
	Twice bool   // what several of them share is counted for each, since the system does not say more
}

// MemoryOf returns what the program of each pid takes together with its
// descendants and the members of its process group, at one look. It asks the
// system about every process, which takes some milliseconds: for a person who
// looks, not for a timer. On macOS nothing is known.
func MemoryOf(pids ...int32) []Memory {
	all := make([]Memory, len(pids))
	table, _ := All() // of what can't be seen nothing is known
	for i, pid := range pids {
		at := slices.IndexFunc(table, func(p Info) bool { return p.PID == pid && !p.Zombie })
		if at < 0 {
			continue
		}
		leader := table[at]
		all[i].add(pid)
		for _, p := range Kin(table, int32(os.Getpid()), leader.Process, map[int32]uint64{pid: leader.Start}, nil) {
			all[i].add(p.PID)
		}
	}
	return all
}

func (m *Memory) add(pid int32) {
	size, shared := memoryOf(pid)
	m.Bytes += size
	m.Twice = m.Twice || (shared && size > 0)
}
