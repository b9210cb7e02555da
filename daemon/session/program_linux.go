package session

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// openProgram opens what a process runs, even if the file was removed since.
func openProgram(p sock.Process) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return nil, err
	}
	if s, ok := readStat(int(p.PID)); !ok || s.start != p.Start {
		_ = f.Close() // nothing was written
		return nil, os.ErrProcessDone
	}
	return f, nil
}

func modified(s *unix.Stat_t) unix.Timespec { return s.Mtim }
func changed(s *unix.Stat_t) unix.Timespec  { return s.Ctim }
