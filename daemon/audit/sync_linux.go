package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync brings the content of f to stable storage.
func datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = conn.Control(func(fd uintptr) {
		for {
			failure = unix.Fdatasync(int(fd))
			if failure != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failure)
}
