// Package private keeps what a process holds in memory from being read by others:
// by whoever finds its core file, or by another process of the same user.
package private

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoCore makes a crash leave no core file. What the process starts from then on
// inherits that. A core file that the system hands to a program instead, as
// systemd-coredump, is kept away by [NoReading] alone.
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
