package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// member fills in what holds for a shim because of where it belongs. What it
// says of a session is a claim.
//
// A shim that names a wrap's session belongs to it only if it descends from that
// wrap. One that names a protection is its agent's, and belongs to the wrap that
// its agent was started by, or else to the run of the agent that started it: all
// shims of one protection with one parent are one session, so that what one
// server said is remembered when another is called. One that could name none
// belongs to the nearest wrap that it descends from. Any other belongs to none.
//
// lasts is the protection whose line started the shim, empty for another. r.mu
// is held.
func (r *Registry) member(h Hello) (shim gate.Shim, lasts string) {
	shim = h.Shim
	if s := r.sessions[shim.Session]; s != nil && slices.Contains(h.Line, s.Wrap) {
		return s.takes(shim), ""
	}
	if h.Unclaimed {
		for _, above := range h.Line {
			for _, s := range r.sessions {
				if s.Wrap == above {
					return s.takes(shim), ""
				}
			}
		}
	}
	agent, ok := "", false
	if r.covers != nil && shim.Session != "" {
		agent, ok = r.covers(shim.Session, shim.Server)
	}
	if !ok {
		shim.Session = ""
		return shim, ""
	}
	lasts = shim.Session
	for _, above := range h.Line {
		for _, s := range r.sessions {
			if s.Wrap == above && s.Spec.Agent == agent {
				return s.takes(shim), lasts
			}
		}
	}
	run := h.Parent
	if run.PID <= 1 { // its agent has gone, or it was never a child of one
		run = h.Peer
	}
	shim.Agent, shim.Session = agent, sessionOf(lasts, run)
	return shim, lasts
}

// takes makes a shim one of the session.
func (s *Session) takes(shim gate.Shim) gate.Shim {
	shim.Session, shim.Agent, shim.Project, shim.Limit = s.Spec.ID, s.Spec.Agent, s.Spec.Project, s.Spec.Profile
	return shim
}

// sessionOf names the session of one run of a protected agent. A daemon that was started anew comes
// to the same name.
func sessionOf(protection string, agent Process) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", protection, agent.PID, agent.Start))
	return hex.EncodeToString(sum[:16])
}

// AgentRun is one run of a protected agent: it has shims, and no wrap.
type AgentRun struct {
	ID         string // of the session
	Protection string
	Agent      string // its type
	Project    string // where its first shim was started
	PID        int32
	Since      time.Time // of its first shim that is there still
	Attached   int
}

// AgentRuns returns the runs of protected agents that have a shim, oldest first.
func (r *Registry) AgentRuns() []AgentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := map[string]*AgentRun{}
	for _, j := range r.joined {
		if j.lasts == "" || r.sessions[j.shim.Session] != nil {
			continue
		}
		run := runs[j.shim.Session]
		if run == nil || j.since.Before(run.Since) {
			n := 0
			if run != nil {
				n = run.Attached
			}
			run = &AgentRun{ID: j.shim.Session, Protection: j.lasts, Agent: j.shim.Agent, Project: j.shim.Project, PID: j.parent.PID, Since: j.since, Attached: n}
			runs[j.shim.Session] = run
		}
		run.Attached++
	}
	var all []AgentRun
	for _, run := range runs {
		all = append(all, *run)
	}
	slices.SortFunc(all, func(a, b AgentRun) int { return a.Since.Compare(b.Since) })
	return all
}
