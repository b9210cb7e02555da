package pipe

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Staging is a pipe that nobody reads but the system, which moves what is in it on.
type Staging struct {
	f    *os.File // both of its ends
	most int      // bytes that it takes whole when it is empty
}

// NewStaging makes a staging pipe.
func NewStaging() (*Staging, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	// One descriptor with both ends: the service manager keeps few for each session.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", ends[0]), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a staging pipe through /proc: %w", err)
	}
	return TakeStaging(os.NewFile(uintptr(fd), "staging pipe"))
}

// TakeStaging takes over the staging pipe that an earlier daemon has made. The file
// is the pipe's from here on, also when that fails.
func TakeStaging(f *os.File) (*Staging, error) {
	size, err := unix.FcntlInt(f.Fd(), unix.F_GETPIPE_SZ, 0)
	if err == nil {
		var flags int
		if flags, err = unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE != unix.O_RDWR {
			err = errors.New("it can't be both read and written")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take over a staging pipe: %w", err), f.Close())
	}
	return &Staging{f, size}, nil
}

// File is what the pipe is, nil where there is none. It is the pipe's.
func (s *Staging) File() *os.File {
	if s == nil {
		return nil
	}
	return s.f
}

// Close closes the pipe.
func (s *Staging) Close() error { return s.f.Close() }

func (s *Staging) fd() int { return int(s.f.Fd()) }

// left is how many bytes are in it.
func (s *Staging) left() (int, error) {
	n, err := unix.IoctlGetInt(s.fd(), unix.TIOCINQ)
	return n, os.NewSyscallError("ioctl FIONREAD", err)
}

// take takes the n bytes out that are in it.
func (s *Staging) take(n int) ([]byte, error) {
	buf, at := make([]byte, n), 0
	for at < n {
		read, err := unix.Read(s.fd(), buf[at:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, os.NewSyscallError("read", err)
		}
		at += max(read, 0)
	}
	return buf, nil
}

// fill puts all of parts in, which it has room for since it is empty.
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
		err = fmt.Errorf("it took %d bytes of %d", n, size)
	}
	if err != nil {
		return fmt.Errorf("write to the staging pipe: %w", err)
	}
	return nil
}

// moveTo moves what is in it on to fd, until it is empty. How much went on is asked
// of the pipe each time: what a socket took isn't what splice says.
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
		if n == 0 { // there is something in it: the other side takes nothing
			return os.NewSyscallError("splice", unix.EPIPE)
		}
	}
}
