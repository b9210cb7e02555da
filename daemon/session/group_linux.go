package session

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// termGrace is how long a process may take to end after SIGTERM.
const termGrace = 2 * time.Second

// endGroup ends the process group that leader led, whether or not the leader
// lives. Members are signalled through a pidfd that was opened before they were
// looked at, so that no stranger is hit that was given an old number.
func endGroup(ctx context.Context, leader Process, log *slog.Logger) {
	if leader.PID == 0 {
		return
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		over := time.Now().Add(termGrace)
		n := signalGroup(leader, sig)
		if n == 0 {
			return
		}
		log.Warn("ending what a shim left behind", "group", leader.PID, "signal", unix.SignalName(sig), "processes", n)
		for time.Now().Before(over) && ctx.Err() == nil {
			if signalGroup(leader, 0) == 0 {
				return
			}
			time.Sleep(look)
		}
	}
}

// signalGroup signals the living members of the group and returns how many
// there are. Members are younger than the leader; a group of the same number
// with an older member is another one.
func signalGroup(leader Process, sig unix.Signal) int {
	// Most groups have gone with their leaders, and then nobody else is looked at.
	if unix.Kill(-int(leader.PID), 0) == unix.ESRCH {
		return 0
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if group, err := unix.Getpgid(pid); err != nil || group != int(leader.PID) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok && s.group == int(leader.PID) && s.start >= leader.Start && s.state != 'Z' {
			if unix.PidfdSendSignal(fd, sig, nil, 0) == nil {
				n++
			}
		}
		unix.Close(fd)
	}
	return n
}

type stat struct {
	state byte
	group int
	start uint64

	threads int
}

// readStat reads what is needed of /proc/PID/stat. The name in it may hold
// anything, so the fields are counted from its last closing parenthesis.
func readStat(pid int) (stat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	threads, err3 := strconv.Atoi(string(fields[17]))
	return stat{fields[0][0], group, start, threads}, err1 == nil && err2 == nil && err3 == nil
}

// Alive reports whether p runs still. Its first thread may have ended before the
// others, which have its files and locks.
func Alive(p Process) bool {
	s, ok := readStat(int(p.PID))
	return ok && s.start == p.Start && (s.state != 'Z' || s.threads > 1)
}
