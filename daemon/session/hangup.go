package session

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// A wrap that is killed takes its agent with it, as a terminal does that is
// closed: the agent must not run on, and start servers anew, with a configuration
// that is governed no longer. Where the system can tell a child of its parent's
// death, the agent itself hears of it from there. What it started, and that may
// be all that is left of an agent which was launched by a script, hears it from us.

// hangUpWithin is how long a wrap whose stream tore may take to be seen dead.
const hangUpWithin = 2 * time.Second

// hangUp hangs up on what a killed wrap has left of its agent. A wrap that lives,
// or that has closed its session, is left alone.
func (r *Registry) hangUp(s *Session) {
	for over := time.Now().Add(hangUpWithin); s.Wrap.Alive(); {
		if r.keepsAgent(s) || time.Now().After(over) || !r.pause(look) {
			return
		}
	}
	if r.keepsAgent(s) || s.terminal == noTerminal {
		return
	}
	shims := map[Process]bool{} // which are asked to leave
	r.mu.Lock()
	for _, j := range r.of(s.Spec.ID) {
		shims[j.Peer] = true
	}
	r.mu.Unlock()
	// What has left the terminal was meant to outlast it, and what ignores the signal
	// likewise. Where sessions of processes can't be seen, nothing is hung up on; the
	// agent's servers end all the same, with their shims.
	n := proc.SignalAll(unix.SIGHUP, func(p proc.Info) bool {
		if shims[p.Process] || int(p.Session) != s.terminal {
			return false
		}
		env, err := proc.Environ(p.PID)
		return err == nil && slices.Contains(env, "THOUGHTGATE_SESSION="+s.Spec.ID)
	})
	if n > 0 {
		r.log.Warn("hung up on what a killed wrap left of its agent", "session", s.Spec.ID, "processes", n)
	}
}

// keepsAgent reports whether the agent of a session is not ours to end: its wrap
// has closed it, or is back.
func (r *Registry) keepsAgent(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.sessions[s.Spec.ID]
	return s.closed || now != nil && now.present
}

// noTerminal is the terminal of a wrap of which it is not known.
const noTerminal = -1

// terminalOf returns the session of processes, in the sense of setsid(2), that a
// process belongs to: that of its terminal, if it has one. In a container that may
// be one from outside, which is 0 to all in it. It is noTerminal when the process
// has gone.
func terminalOf(p Process) int {
	sid, err := unix.Getsid(int(p.PID))
	if err != nil || !p.Alive() {
		return noTerminal
	}
	return sid
}
