package keep

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openProgram returns nil: macOS starts no open file. The path of the program is what
// the keeper goes by.
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
