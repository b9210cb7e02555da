package serve

import (
	"os"

	"golang.org/x/sys/unix"
)

// random fills b with random bytes of the system.
func random(b []byte) error {
	_, err := unix.Getrandom(b, 0) // up to 256 bytes come whole
	return os.NewSyscallError("getrandom", err)
}
