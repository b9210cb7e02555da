package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// State is how a program exited: by Signal if that is not zero, otherwise by itself with Code.
type State struct {
	Code   int
	Signal syscall.Signal
}

// StateOf returns the State of a status of wait(2).
func StateOf(status syscall.WaitStatus) State {
	if status.Signaled() {
		return State{Signal: status.Signal()}
	}
	return State{Code: status.ExitStatus()}
}

// ExitStatus returns the exit code that a shell would report: Code, or 128+n for signal n.
func (s State) ExitStatus() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String returns, for example, "exit status 3" or "killed by SIGKILL".
func (s State) String() string {
	if s.Signal == 0 {
		return fmt.Sprintf("exit status %d", s.Code)
	}
	if name := unix.SignalName(s.Signal); name != "" {
		return "killed by " + name
	}
	return fmt.Sprintf("killed by signal %d", int(s.Signal))
}
