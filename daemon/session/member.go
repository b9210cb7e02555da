package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// member fills in what holds for a shim because of where it belongs. What it
// says of a session is a claim.
//
// A shim that descends from a wrap belongs to that wrap, whatever it names: an agent
// writes the environment and the line of what it starts, and would else choose other
// rules and grants for it, those of a protection of another agent or of none. Any
// other that names a protection is its agent's, and belongs to the run of the agent
// that started it: all shims of one protection with one parent are one session, so
// that what one server said is remembered when another is called. One that names
// nothing that is known belongs to none.
//
// A wrap that outlasts its command has shims that do not descend from it: of an
// instance of the agent that ran before, or that the system has started. Who names
// its session is believed as far as that makes rules hold: agent and project are
// those of the wrap. The session is one of its own, so that nothing granted in that
// of the wrap counts, and its profile is that of the set in force.
//
// lasts is the protection whose line started the shim, empty for another; claims is
// the session of the wrap that it counts for without being of it. r.mu is held.
func (r *Registry) member(h Hello) (shim gate.Shim, lasts, claims string) {
	shim = h.Shim
	agent, protected := "", false
	if r.covers != nil && shim.Session != "" {
		agent, protected = r.covers(shim.Session, shim.Server)
	}
	if protected {
		lasts = shim.Session
	}
	if s := r.above(h.Line); s != nil {
		return s.takes(shim), lasts, ""
	}
	if s := r.sessions[shim.Session]; s != nil && s.Spec.Outlasting {
		shim.Agent, shim.Project, shim.Claimed = s.Spec.Agent, s.Spec.Project, true
		shim.Session = sessionOf("claimed "+s.Spec.ID, h.whole(Process{}))
		return shim, "", s.Spec.ID
	}
	if !protected {
		shim.Session = ""
		return shim, "", ""
	}
	shim.Agent, shim.Session = agent, runUnder(lasts, h.Parent, h.Peer)
	for _, s := range r.sessions { // a wrap that waits for an instance that ran before
		if s.Spec.Outlasting && s.Spec.Agent == agent {
			claims = s.Spec.ID
		}
	}
	return shim, lasts, claims
}

// runUnder names the session of what an agent has started under a protection.
func runUnder(protection string, parent, peer Process) string {
	if parent.PID <= 1 { // its agent has gone, or it was never a child of one
		return sessionOf(protection, peer)
	}
	return sessionOf(protection, parent)
}

// above is the session of the nearest wrap in a line, nil for none. r.mu is held.
func (r *Registry) above(line []Process) *Session {
	for _, p := range line {
		for _, s := range r.sessions {
			if s.Wrap == p {
				return s
			}
		}
	}
	return nil
}

// wrapOf is the wrap's session that a shim is of or counts for, nil for none. r.mu is
// held.
func (r *Registry) wrapOf(j *Joined) *Session {
	if s := r.sessions[j.Shim.Session]; s != nil {
		return s
	}
	return r.sessions[j.Claims]
}

// whole is the process that stands for the agent as a whole where that is an
// application of several processes: the topmost one above the shim, but below a wrap,
// that runs the same program as the shim's parent. Where the parent is not known it
// is the shim itself.
func (h *Hello) whole(wrap Process) Process {
	if h.Parent.PID <= 1 {
		return h.Peer
	}
	top := h.Parent
	if len(h.Programs) != len(h.Line) || len(h.Line) < 2 {
		return top
	}
	for i, p := range h.Line[1:] {
		if p == wrap {
			break
		}
		if isSameApplication(h.Programs[i+1], h.Programs[1]) {
			top = p
		}
	}
	return top
}

// isSameApplication reports whether two programs are one application: the same file,
// or for macOS two of one bundle, whose helpers are programs of their own. Programs
// that can't be seen are none.
func isSameApplication(a, b string) bool {
	bundleA, _, isBundledA := strings.Cut(a, ".app/")
	bundleB, _, isBundledB := strings.Cut(b, ".app/")
	return a != "" && a == b || isBundledA && isBundledB && bundleA == bundleB
}

// agentOf is the process that counts for the agent behind a shim, with all below it:
// the shim's parent, and of an application with windows the application. r.mu is
// held.
func (r *Registry) agentOf(h *Hello, j *Joined) Process {
	s := r.wrapOf(j)
	switch {
	case h.Parent.PID <= 1:
		return h.Parent
	case s != nil && (s.Spec.Outlasting || r.isWindowed(s.Spec.Agent)):
		return h.whole(s.Wrap)
	case r.isWindowed(j.Shim.Agent):
		return h.whole(Process{})
	}
	return h.Parent
}

func (r *Registry) isWindowed(agent string) bool { return r.windowed != nil && r.windowed(agent) }

// serve notes that a shim has come to a wrap, and whom it serves: what has used a
// session's servers counts as its agent as long as the session lasts. r.mu is held.
func (r *Registry) serve(j *Joined) {
	s := r.wrapOf(j)
	if s == nil {
		return
	}
	s.served++
	if j.Whole.PID != 0 && len(s.apps) < maxServers && !slices.Contains(s.apps, j.Whole) {
		s.apps = append(s.apps, j.Whole)
	}
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
		if j.Lasts == "" || r.sessions[j.Shim.Session] != nil {
			continue
		}
		run := runs[j.Shim.Session]
		if run == nil || j.Since.Before(run.Since) {
			n := 0
			if run != nil {
				n = run.Attached
			}
			run = &AgentRun{ID: j.Shim.Session, Protection: j.Lasts, Agent: j.Shim.Agent, Project: j.Shim.Project, PID: j.Parent.PID, Since: j.Since, Attached: n}
			runs[j.Shim.Session] = run
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
