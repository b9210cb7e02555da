package daemon

import (
	"syscall"
	"time"
)

// changed is when anything about a file changed last. Unlike the time at which
// it was modified it can't be set.
func changed(s *syscall.Stat_t) time.Time { return time.Unix(s.Ctim.Unix()) }
