// Package private protects a process's memory from being read by others: through its core file,
// or by another process of the same user.
package private

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoCore disables core files of this process and of those that it starts later. Where the
// system pipes core dumps to a program, such as systemd-coredump, only [NoReading] prevents
// them.
func NoCore() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	if err == nil {
		limit.Cur = 0
		err = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}
	if err != nil {
		return fmt.Errorf("leave no core file: %w", err)
	}
	return nil
}
