package session

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// A wrap that is over knows its agent no more: whoever descended from it has another
// parent then. What was its agent may still not decide, and an agent that kills its
// wrap to that end least of all. So the daemon remembers what it can.
//
// Of a wrap that ended in order that is what it left running, which it has taken in
// until then. Of one that vanished nobody could look at that in time; what is known
// is when it lived, and so when all was started that it left.

// vanish remembers a wrap that is not there any more, unless it ended in order. r.mu
// is held.
func (r *Registry) vanish(s *Session) {
	if s.settled || s.Spec.Headless {
		return
	}
	r.remember(store.Gone{
		Session: s.Spec.ID, Agent: s.Spec.Agent, Wrap: s.Wrap, Cgroup: s.cgroup, Ended: proc.Now(), Left: slices.Clone(s.apps),
	})
}

// leaves remembers what a wrap leaves running that is about to end in order. One that
// is killed while it does so has vanished.
func (r *Registry) leaves(id string) {
	r.mu.Lock()
	s := r.sessions[id]
	r.mu.Unlock()
	if s == nil {
		return
	}
	all, err := proc.All()
	if err != nil {
		r.log.Error("look at what a wrap leaves", "session", id, "err", err)
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
	if err != nil || !s.present || !s.Wrap.Alive() { // what was its child may be another's by now
		return
	}
	s.settled = true
	if left = slices.DeleteFunc(left, func(p Process) bool { return !p.Alive() }); len(left) > 0 {
		r.remember(store.Gone{Session: id, Agent: s.Spec.Agent, Wrap: s.Wrap, Cgroup: s.cgroup, Left: left})
	}
}

// remember keeps g, on disk too. r.mu is held.
func (r *Registry) remember(g store.Gone) {
	r.gone[g.Session] = g
	if err := r.store.KeepGone(r.ctx, &g); err != nil {
		r.log.Error("remember a wrap that is over", "session", g.Session, "err", err)
	}
}

// isBack forgets that a wrap was over. r.mu is held.
func (r *Registry) isBack(id string) {
	if _, there := r.gone[id]; !there {
		return
	}
	delete(r.gone, id)
	if err := r.store.DropGone(r.ctx, id); err != nil {
		r.log.Error("forget that a wrap was over", "session", id, "err", err)
	}
}

// leftBy returns the wrap that is over of whose agent one of line is, and that one.
// Without a terminal, what began while a wrap lived that vanished is taken for its
// agent's: a person has one. r.mu is held.
func (r *Registry) leftBy(line []Process, terminal bool) (store.Gone, Process, bool) {
	for id, g := range r.gone {
		if g.Ended == 0 && !slices.ContainsFunc(g.Left, Process.Alive) {
			r.isBack(id) // nothing is left of it
			continue
		}
		for i, p := range line {
			began := p.Start > g.Wrap.Start && p.Start <= g.Ended
			if slices.Contains(g.Left, p) || i > 0 && p == g.Wrap || began && !terminal {
				return g, p, true
			}
		}
	}
	return store.Gone{}, Process{}, false
}

// Served is how many shims a session has had, as far as this daemon knows.
func (r *Registry) Served(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil {
		return s.served
	}
	return 0
}

// Restored ends a session whose wrap has put its files back and has their locks
// still. Nobody else needs to look at them then: the next wrap may have them at
// once, and would keep a session open that is over.
func (r *Registry) Restored(wrap Process, id string) error {
	r.mu.Lock()
	s := r.sessions[id]
	if s == nil || s.Wrap != wrap {
		r.mu.Unlock()
		return fmt.Errorf("end session %s: it is not that of process %d: %w", id, wrap.PID, gate.ErrForbidden)
	}
	s.present, s.closed, s.files = false, true, nil
	r.mu.Unlock()
	r.forget(s)
	return nil
}
