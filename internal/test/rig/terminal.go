package rig

import (
	"os"

	"golang.org/x/sys/unix"
)

// LeaveTerminal detaches this process from its controlling terminal, so that agents and people
// in a test do not share it: nobody may answer from an agent's terminal. The process can still
// write there and still ends with ^C.
func LeaveTerminal() {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return // there is none
	}
	defer tty.Close()
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCNOTTY, 0) // if it fails, a test reports it
}
