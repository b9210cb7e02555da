package child

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// On macOS there is neither a subreaper nor a pidfd, so the promise of Stop is
// weaker there in two ways.
//
//   - A process that forked twice, left the group and lost its parent belongs
//     to launchd. It is found only if the child was started with a Mark and the
//     system lets us read its environment, which it doesn't for programs of
//     Apple's.
//   - A process is signalled by its number, which could change hands between the look
//     at its start and the signal.

// sysProcAttr is the same for all children. That one is told of our death macOS can't do.
var sysProcAttr = &syscall.SysProcAttr{Setpgid: true}

// blockUntilExit returns when the leader has exited, and leaves its entry. The
// waitid of macOS also returns for a child that was only stopped, hence the
// queue; where that can't be had, the process table is looked at.
func (c *Child) blockUntilExit() {
	if c.awaitEvent() {
		return
	}
	for c.leader.Alive() {
		time.Sleep(lastLook)
	}
}

// awaitEvent returns false when exits can't be watched.
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
			return true // it has exited, perhaps before we asked
		case err != unix.EINTR:
			return false
		}
	}
}

// exitedLocked waits for the leader, which has exited. Its number is free from
// then on: what is left of the group is signalled one by one.
func (c *Child) exitedLocked() (State, bool) {
	state, err := c.process.Wait()
	if err != nil {
		return State{Code: ExitOurs}, true
	}
	return StateOf(state.Sys().(syscall.WaitStatus)), true
}

// AdoptOrphans fails: macOS gives orphans to launchd. stop does nothing.
func AdoptOrphans() (stop func(), err error) {
	return func() {}, fmt.Errorf("become the parent of orphans: %w on macOS", errors.ErrUnsupported)
}

func reapOrphans() bool { return false }

// held is not asked where orphans don't come to us.
func held(int32) bool { return true }
