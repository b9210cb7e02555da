package session

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// openProgram opens the file that the process was started from. There is no
// other way to what it runs here, so that a file which has taken its name since
// is taken for it.
func openProgram(p sock.Process) (*os.File, error) { return os.Open(p.Exe) }

func modified(s *unix.Stat_t) unix.Timespec { return s.Mtim }
func changed(s *unix.Stat_t) unix.Timespec  { return s.Ctim }
