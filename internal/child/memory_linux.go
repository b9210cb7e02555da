package child

import (
	"bytes"
	"os"
	"slices"
	"strconv"
)

// MemoryOf returns what the program of each pid takes together with its
// descendants and the members of its process group, at one look. It asks the
// system about every process, which takes some milliseconds: for a person who
// looks, not for a timer. On macOS nothing is known.
func MemoryOf(pids ...int) []Memory {
	all := make([]Memory, len(pids))
	table := allProcesses()
	for i, pid := range pids {
		at := slices.IndexFunc(table, func(p proc) bool { return p.pid == pid && !p.zombie })
		if at < 0 {
			continue
		}
		leader := table[at]
		known := map[int]uint64{leader.pid: leader.start}
		all[i].add(pid)
		for _, p := range kin(table, os.Getpid(), leader, known, func(proc) bool { return false }) {
			all[i].add(p.pid)
		}
	}
	return all
}

func (m *Memory) add(pid int) {
	size, shared := memoryOf(pid)
	m.Bytes += size
	m.Twice = m.Twice || (shared && size > 0)
}

// memoryOf returns the bytes of one process: its fair share of what it has in
// memory, or where that may not be seen all of it, and reports which. A process
// that has ended has none.
func memoryOf(pid int) (size uint64, shared bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	if b, err := os.ReadFile(dir + "/smaps_rollup"); err == nil {
		if size, ok := parsePSS(b); ok {
			return size, false
		}
	}
	b, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return 0, false
	}
	return parseRSS(b) * uint64(os.Getpagesize()), true
}

// parsePSS finds the line "Pss: 1234 kB".
func parsePSS(b []byte) (uint64, bool) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == "Pss:" {
			n, err := strconv.ParseUint(string(f[1]), 10, 54)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// parseRSS returns the second number of statm, in pages.
func parseRSS(b []byte) uint64 {
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(string(f[1]), 10, 48) // what is no number is no memory
	return n
}
