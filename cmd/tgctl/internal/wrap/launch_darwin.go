package wrap

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// agentAttributes returns the attributes that startAgent starts the agent with. This
// system can't signal a child whose parent was killed: the agent continues, and the
// daemon drains its shims.
func agentAttributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group}
}

// adoptsOrphans reports whether adoptOrphans has an effect.
const adoptsOrphans = false

// adoptOrphans does nothing: on this system launchd adopts orphans, so a process that
// detaches itself from the agent is no longer known to descend from it.
func adoptOrphans() error { return nil }

// ioctlReadTermios is the request that reads the modes of a terminal.
const ioctlReadTermios = unix.TIOCGETA
