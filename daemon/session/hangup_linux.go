package session

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// hangUpMarked sends SIGHUP to every process of a terminal whose environment
// carries the mark of a wrap, but for some, and returns how many there were. What
// has left the terminal was meant to outlast it, and what ignores the signal
// likewise.
func hangUpMarked(id string, terminal int, but map[int]bool) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || but[pid] {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0) // before it is looked at: no stranger is hit
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err == nil && sid == terminal {
			env, err := sock.Environ(int32(pid))
			if err == nil && slices.Contains(env, "THOUGHTGATE_SESSION="+id) && unix.PidfdSendSignal(fd, unix.SIGHUP, nil, 0) == nil {
				n++
			}
		}
		unix.Close(fd)
	}
	return n
}
