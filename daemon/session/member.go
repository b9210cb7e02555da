package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// member returns the shim with the fields that depend on where it belongs. The session that the
// shim names is a claim.
//
// A shim that descends from a wrap belongs to that wrap, whatever it names: an agent controls the
// environment and the command line of what it starts, and could otherwise choose other rules and
// grants, those of another agent's protection or of none. Any other shim that names a protection
// belongs to the protected agent, and to the run of the process that started it. All shims of one
// protection with one parent form one session, so that what one server said is remembered when
// another is called. A shim that names nothing known belongs to no session.
//
// A wrap that outlasts its command has shims that do not descend from it: those of an agent
// instance that ran before, or that the system started. A shim that names such a session is trusted
// only so far as that makes rules apply: it gets the agent and project of the wrap. It gets a
// session of its own, so that no grant of the wrap's session counts, and the profile of the set in
// force.
//
// lasts is the protection whose command line started the shim; empty for other shims. claims is the
// wrap's session that the shim counts for without descending from the wrap. r.mu must be held.
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
		return s.inSession(shim), lasts, ""
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

// runUnder returns the session id for the shims that one agent started under a protection.
func runUnder(protection string, parent, peer Process) string {
	if parent.PID <= 1 { // the agent has exited, or the shim was never a child of one
		return sessionOf(protection, peer)
	}
	return sessionOf(protection, parent)
}

// above returns the session of the nearest wrap in line, or nil. r.mu must be held.
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

// wrapOf returns the wrap's session that a shim belongs to or counts for, or nil. r.mu must be
// held.
func (r *Registry) wrapOf(j *Joined) *Session {
	if s := r.sessions[j.Shim.Session]; s != nil {
		return s
	}
	return r.sessions[j.Claims]
}

// whole returns the process that stands for the whole agent if that is an application of several
// processes: the topmost process above the shim, but below a wrap, that runs the same program as
// the shim's parent. If the parent is not known, it returns the shim itself.
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

// isSameApplication reports whether two programs belong to one application: they are the same file,
// or on macOS are in the same bundle, whose helpers are separate programs. Programs that can't be
// seen never match.
func isSameApplication(a, b string) bool {
	bundleA, _, isBundledA := strings.Cut(a, ".app/")
	bundleB, _, isBundledB := strings.Cut(b, ".app/")
	return a != "" && a == b || isBundledA && isBundledB && bundleA == bundleB
}

// agentOf returns the process that counts, with all its descendants, as the agent behind a shim:
// the shim's parent, or the whole application if the agent is a windowed one. r.mu must be held.
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

// registerAgentOf counts a new shim of a wrap and registers the agent behind it: a process that has used a
// session's servers counts as its agent as long as the session lasts. r.mu must be held.
func (r *Registry) registerAgentOf(j *Joined) {
	s := r.wrapOf(j)
	if s == nil {
		return
	}
	s.served++
	s.hooked = s.hooked || j.isHook()
	if j.Whole.PID != 0 && len(s.apps) < maxServers && !slices.Contains(s.apps, j.Whole) {
		s.apps = append(s.apps, j.Whole)
	}
}

// inSession returns shim as a shim of the session.
func (s *Session) inSession(shim gate.Shim) gate.Shim {
	shim.Session, shim.Agent, shim.Project, shim.Limit = s.Spec.ID, s.Spec.Agent, s.Spec.Project, s.Spec.Profile
	return shim
}

// sessionOf returns the session id for one run of a protected agent. It is the same after a restart
// of the daemon.
func sessionOf(protection string, agent Process) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", protection, agent.PID, agent.Start))
	return hex.EncodeToString(sum[:16])
}

// AgentRun is one run of a protected agent: it has shims and no wrap.
type AgentRun struct {
	ID         string // of the session
	Protection string
	Agent      string // its type
	Project    string // where its first shim was started
	PID        int32
	Since      time.Time // when the oldest shim that is still attached came
	Attached   int
	Silent     bool // the protection has hooks, and none has been run yet
}

// isHook reports whether j stands for the hooks of an agent.
func (j *Joined) isHook() bool { return j.Shim.Host && j.Shim.Server == agenthook.Server }

// silent reports whether an agent that has run none of its hooks should have, as far as is known: a
// previous daemon may have seen one.
func (r *Registry) silent(since time.Time) bool { return since.After(r.began) }

// AgentRuns returns the runs of protected agents that have a shim, oldest first.
func (r *Registry) AgentRuns() []AgentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs, hooked := map[string]*AgentRun{}, map[string]bool{}
	for _, j := range r.joined {
		if j.Lasts == "" || r.sessions[j.Shim.Session] != nil {
			continue
		}
		run := runs[j.Shim.Session]
		if run == nil || j.Since.Before(run.Since) {
			first := AgentRun{ID: j.Shim.Session, Protection: j.Lasts, Agent: j.Shim.Agent, Project: j.Shim.Project, PID: j.Parent.PID, Since: j.Since}
			if run != nil {
				first.Attached = run.Attached
			}
			run = &first
			runs[j.Shim.Session] = run
		}
		run.Attached++
		hooked[j.Shim.Session] = hooked[j.Shim.Session] || j.isHook()
	}
	var all []AgentRun
	for id, run := range runs {
		if !hooked[id] && r.covers != nil && r.silent(run.Since) {
			_, run.Silent = r.covers(run.Protection, agenthook.Server)
		}
		all = append(all, *run)
	}
	slices.SortFunc(all, func(a, b AgentRun) int { return a.Since.Compare(b.Since) })
	return all
}
