package pipe

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// Staging is a pipe from which only the system reads, to move its content to another
// descriptor.
type Staging struct {
	f    *os.File // both ends
	most int      // bytes that an empty pipe takes at once
}

// NewStaging creates a staging pipe.
func NewStaging() (*Staging, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	// One descriptor for both ends: systemd keeps few for each session.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", ends[0]), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a staging pipe through /proc: %w", err)
	}
	return TakeStaging(os.NewFile(uintptr(fd), "staging pipe"))
}

// TakeStaging takes over a staging pipe of a previous daemon. It takes ownership of the file,
// even on failure.
func TakeStaging(f *os.File) (*Staging, error) {
	size, err := unix.FcntlInt(f.Fd(), unix.F_GETPIPE_SZ, 0)
	if err == nil {
		var flags int
		if flags, err = unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE != unix.O_RDWR {
			err = errors.New("it is not open for both reading and writing")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take over a staging pipe: %w", err), f.Close())
	}
	return &Staging{f, size}, nil
}

// File returns the pipe's file, which the pipe still owns, or nil if there is no pipe.
func (s *Staging) File() *os.File {
	if s == nil {
		return nil
	}
	return s.f
}

// Close closes the pipe.
func (s *Staging) Close() error { return s.f.Close() }

func (s *Staging) fd() int { return int(s.f.Fd()) }

// left returns the number of bytes in the pipe.
func (s *Staging) left() (int, error) {
	n, err := unix.IoctlGetInt(s.fd(), unix.TIOCINQ)
	return n, os.NewSyscallError("ioctl FIONREAD", err)
}

// take reads the n bytes in the pipe.
func (s *Staging) take(n int) ([]byte, error) {
	buf, at := presentMemory(n), 0
	for at < n {
		read, err := unix.Read(s.fd(), buf[at:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, os.NewSyscallError("read", err)
		}
		at += max(read, 0)
	}
	return buf, nil
}

// presentMemory returns n zero bytes for one read, see [mapping.Touch]. If that stopped in the
// middle, the next daemon would take what remains in the pipe for its first bytes.
func presentMemory(n int) []byte {
	buf := make([]byte, n)
	mapping.Touch(buf)
	return buf
}

// fill writes all of parts to the pipe, which must be empty and so has room for them.
func (s *Staging) fill(parts [][]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	var n int
	var err error
	for ok := true; ok; ok = errors.Is(err, unix.EINTR) {
		if len(parts) == 1 {
			n, err = unix.Write(s.fd(), parts[0])
		} else {
			n, err = unix.Writev(s.fd(), parts)
		}
	}
	if err == nil && n != size {
		err = fmt.Errorf("wrote %d of %d bytes", n, size)
	}
	if err != nil {
		return fmt.Errorf("write to the staging pipe: %w", err)
	}
	return nil
}

// moveTo moves the content of the pipe to fd until the pipe is empty. It checks the remaining
// content each time: splice does not return how much a socket took.
func (s *Staging) moveTo(fd int, wake *Waker) error {
	for {
		n, err := unix.Splice(s.fd(), nil, fd, nil, s.most, unix.SPLICE_F_NONBLOCK)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if err := wake.Wait(fd, unix.POLLOUT); err != nil {
				return err
			}
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("splice", err)
		}
		left, err := s.left()
		if err != nil || left == 0 {
			return err
		}
		if n == 0 { // the pipe is not empty: the other side takes nothing more
			return os.NewSyscallError("splice", unix.EPIPE)
		}
	}
}
