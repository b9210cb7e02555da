package rig

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Ends returns the two ends of a pipe, or of a socket pair.
func Ends(tb testing.TB, socket bool) (r, w *os.File) {
	tb.Helper()
	r, w, err := ends(socket, neither)
	if err != nil {
		tb.Fatal(err)
	}
	return r, w
}

const neither = -1 // of the two ends

// ends returns the two ends of a pipe or of a socket pair. The end with index ours stays with
// the test.
func ends(socket bool, ours int) (r, w *os.File, err error) {
	if !socket {
		return os.Pipe()
	}
	syscall.ForkLock.RLock() // macOS can't create close-on-exec sockets
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if ours != neither {
		_ = unix.SetNonblock(fds[ours], true) // so that it supports deadlines
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
