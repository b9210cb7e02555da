package private

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoReading keeps other processes of the same user from tracing this one and from
// reading its memory, its environment and what it has open; for root nothing
// changes. Its folder in /proc belongs to root from then on, so that who it is
// can't be told there either, and some of it not even by itself. It does not
// reach what the process starts.
func NoReading() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep others from reading this process: %w", err)
	}
	return nil
}
