package nowait

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errFailed = errors.New("a call that does not wait has failed")

// try makes calls that do not wait on one descriptor.
type try struct {
	raw syscall.RawConn // nil when such calls can't be made

	// Of the call under way; here so that it allocates nothing.
	make  func(fd uintptr) bool
	piece unix.Iovec
	n     int
	errno syscall.Errno
}

func newTry(c syscall.Conn) try {
	raw, err := c.SyscallConn()
	if err != nil {
		return try{}
	}
	return try{raw: raw}
}

func (t *try) usable() bool { return t.raw != nil }

// wait reads into b, once there is something.
func (t *try) wait(b []byte) (int, error) {
	if t.make == nil {
		t.make = t.one
	}
	t.n, t.errno = 0, 0
	t.piece.Base = unsafe.SliceData(b)
	t.piece.SetLen(len(b))
	defer takeOver()
	return t.end(t.raw.Read(t.make))
}

func (t *try) end(err error) (int, error) {
	t.piece.Base = nil
	switch {
	case err != nil:
		return 0, err
	case t.errno == unix.EOPNOTSUPP || t.errno == unix.ENOSYS || t.errno == unix.EPERM || t.errno == unix.EINVAL:
		t.raw = nil // not in this kernel, or not for such a file
		return 0, errFailed
	case t.errno != 0:
		return 0, errFailed
	}
	return t.n, nil
}

// one makes the call, and reports whether it need not be waited for.
func (t *try) one(fd uintptr) bool {
	const here = ^uintptr(0) // no place in a file: where it stands
	for {
		// With RWF_NOWAIT it does not wait, so that the scheduler need not be told.
		n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&t.piece)), 1, here, here, unix.RWF_NOWAIT)
		t.n, t.errno = int(n), errno
		if errno != unix.EINTR {
			break
		}
	}
	if t.errno != 0 {
		t.n = 0
	}
	return t.errno != unix.EAGAIN
}
