package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// State is how a program exited: by itself with Code, or by Signal when that is
// not zero.
type State struct {
	Code   int
	Signal syscall.Signal
}

// StateOf is what wait(2) says.
func StateOf(status syscall.WaitStatus) State {
	if status.Signaled() {
		return State{Signal: status.Signal()}
	}
	return State{Code: status.ExitStatus()}
}

// ExitStatus is the number a shell would report: Code, or 128+n for a program
// that signal n ended.
func (s State) ExitStatus() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String is "exit status 3" or "killed by SIGKILL".
func (s State) String() string {
	if s.Signal == 0 {
		return fmt.Sprintf("exit status %d", s.Code)
	}
	if name := unix.SignalName(s.Signal); name != "" {
		return "killed by " + name
	}
	return fmt.Sprintf("killed by signal %d", int(s.Signal))
}
