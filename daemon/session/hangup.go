package session

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// A wrap that is killed takes its agent with it, as a closed terminal does: the agent must not run
// on and restart servers with a configuration that is not governed any more. If the system can
// signal a child when its parent dies, the agent gets the signal that way. The agent's descendants,
// which may be all that is left of an agent launched by a script, get it from the daemon.

// hangUpWithin is how long the daemon waits for a wrap to die after its stream broke.
const hangUpWithin = 2 * time.Second

// hangUp sends SIGHUP to what a killed wrap left of its agent. It does nothing if the wrap lives or
// has closed its session.
func (r *Registry) hangUp(s *Session) {
	for over := time.Now().Add(hangUpWithin); s.Wrap.Alive(); {
		if r.keepsAgent(s) || time.Now().After(over) || !r.pause(pollInterval) {
			return
		}
	}
	if r.keepsAgent(s) || s.terminal == noTerminal {
		return
	}
	shims := map[Process]bool{} // these are asked to leave instead
	r.mu.Lock()
	for _, j := range r.of(s.Spec.ID) {
		shims[j.Peer] = true
	}
	r.mu.Unlock()
	// Processes that left the terminal, or ignore the signal, were meant to outlast it. If the
	// sessions of processes can't be seen, no process is signalled; the agent's servers still end
	// with their shims.
	n := proc.SignalAll(unix.SIGHUP, func(p proc.Info) bool {
		if shims[p.Process] || int(p.Session) != s.terminal {
			return false
		}
		env, err := proc.Environ(p.PID)
		return err == nil && slices.Contains(env, "THOUGHTGATE_SESSION="+s.Spec.ID)
	})
	if n > 0 {
		r.log.Warn("sent SIGHUP to processes that a killed wrap left behind", "session", s.Spec.ID, "processes", n)
	}
}

// keepsAgent reports whether the agent of a session must not be ended: its wrap has closed the
// session or is back.
func (r *Registry) keepsAgent(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.sessions[s.Spec.ID]
	return s.closed || now != nil && now.present
}

// noTerminal is the terminal of a wrap whose terminal is not known.
const noTerminal = -1

// terminalOf returns the setsid(2) session of a process: that of its terminal, if it has one. In a
// container the session may be from outside, which every process in it sees as 0. The result is
// noTerminal if the process has exited.
func terminalOf(p Process) int {
	sid, err := unix.Getsid(int(p.PID))
	if err != nil || !p.Alive() {
		return noTerminal
	}
	return sid
}
