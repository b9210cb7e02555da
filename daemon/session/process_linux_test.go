package session

// statOf identifies a living process.
func statOf(pid int) (Process, bool) {
	s, ok := readStat(pid)
	return Process{PID: int32(pid), Start: s.start}, ok
}

// groupLives reports whether the group has a member that is no zombie: whoever
// adopted that may take its time.
func groupLives(leader Process) bool { return signalGroup(leader, 0) > 0 }
