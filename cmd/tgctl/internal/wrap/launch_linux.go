package wrap

import (
	"fmt"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// agentAttributes returns the attributes that startAgent starts the agent with.
func agentAttributes(group bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: the agent would ignore it, too
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}

// adoptsOrphans reports whether adoptOrphans has an effect.
const adoptsOrphans = true

// adoptOrphans makes this process the parent of all orphans of the agent, so that they
// are still known to descend from it.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}

// ioctlReadTermios is the request that reads the modes of a terminal.
const ioctlReadTermios = unix.TCGETS
