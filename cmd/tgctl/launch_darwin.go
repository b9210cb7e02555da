package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// agentAttributes are how the agent is started: see startAgent. This system
// cannot tell a child that its parent was killed: the agent runs on then, and
// the daemon drains its shims.
func agentAttributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group}
}

// adoptsOrphans says that adoptOrphans does something.
const adoptsOrphans = false

// adoptOrphans does nothing: on this system orphans go to launchd, and a process
// that detaches itself from the agent is not known to descend from it any more.
func adoptOrphans() error { return nil }

// ioctlReadTermios reads the modes of a terminal.
const ioctlReadTermios = unix.TIOCGETA
