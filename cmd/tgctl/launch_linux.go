package main

import (
	"fmt"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// agentAttributes are how the agent is started: see startAgent.
func agentAttributes(group bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: the agent would not heed it
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}

// adoptsOrphans says that adoptOrphans does something.
const adoptsOrphans = true

// adoptOrphans makes this process the parent of whatever the agent starts and
// leaves behind, so that who descends from the agent stays visible.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}

// ioctlReadTermios reads the modes of a terminal.
const ioctlReadTermios = unix.TCGETS
