package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exitWatch knows when a process that is not our child has ended.
type exitWatch struct {
	queue int // -1 when it had gone already
}

// watchExit begins to watch process pid.
func watchExit(pid int) (*exitWatch, error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, os.NewSyscallError("kqueue", err)
	}
	var change unix.Kevent_t
	unix.SetKevent(&change, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change.Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(queue, []unix.Kevent_t{change}, nil, nil); err != nil {
		unix.Close(queue)
		if errors.Is(err, unix.ESRCH) {
			return &exitWatch{queue: -1}, nil
		}
		return nil, os.NewSyscallError("kevent", err)
	}
	return &exitWatch{queue: queue}, nil
}

// Wait returns when the process has ended, or with the error of ctx.
func (w *exitWatch) Wait(ctx context.Context) error {
	events := make([]unix.Kevent_t, 1)
	for w.queue >= 0 {
		look := unix.NsecToTimespec(100e6) // then the context is looked at again
		n, err := unix.Kevent(w.queue, nil, events, &look)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("kevent", err)
		}
	}
	return nil
}

// Close lets go of the process.
func (w *exitWatch) Close() error {
	if w.queue < 0 {
		return nil
	}
	return unix.Close(w.queue)
}
