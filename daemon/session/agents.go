package session

import (
	"fmt"
	"slices"
)

// Agent reports why the process with these ancestors (itself first) may not decide anything: it
// descends from a wrapped agent, from the agent behind a shim, from a process that a shim started,
// or from a process that an ended wrap left behind. The result is empty if the process may decide.
// terminal reports whether the process has a terminal.
func (r *Registry) Agent(line []Process, terminal bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(line) == 0 {
		return ""
	}
	for _, s := range r.sessions {
		if slices.Contains(line[1:], s.Wrap) || slices.ContainsFunc(s.apps, func(app Process) bool { return slices.Contains(line, app) }) {
			return fmt.Sprintf("it runs below the wrapped agent %s", s.Spec.Agent)
		}
	}
	for _, j := range r.joined {
		for _, p := range []Process{j.Whole, j.Parent, j.Peer, j.Server} {
			if p.PID != 0 && slices.Contains(line, p) {
				return fmt.Sprintf("it runs below the agent that uses server %s", j.Shim.Server)
			}
		}
	}
	switch g, p, left := r.leftBy(line, terminal); {
	case left && g.Ended == 0:
		return fmt.Sprintf("process %d was left behind by the wrapped agent %s, whose wrap has ended", p.PID, g.Agent)
	case left:
		return fmt.Sprintf("process %d started while the wrapped agent %s ran, whose wrap was killed; start it again, or use a terminal", p.PID, g.Agent)
	}
	return ""
}

// Running is a process that is an agent or has started one.
type Running struct {
	Process
	What   string // for a person, such as "the wrapped agent codex"
	Cgroup string // of a wrap that was killed; empty for a running process, which is inspected
	Ended  uint64 // when the wrap was killed; 0 for a running process
}

// Agents returns the wraps that run or were killed, and the processes that count as the agents of
// shims, each once. Some may have ended meanwhile.
func (r *Registry) Agents() []Running {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[Process]bool{{}: true}
	var all []Running
	add := func(p Process, what string) {
		if !seen[p] {
			seen[p] = true
			all = append(all, Running{Process: p, What: what})
		}
	}
	for _, s := range r.sessions {
		if s.present {
			add(s.Wrap, "the wrapped agent "+s.Spec.Agent)
		}
		for _, app := range s.apps {
			add(app, "the wrapped agent "+s.Spec.Agent)
		}
	}
	for _, j := range r.joined {
		add(j.Whole, "the agent that uses server "+j.Shim.Server)
		add(j.Parent, "the agent that uses server "+j.Shim.Server)
	}
	for _, g := range r.gone {
		if g.Ended != 0 {
			all = append(all, Running{g.Wrap, "the wrapped agent " + g.Agent + ", whose wrap was killed", g.Cgroup, g.Ended})
		}
	}
	return all
}
