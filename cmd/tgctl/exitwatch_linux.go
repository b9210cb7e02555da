package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exitWatch knows when a process that is not our child has ended. It holds on
// to the process itself: another one with the same number is not taken for it.
type exitWatch struct {
	pidfd int // -1 when it had gone already
}

// watchExit begins to watch process pid.
func watchExit(pid int) (*exitWatch, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return &exitWatch{pidfd: -1}, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &exitWatch{pidfd: fd}, nil
}

// Wait returns when the process has ended, or with the error of ctx.
func (w *exitWatch) Wait(ctx context.Context) error {
	for w.pidfd >= 0 {
		fds := []unix.PollFd{{Fd: int32(w.pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(exitLook/time.Millisecond))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		}
	}
	return nil
}

// exitLook is how long one wait lasts before the context is looked at again.
const exitLook = 100 * time.Millisecond

// Close lets go of the process.
func (w *exitWatch) Close() error {
	if w.pidfd < 0 {
		return nil
	}
	return unix.Close(w.pidfd)
}
