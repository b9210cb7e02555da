package session

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Saved is the state of an attached shim that the next daemon needs. What a shim is judged as was
// determined when it attached and does not change.
type Saved struct {
	Shim         gate.Shim
	Build        string
	Peer, Parent Process
	Whole        Process // the whole agent; see agentOf
	Server       Process // zero while there is none
	Lasts        string  // protection whose command line started the shim; empty for other shims
	Claims       string  // wrap's session that the shim counts for without descending from the wrap; may be empty
	Since        time.Time
}

// Saved returns the state of j that the next daemon needs.
func (r *Registry) Saved(j *Joined) Saved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.Saved
}

// wrap returns the session of the wrap that the shim ends with, or "".
func (s *Saved) wrap() string {
	switch {
	case s.Lasts != "" && (s.Claims != "" || s.Shim.Session == runUnder(s.Lasts, s.Parent, s.Peer)):
		return ""
	case s.Claims != "":
		return s.Claims
	}
	return s.Shim.Session
}

// Rejoin attaches a shim that was attached to a previous daemon. It must be called before anybody
// can ask which processes are agents.
func (r *Registry) Rejoin(ctx context.Context, s Saved, leave func(reason string)) (*Joined, error) {
	if !s.Peer.Alive() {
		return nil, fmt.Errorf("the tg-shim of server %s has ended: %w", s.Shim.Server, gate.ErrNotRunning)
	}
	j := &Joined{Saved: s}
	r.mu.Lock()
	wrapped := r.sessions[s.Shim.Session] != nil
	r.mu.Unlock()
	j.agent = r.lookAt(s.Parent, &s.Shim, wrapped)
	earlier := r.earlier(s.Shim.Attachment)
	r.mu.Lock()
	if r.joined[s.Shim.Attachment] != nil {
		r.mu.Unlock()
		return nil, fmt.Errorf("attachment %s already exists: %w", s.Shim.Attachment, gate.ErrInvalid)
	}
	if earlier == nil {
		earlier = map[uint64]record.Record{}
	}
	r.unknown(&j.Shim)
	r.admit(j, earlier, leave)
	if id := s.wrap(); id != "" && r.sessions[id] == nil { // it ended with the previous daemon
		leave(wrapEnded)
	}
	r.mu.Unlock()
	r.recordAttach(ctx, j, "reattached")
	return j, nil
}

// Lost records that a shim of a previous daemon was lost, with the reason.
func (r *Registry) Lost(ctx context.Context, s Saved, why string) {
	r.withdraw(s.Shim.Attachment)
	r.recordShim(ctx, record.KindDetach, &s, "", "lost", why)
}
