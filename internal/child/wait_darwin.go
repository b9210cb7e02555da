package child

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// macOS has neither a subreaper nor pidfds, so the guarantee of Stop is weaker there in two
// ways.
//
//   - A process that forked twice, left the group and lost its parent belongs to launchd. It
//     is found only if the child was started with a Mark and the system permits reading its
//     environment, which it does not for Apple's programs.
//   - A process is signalled by its pid, which could be reused between the check of its start
//     and the signal.

// sysProcAttr is the same for all children. macOS has no death signal.
var sysProcAttr = &syscall.SysProcAttr{Setpgid: true}

// blockUntilExit returns when the leader has exited, and leaves its entry. The waitid of macOS
// also returns for a child that was only stopped, hence the kqueue; if that is not available,
// the process table is polled.
func (c *Child) blockUntilExit() {
	if c.awaitEvent() {
		return
	}
	for c.leader.Alive() {
		time.Sleep(lastLook)
	}
}

// awaitEvent returns false if the exit can't be watched.
func (c *Child) awaitEvent() bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var watch unix.Kevent_t
	unix.SetKevent(&watch, c.process.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch.Fflags = unix.NOTE_EXIT
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, []unix.Kevent_t{watch}, events, nil)
		switch {
		case n > 0 && events[0].Flags&unix.EV_ERROR != 0:
			return syscall.Errno(events[0].Data) == unix.ESRCH
		case n > 0, err == unix.ESRCH:
			return true // it has exited, perhaps before the registration
		case err != unix.EINTR:
			return false
		}
	}
}

// exitedLocked waits for the leader, which has exited. Its pid can be reused from then on, so
// the rest of the group is signalled one by one.
func (c *Child) exitedLocked() (State, bool) {
	state, err := c.process.Wait()
	if err != nil {
		return State{Code: ExitInternal}, true
	}
	return StateOf(state.Sys().(syscall.WaitStatus)), true
}

// AdoptOrphans returns an error: macOS gives orphans to launchd. stop does nothing.
func AdoptOrphans() (stop func(), err error) {
	return func() {}, fmt.Errorf("become a child subreaper: %w on macOS", errors.ErrUnsupported)
}

func reapOrphans() bool { return false }

// held is not called on macOS.
func held(int32) bool { return true }
