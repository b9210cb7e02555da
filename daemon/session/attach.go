package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Hello is what a shim says about itself, and what the kernel says about it.
type Hello struct {
	Shim     gate.Shim
	Build    string
	Peer     Process
	Parent   Process   // the agent; zero if it has exited
	Line     []Process // the peer and its ancestors, nearest first
	Programs []string  // of the processes in Line; empty if they can't be seen
}

// Joined is one attached shim.
type Joined struct {
	Attachment *gate.Attachment

	leave func(reason string) // asks the shim to leave; does not block

	// The fields below are immutable, except for Server, which the registry's mutex guards.
	Saved
	agent *agent
	run   *run
	key   string // of the run
}

// Join attaches a shim. leave is called to ask the shim to leave; it must not block.
func (r *Registry) Join(ctx context.Context, h Hello, leave func(reason string)) (*Joined, error) {
	seen := r.behind(&h)
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil, fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
	}
	if r.joined[h.Shim.Attachment] != nil {
		r.mu.Unlock()
		return nil, fmt.Errorf("attachment %s already exists: %w", h.Shim.Attachment, gate.ErrForbidden)
	}
	j := r.newJoined(&h, seen)
	r.admit(j, nil, leave)
	r.mu.Unlock()
	r.recordAttach(ctx, j, "attached")
	return j, nil
}

// unknown notifies the fact memory that the server sent messages to a previous daemon whose content
// is not known any more.
func (r *Registry) unknown(s *gate.Shim) {
	if r.gate.Facts != nil {
		profile := r.gate.InForce(s.Limit).Tighter(s.Requested)
		r.gate.Facts.Observe(&gate.Observation{Session: s.Session, Attachment: s.Attachment, Server: s.Server, Profile: profile, Side: wire.FromServer})
	}
}

// notifySession sends an event to the session of j, if it has one: j attached or left. r.mu must be
// held.
func (r *Registry) notifySession(j *Joined, gone bool) {
	s := r.wrapOf(j)
	if s == nil {
		return
	}
	n := 0
	for _, other := range r.of(s.Spec.ID) {
		if !gone || other != j {
			n++
		}
	}
	select {
	case s.events <- Event{Attachment: j.Shim.Attachment, Server: j.Shim.Server, Gone: gone, Attached: n, Agent: j.Whole, Claimed: j.Shim.Claimed}:
	default: // nobody listens; the next event carries the count
	}
}

// Started records the leader of the process group that the shim started.
func (r *Registry) Started(j *Joined, server Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.Server = server
}

// End removes a shim that has left. how and why are recorded.
func (r *Registry) End(j *Joined, how, why string) {
	r.withdraw(j.Shim.Attachment) // first, since it knows the reason
	j.Attachment.Close(true)
	r.mu.Lock()
	r.notifySession(j, true)
	delete(r.joined, j.Shim.Attachment)
	r.leave(j)
	r.forgetIfEnded(j.Shim.Session, j.Shim.Attachment)
	if j.Claims != "" {
		r.forgetIfEnded(j.Claims, "")
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	r.recordShim(context.WithoutCancel(r.ctx), record.KindDetach, &j.Saved, j.Attachment.Profile(), how, why)
}

// Attached describes one shim.
type Attached struct {
	Saved
	Profile gate.Profile // in force
	Judged  uint64
	Denied  uint64
	Held    int

	Unanswered int       // requests without an answer from the server
	Silent     time.Time // when the oldest of them was sent
}

// Attachments returns the attached shims, oldest first.
func (r *Registry) Attachments() []Attached {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Attached
	for _, j := range r.joined {
		judged, denied, held := j.Attachment.Counts()
		unanswered, silent := j.Attachment.Silent()
		all = append(all, Attached{j.Saved, j.Attachment.Profile(), judged, denied, held, unanswered, silent})
	}
	slices.SortFunc(all, func(a, b Attached) int { return a.Since.Compare(b.Since) })
	return all
}
