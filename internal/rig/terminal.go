package rig

import (
	"os"

	"golang.org/x/sys/unix"
)

// LeaveTerminal gives up the terminal that this process was started on, so that
// the agents and the people which a test plays do not share it: nobody may answer
// from an agent's terminal. It goes on writing there, and ends with ^C as before.
func LeaveTerminal() {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return // there is none
	}
	defer tty.Close()
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCNOTTY, 0) // at worst it is kept, and a test says so
}
