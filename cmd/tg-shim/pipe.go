package main

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/nowait"
)

// onePiece returns a function that writes to a pipe in one piece, nil for what
// is no pipe that can be written to without waiting.
func onePiece(pipe syscall.Conn, now *nowait.Writer) func([]byte) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil
	}
	blocks := true
	err = raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		blocks = err != nil || flags&unix.O_NONBLOCK == 0
	})
	if err != nil || blocks {
		return nil
	}
	return func(b []byte) bool {
		if now.Try(b) == len(b) {
			return true
		}
		written := false
		err := raw.Write(func(fd uintptr) bool {
			n, err := unix.Write(int(fd), b)
			written = err == nil && n == len(b)
			return true // whether or not: do not wait
		})
		return err == nil && written
	}
}
