package private

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited closes what this process has from whoever started it beside its
// standard streams, as children of a shell have that keeps pipes open: as long as this
// process had it, nobody would learn of its end. What a Go program has opened itself is
// closed on exec, and so is told from that.
func CloseInherited() error {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("close what was inherited: %w", err)
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= unix.Stderr {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // it was not ours
		}
	}
	return nil
}
