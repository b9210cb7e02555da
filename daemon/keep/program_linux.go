package keep

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openProgram opens a program, so that it is the same for as long as the keeper lives.
func openProgram(path string) (*os.File, error) { return os.Open(path) }

// procPath is what a process calls a descriptor of its own.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func socketPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
}
