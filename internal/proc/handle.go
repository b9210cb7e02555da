package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Handle refers to one process reliably, even after its pid is reused. It holds a pidfd; where
// the system has none, it compares the pid and start of the process before each use. Its
// methods are safe for concurrent use. A nil Handle stands for a process that has ended.
type Handle struct {
	Process
	pidfd *os.File // nil where the system has none
}

// Open returns a handle of p. A Start of 0 matches any. The error wraps [os.ErrProcessDone] if
// p has ended.
func Open(p Process) (*Handle, error) {
	fd, err := openPidfd(p.PID)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	return newHandle(p, fd)
}

// HandleOf returns a handle of the process with a pidfd from the kernel. The handle owns pidfd.
// If pidfd is negative, the process is opened by pid.
func HandleOf(pid int32, pidfd int) (*Handle, error) {
	if pidfd < 0 {
		return Open(Process{PID: pid})
	}
	return newHandle(Process{PID: pid}, pidfd)
}

func newHandle(p Process, pidfd int) (*Handle, error) {
	h := &Handle{Process: p}
	if pidfd >= 0 {
		_ = unix.SetNonblock(pidfd, true) // the runtime waits for a nonblocking descriptor without a thread
		h.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	is, err := Read(p.PID)
	h.Start = is.Start
	// The pid may belong to another process by now.
	if err == nil && (p.Start != 0 && is.Start != p.Start || !h.Alive()) {
		err = os.ErrProcessDone
	}
	if err != nil {
		_ = h.Close() // nothing was written
		return nil, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	return h, nil
}

// File returns the pidfd, which becomes readable when the process has ended; nil where the
// system has none. The handle owns it.
func (h *Handle) File() *os.File {
	if h == nil {
		return nil
	}
	return h.pidfd
}

// control calls f with the pidfd and reports whether there is one.
func (h *Handle) control(f func(fd int)) bool {
	if h.pidfd == nil {
		return false
	}
	raw, err := h.pidfd.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(int(fd)) }) == nil
}

// Alive reports whether the process still runs; a zombie does not. After Close it relies on pid
// and start.
func (h *Handle) Alive() bool {
	if h == nil {
		return false
	}
	ended := false
	if h.control(func(fd int) { ended = readable(fd) }) {
		return !ended
	}
	return h.Process.Alive()
}

// readable reports whether fd is readable without blocking. It returns true if that can't be
// determined.
func readable(fd int) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, 0)
		if err != unix.EINTR {
			return err != nil || n > 0
		}
	}
}

// Signal sends a signal. The error is ESRCH if the process has ended, and after Close.
func (h *Handle) Signal(sig syscall.Signal) error {
	err := error(unix.ESRCH)
	switch {
	case h.File() != nil:
		h.control(func(fd int) { err = signalPidfd(fd, sig) })
	case h != nil && h.Process.Alive():
		err = unix.Kill(int(h.PID), sig)
	}
	return err
}

const (
	// firstPoll and lastPoll are the shortest and longest polling interval for a process
	// without a pidfd.
	firstPoll, lastPoll = 2 * time.Millisecond, time.Second
)

// Wait waits until the process has ended, or returns the error of ctx. The end of ctx ends all
// waits on this handle.
func (h *Handle) Wait(ctx context.Context) error {
	if h.File() != nil {
		defer context.AfterFunc(ctx, func() { _ = h.pidfd.SetReadDeadline(time.Unix(1, 0)) })()
		raw, err := h.pidfd.SyscallConn()
		if err == nil {
			err = raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	for pause := firstPoll; h.Alive(); pause = min(2*pause, lastPoll) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close releases the process. It may be called more than once.
func (h *Handle) Close() error {
	if h.File() == nil {
		return nil
	}
	if err := h.pidfd.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
