package session

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Saved is what the next daemon has to know of a shim that is attached to this one:
// what it is judged as was found out when it came, and is not asked again.
type Saved struct {
	Shim         gate.Shim
	Build        string
	Peer, Parent Process
	Whole        Process // of the agent: see agentOf
	Server       Process // zero while there is none
	Lasts        string  // the protection whose line started it, empty for another
	Claims       string  // the wrap's session that it counts for without descending from the wrap, empty for another
	Since        time.Time
}

// Saved returns what the next daemon has to know of j.
func (r *Registry) Saved(j *Joined) Saved {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.Saved
}

// wrap is the session of the wrap with which the shim ends, empty for none.
func (s *Saved) wrap() string {
	switch {
	case s.Lasts != "" && (s.Claims != "" || s.Shim.Session == runUnder(s.Lasts, s.Parent, s.Peer)):
		return ""
	case s.Claims != "":
		return s.Claims
	}
	return s.Shim.Session
}

// Rejoin takes a shim back in that was attached to an earlier daemon. It is called before
// anybody can ask who is an agent.
func (r *Registry) Rejoin(ctx context.Context, s Saved, leave func(reason string)) (*Joined, error) {
	if !s.Peer.Alive() {
		return nil, fmt.Errorf("the shim of server %s has ended: %w", s.Shim.Server, gate.ErrNotRunning)
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
		return nil, fmt.Errorf("attachment %s is there already: %w", s.Shim.Attachment, gate.ErrInvalid)
	}
	if earlier == nil {
		earlier = map[uint64]record.Record{}
	}
	r.unknown(&j.Shim)
	r.admit(j, earlier, leave)
	if id := s.wrap(); id != "" && r.sessions[id] == nil { // it has gone with the earlier daemon
		leave(wrapEnded)
	}
	r.mu.Unlock()
	r.recordAttach(ctx, j, "reattached")
	return j, nil
}

// Lost records that a shim of an earlier daemon has come to its end for a reason.
func (r *Registry) Lost(ctx context.Context, s Saved, why string) {
	r.withdraw(s.Shim.Attachment)
	r.recordShim(ctx, record.KindDetach, &s, "", "lost", why)
}
