package private

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited closes all descriptors that this process has inherited, except its standard
// streams. A shell's child, for example, may inherit pipes, and nobody would see their end as
// long as this process holds them. Inherited descriptors differ from those that Go opens in
// that they are not close-on-exec.
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
			_ = unix.Close(fd) // it does not belong to this process
		}
	}
	return nil
}
