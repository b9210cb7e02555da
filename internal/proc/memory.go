package proc

import (
	"os"
	"slices"
)

// Memory is the memory of a program and of all that it has started.
type Memory struct {
	Bytes uint64 // 0 if unknown
	Twice bool   // shared memory is counted for each process, since the system does not report more
}

// MemoryOf returns the memory of the program with each pid, including its descendants and the
// members of its process group, from one snapshot. It queries every process of the system,
// which takes some milliseconds: it is for interactive use, not for timers. On macOS it is
// unknown.
func MemoryOf(pids ...int32) []Memory {
	all := make([]Memory, len(pids))
	table, _ := All() // nothing is known of what can't be seen
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
