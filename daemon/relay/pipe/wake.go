package pipe

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Waker ends waits on descriptors, current and future ones. Its methods are safe for
// concurrent use, but Close may only be called when nothing waits.
type Waker struct{ ends [2]int }

// NewWaker returns a waker, which the caller must close.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	if err := pipeCloseOnExec(&w.ends); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	return w, nil
}

// Wake ends the waits with [ErrWoken].
func (w *Waker) Wake() {
	_, _ = unix.Write(w.ends[1], []byte{0}) // a full pipe has been woken already
}

// Close closes the waker's descriptors.
func (w *Waker) Close() error {
	return errors.Join(unix.Close(w.ends[0]), unix.Close(w.ends[1]))
}

// Wait waits until fd is ready for one of events, or has an error.
func (w *Waker) Wait(fd int, events int16) error {
	fds := [2]unix.PollFd{{Fd: int32(w.ends[0]), Events: unix.POLLIN}, {Fd: int32(fd), Events: events}}
	return poll(fds[:])
}

// Watch is Wait for several descriptors, and sets their Revents. It ignores negative
// descriptors.
func (w *Waker) Watch(fds []unix.PollFd) error {
	all := append([]unix.PollFd{{Fd: int32(w.ends[0]), Events: unix.POLLIN}}, fds...)
	err := poll(all)
	copy(fds, all[1:])
	return err
}

// poll waits for one of fds, of which the first belongs to a waker.
func poll(fds []unix.PollFd) error {
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("poll", err)
		case fds[0].Revents != 0:
			return ErrWoken
		}
		return nil
	}
}

// Ready reports whether fd has bytes to read, or has ended.
func Ready(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}

// ErrNothing reports that there was nothing to read after all.
var ErrNothing = errors.New("another reader was faster")

// Read reads from fd after [Waker.Wait] has reported that it is readable. At the end of the
// input it returns 0 and no error.
func Read(fd int, buf []byte) (int, error) {
	n, err := unix.Read(fd, buf)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return 0, ErrNothing
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EIO): // a socket or a terminal whose other end has gone
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	}
	return n, nil
}
