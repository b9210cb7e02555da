package session

import (
	"fmt"
	"slices"
)

// Agent reports why the process with these ancestors (itself first) may not
// decide anything: it descends from a wrapped agent, from the parent of a
// shim, or from something that a shim started. It is empty for anybody else.
func (r *Registry) Agent(line []Process) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(line) == 0 {
		return ""
	}
	for _, s := range r.sessions {
		if slices.Contains(line[1:], s.Wrap) {
			return fmt.Sprintf("it runs below the wrapped agent %s", s.Spec.Agent)
		}
	}
	for _, j := range r.joined {
		for _, p := range []Process{j.parent, j.peer, j.server} {
			if p.PID != 0 && slices.Contains(line, p) {
				return fmt.Sprintf("it runs below the agent that uses server %s", j.shim.Server)
			}
		}
	}
	return ""
}

// Running is a process that is an agent, or has started one.
type Running struct {
	Process
	What string // to a person, as "the wrapped agent codex"
}

// Agents returns the wraps that are there, and the processes that started shims,
// each once. Some may have ended meanwhile.
func (r *Registry) Agents() []Running {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[Process]bool{{}: true}
	var all []Running
	for _, s := range r.sessions {
		if s.present && !seen[s.Wrap] {
			seen[s.Wrap] = true
			all = append(all, Running{s.Wrap, "the wrapped agent " + s.Spec.Agent})
		}
	}
	for _, j := range r.joined {
		if !seen[j.parent] {
			seen[j.parent] = true
			all = append(all, Running{j.parent, "the agent that uses server " + j.shim.Server})
		}
	}
	return all
}
