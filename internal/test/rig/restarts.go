package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Restarts reports whether a keeper or systemd restarts the daemon.
func (h *Fixture) Restarts() bool { return h.Keep || h.service != "" }

// DaemonPID returns the process id of the daemon itself, 0 while none runs.
func (h *Fixture) DaemonPID() int {
	if !h.Restarts() {
		if h.Daemon == nil || h.Daemon.HasEnded() {
			return 0
		}
		return h.Daemon.PID()
	}
	for _, pid := range Children(h.Daemon.PID()) {
		if h.DaemonRuns(pid) {
			return pid
		}
	}
	return 0
}

// DaemonRuns reports whether pid, from DaemonPID, is still that of the daemon.
func (h *Fixture) DaemonRuns(pid int) bool {
	if !h.Restarts() {
		return pid == h.DaemonPID()
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	begin, end := strings.Index(string(stat), "("), strings.LastIndex(string(stat), ") ")
	if err != nil || begin < 0 || end < begin {
		return false
	}
	// A keeper has no other children. A unit's process changes its name when it executes the
	// daemon.
	if h.service != "" && string(stat[begin:end]) != "(thoughtgated" {
		return false
	}
	rest := strings.Fields(string(stat[end+1:]))
	// A process that has ended remains a child until its parent waits for it.
	return len(rest) > 1 && rest[0] != "Z" && rest[0] != "X" && rest[1] == strconv.Itoa(h.Daemon.PID())
}
