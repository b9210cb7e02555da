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

// Hello is what a shim tells of itself, and what the kernel tells of it.
type Hello struct {
	Shim     gate.Shim
	Build    string
	Peer     Process
	Parent   Process   // the agent; zero when it has gone
	Line     []Process // the peer and its ancestors, nearest first
	Programs []string  // of those in Line; empty where they may not be seen
}

// Joined is one shim at the daemon.
type Joined struct {
	Attachment *gate.Attachment

	leave func(reason string) // tells it to; does not block

	// What follows does not change.
	shim   gate.Shim
	build  string
	peer   Process
	parent Process
	since  time.Time
	agent  *agent
	run    *run
	key    string  // of the run
	lasts  string  // the protection whose line started it, empty for another
	claims string  // the wrap's session that it counts for without descending from the wrap, empty for another
	whole  Process // of the agent: see agentOf

	server Process // the registry's mutex guards it
}

// Join takes a shim in. leave is called when it is to leave, and does not block.
func (r *Registry) Join(ctx context.Context, h Hello, leave func(reason string)) (*Joined, error) {
	seen := r.behind(&h)
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil, fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
	}
	if r.joined[h.Shim.Attachment] != nil {
		r.mu.Unlock()
		return nil, fmt.Errorf("attachment %s is there already: %w", h.Shim.Attachment, gate.ErrForbidden)
	}
	j := r.settle(&h, seen)
	r.admit(j, nil, leave)
	r.mu.Unlock()
	r.recordAttach(ctx, j, "attached")
	return j, nil
}

// unknown tells the memory that a server has said something to an earlier daemon
// that nobody knows any more.
func (r *Registry) unknown(s *gate.Shim) {
	if r.gate.Facts != nil {
		profile := r.gate.InForce(s.Limit).Tighter(s.Requested)
		r.gate.Facts.Observe(&gate.Message{Session: s.Session, Attachment: s.Attachment, Server: s.Server, Profile: profile, Side: wire.FromServer})
	}
}

// notifySession tells the session of j, if it has one, that j came or went. r.mu is held.
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
	case s.events <- Event{Attachment: j.shim.Attachment, Server: j.shim.Server, Gone: gone, Attached: n, Agent: j.whole, Claimed: j.shim.Claimed}:
	default: // nobody listens; the next one carries the count
	}
}

// Started notes the leader of the group that the shim has started.
func (r *Registry) Started(j *Joined, server Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.server = server
}

// End is called when a shim has left; how and why are for the record.
func (r *Registry) End(j *Joined, how, why string) {
	r.withdraw(j.shim.Attachment) // first: it knows why
	j.Attachment.Close(true)
	r.mu.Lock()
	r.notifySession(j, true)
	delete(r.joined, j.shim.Attachment)
	r.leave(j)
	r.over(j.shim.Session, j.shim.Attachment)
	if j.claims != "" {
		r.over(j.claims, "")
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	err := r.recorder.Record(context.WithoutCancel(r.ctx), &record.Record{
		Kind: record.KindDetach, Attachment: j.shim.Attachment, Session: j.shim.Session, Agent: j.shim.Agent,
		Server: j.shim.Server, Launch: j.shim.Launch, Verdict: how, Reason: why, Profile: string(j.Attachment.Profile()),
	}, nil, nil)
	if err != nil {
		r.log.Error("record the detachment", "server_id", j.shim.Server, "err", err)
	}
}

// Attached describes one shim.
type Attached struct {
	Shim    gate.Shim
	Profile gate.Profile // in force
	Lasts   string       // the protection whose line started it
	Build   string
	Peer    Process
	Server  Process
	Since   time.Time
	Judged  uint64
	Denied  uint64
	Held    int

	Unanswered int       // requests that the server has not answered
	Silent     time.Time // since when, the oldest of them
}

// Attachments returns the shims, oldest first.
func (r *Registry) Attachments() []Attached {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Attached
	for _, j := range r.joined {
		judged, denied, held := j.Attachment.Counts()
		unanswered, silent := j.Attachment.Silent()
		all = append(all, Attached{j.shim, j.Attachment.Profile(), j.lasts, j.build, j.peer, j.server, j.since, judged, denied, held, unanswered, silent})
	}
	slices.SortFunc(all, func(a, b Attached) int { return a.Since.Compare(b.Since) })
	return all
}
