package session

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// When a wrap has ended, the descendants of its agent get another parent and can't be traced to it
// any more. They still may not decide, least of all if the agent killed its wrap for that purpose.
// So the daemon remembers what it can.
//
// If the wrap ended in order, the daemon remembers the processes that the wrap left running, which
// were its descendants until then. If it was killed, nobody could list them in time. Then the
// daemon remembers the wrap's lifetime, in which everything that it left was started.

// rememberKilledWrap remembers a wrap that has ended, unless it ended in order. r.mu must be held.
func (r *Registry) rememberKilledWrap(s *Session) {
	if s.settled || s.Spec.Headless {
		return
	}
	r.remember(store.EndedWrap{
		Session: s.Spec.ID, Agent: s.Spec.Agent, Wrap: s.Wrap, Cgroup: s.cgroup, Ended: proc.Now(), Left: slices.Clone(s.apps),
	})
}

// rememberLeftProcesses remembers which processes are left by a wrap that is about to end in order. A wrap that is
// killed meanwhile counts as vanished.
func (r *Registry) rememberLeftProcesses(id string) {
	r.mu.Lock()
	s := r.sessions[id]
	r.mu.Unlock()
	if s == nil {
		return
	}
	all, err := proc.All()
	if err != nil {
		r.log.Error("find what a wrap left behind", "session", id, "err", err)
	}
	var left []Process
	for _, p := range proc.Below(all, r.self, map[int32]bool{s.Wrap.PID: true}, nil) {
		left = append(left, p.Process)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range s.apps {
		if !slices.Contains(left, p) {
			left = append(left, p)
		}
	}
	if err != nil || !s.present || !s.Wrap.Alive() { // a former child of the wrap may have another parent now
		return
	}
	s.settled = true
	if left = slices.DeleteFunc(left, func(p Process) bool { return !p.Alive() }); len(left) > 0 {
		r.remember(store.EndedWrap{Session: id, Agent: s.Spec.Agent, Wrap: s.Wrap, Cgroup: s.cgroup, Left: left})
	}
}

// remember stores g in memory and on disk. r.mu must be held.
func (r *Registry) remember(g store.EndedWrap) {
	r.gone[g.Session] = g
	if err := r.store.KeepGone(r.ctx, &g); err != nil {
		r.log.Error("save a wrap that has ended", "session", g.Session, "err", err)
	}
}

// forgetEndedWrap deletes the record of an ended wrap. r.mu must be held.
func (r *Registry) forgetEndedWrap(id string) {
	if _, there := r.gone[id]; !there {
		return
	}
	delete(r.gone, id)
	if err := r.store.DropGone(r.ctx, id); err != nil {
		r.log.Error("delete a wrap that had ended", "session", id, "err", err)
	}
}

// leftBy returns the ended wrap whose agent one of the processes in line belongs to, and that
// process. If there is no terminal, a process that was started while a killed wrap ran counts as
// its agent's: a person has a terminal. r.mu must be held.
func (r *Registry) leftBy(line []Process, terminal bool) (store.EndedWrap, Process, bool) {
	for id, g := range r.gone {
		if g.Ended == 0 && !slices.ContainsFunc(g.Left, Process.Alive) {
			r.forgetEndedWrap(id) // all its processes have exited
			continue
		}
		for i, p := range line {
			began := p.Start > g.Wrap.Start && p.Start <= g.Ended
			if slices.Contains(g.Left, p) || i > 0 && p == g.Wrap || began && !terminal {
				return g, p, true
			}
		}
	}
	return store.EndedWrap{}, Process{}, false
}

// Served returns how many shims a session has had, as far as this daemon knows.
func (r *Registry) Served(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil {
		return s.served
	}
	return 0
}

// Restored ends a session whose wrap has restored its files and still holds their locks. The daemon
// must not wait for these locks: the next wrap may take them at once, and the ended session would
// stay open.
func (r *Registry) Restored(wrap Process, id string) error {
	r.mu.Lock()
	s := r.sessions[id]
	if s == nil || s.Wrap != wrap {
		r.mu.Unlock()
		return fmt.Errorf("end session %s: it does not belong to process %d: %w", id, wrap.PID, gate.ErrForbidden)
	}
	s.present, s.closed, s.files = false, true, nil
	r.mu.Unlock()
	r.forget(s)
	return nil
}
