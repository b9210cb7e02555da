package private

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoReading prevents other processes of the same user from tracing this one and from reading
// its memory, its environment and its open files; root still can. From then on root owns its
// folder in /proc, so that others can't identify the process there, and the process itself
// can't read all of it. Processes that it starts are not affected.
func NoReading() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep others from reading this process: %w", err)
	}
	return nil
}
