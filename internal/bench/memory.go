package main

import (
	"fmt"
	"time"
)

// held is the row of what a process holds.
func held(m memory) row {
	return row{Ours: once(m.resident), Share: m.share, Peak: m.peak}
}

// atRest is how long after its work a process has given back what it does not keep.
const atRest = time.Second

// measureMemory looks at the daemon, and at a shim of its own for each kind of work,
// when that is done and a moment has passed. The peak is that of the work.
func measureMemory(h *house, r *report, o options) error {
	daemon := h.daemon.Process.Pid
	// Its start takes more for a moment than it keeps, and is not looked at here.
	forgetPeak(daemon)
	r.add("memory.daemon.idle", held(memoryOf(daemon)))
	large := fmt.Sprintf("size-%d", largeResult)
	for _, work := range []struct {
		name, tool string
		n, flight  int
		daemon     string // what the daemon's memory is called then; empty to leave it out
	}{
		{"memory.shim.1", "read", 1, 1, ""},
		{"memory.shim.10000", "read", 10_000, 32, "memory.daemon.10000"},
		{"memory.shim.5MB", "size-5000000", 1, 1, ""},
		{"memory.shim.8MB", large, 1, 1, ""},
		{"memory.shim.8MBs", large, 20, 1, "memory.daemon.8MBs"},
	} {
		forgetPeak(daemon)
		m, err := h.shimAfter(work.tool, work.n, work.flight)
		if err != nil {
			return fmt.Errorf("%s: %w", work.name, err)
		}
		r.add(work.name, held(m))
		if work.daemon != "" {
			r.add(work.daemon, held(memoryOf(daemon)))
		}
	}
	return nil
}

// shimAfter is the memory of a shim that has made n calls of a tool.
func (h *house) shimAfter(tool string, n, flight int) (memory, error) {
	p, err := startPeer(h.ways()[ours], h.env)
	if err != nil {
		return memory{}, err
	}
	_, err = p.pipeline("tools/call", tool, n, flight)
	time.Sleep(atRest)
	m := memoryOf(p.pid())
	if cerr := p.close(); err == nil {
		err = cerr
	}
	return m, err
}
