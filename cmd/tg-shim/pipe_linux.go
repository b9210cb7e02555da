package main

import "golang.org/x/sys/unix"

// pipeBuf is how long a line may be, its end included, that a pipe takes whole
// or not at all (POSIX write(2), PIPE_BUF).
const pipeBuf = 4096

// widest is the most that a pipe may hold without privilege, in bytes.
const widest = 1 << 20

// widen makes a pipe hold as much as one may, and returns what it held before; 0
// when it stays as it is.
func widen(fd uintptr) (usual int) {
	usual, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
	if err != nil || usual >= widest {
		return 0
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widest); err != nil {
		return 0
	}
	return usual
}

// narrow makes a pipe hold what it held, unless more is in it.
func narrow(fd uintptr, usual int) bool {
	_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, usual)
	return err == nil
}
