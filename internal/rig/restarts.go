package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Restarts reports whether somebody else than the test starts the daemon again.
func (h *House) Restarts() bool { return h.Keep || h.service != "" }

// DaemonPID is the process id of the daemon itself, 0 while none runs.
func (h *House) DaemonPID() int {
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

// DaemonRuns reports whether pid, which DaemonPID has returned, is still the daemon's.
func (h *House) DaemonRuns(pid int) bool {
	if !h.Restarts() {
		return pid == h.DaemonPID()
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	begin, end := strings.Index(string(stat), "("), strings.LastIndex(string(stat), ") ")
	if err != nil || begin < 0 || end < begin {
		return false
	}
	// A keeper has no other children, and its daemon changes its name as it begins.
	if h.service != "" && string(stat[begin:end]) != "(thoughtgated" {
		return false
	}
	rest := strings.Fields(string(stat[end+1:]))
	// What has ended is a child until who started it has seen that.
	return len(rest) > 1 && rest[0] != "Z" && rest[0] != "X" && rest[1] == strconv.Itoa(h.Daemon.PID())
}
