package keep

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openProgram opens a program, so that the keeper starts the same file as long as it runs.
func openProgram(path string) (*os.File, error) { return os.Open(path) }

// procPath returns the path of a descriptor within its own process.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func socketPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
}
