package keep

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openProgram returns nil: macOS can't start an open file. The keeper uses the program's path.
func openProgram(path string) (*os.File, error) {
	_, err := os.Stat(path)
	return nil, err
}

func procPath(int) string { return "" }

func socketPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	return fds, err
}
