package nowait

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const read, write = 0, 0

// try is of no use here.
type try struct{}

func newTry(syscall.Conn, uintptr) try { return try{} }
func (*try) usable() bool              { return false }
func (*try) wait([]byte) (int, error)  { return 0, ErrNothing }
func (*try) once([]byte) (int, error)  { return 0, ErrNothing }

// Receive reads from a socket that does not block what is there; ErrNothing when
// nothing is.
func Receive(fd uintptr, b []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), b)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EAGAIN):
			return 0, ErrNothing
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}
