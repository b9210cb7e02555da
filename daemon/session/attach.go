package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Hello is what a shim tells of itself, and what the kernel tells of it.
type Hello struct {
	Shim     gate.Shim
	Reattach bool
	Build    string
	Peer     Process
	Parent   Process   // the agent; zero when it has gone
	Line     []Process // the peer and its ancestors, nearest first
	Programs []string  // of those in Line; empty where they may not be seen
}

// Joined is one shim at the daemon, also while its stream is torn.
type Joined struct {
	Attachment *gate.Attachment

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

	// The registry's mutex guards what follows.
	server   Process
	stream   int    // counts the streams it has had
	attached bool   // one of them is open
	asked    string // why it should leave, empty when it need not
	leave    func(reason string)
}

// drain asks the shim to leave, now or when it comes back. The registry's
// mutex is held.
func (j *Joined) drain(reason string) {
	j.asked = reason
	if j.leave != nil {
		j.leave(reason)
	}
}

// Join takes a shim in, or takes it back in when it lost its stream. The returned
// number names the stream.
func (r *Registry) Join(ctx context.Context, h Hello, to Stream) (*Joined, int, error) {
	seen := r.behind(&h)
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil, 0, fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
	}
	id := h.Shim.Attachment
	j, again := r.joined[id], false
	if j != nil {
		if err := j.same(&h); err != nil {
			r.mu.Unlock()
			return nil, 0, err
		}
		again = true
	} else {
		j = r.settle(&h, seen)
		var earlier map[uint64]record.Record
		if h.Reattach {
			earlier = r.earlier(id)
			r.unknown(&j.shim)
		}
		r.admit(j, earlier)
	}
	stream, asked := r.bind(j, to)
	r.mu.Unlock()

	if asked != "" {
		to.Leave(asked)
	}
	if again {
		r.Refresh() // it could not be told of what has changed meanwhile
	}
	verdict := "attached"
	if again || h.Reattach {
		verdict = "reattached"
	}
	r.recordAttach(ctx, j, verdict)
	return j, stream, nil
}

// unknown tells the memory that a server has said something to an earlier daemon
// that nobody knows any more.
func (r *Registry) unknown(s *gate.Shim) {
	if r.gate.Facts != nil {
		profile := r.gate.InForce(s.Limit).Tighter(s.Requested)
		r.gate.Facts.Observe(&gate.Message{Session: s.Session, Attachment: s.Attachment, Server: s.Server, Profile: profile, Side: wire.FromServer})
	}
}

// same refuses a shim that comes back as something else than it was: what it is
// judged as was found out when it came first.
func (j *Joined) same(h *Hello) error {
	switch {
	case j.peer != h.Peer || j.shim.Server != h.Shim.Server:
		return fmt.Errorf("attachment %s belongs to process %d: %w", h.Shim.Attachment, j.peer.PID, gate.ErrForbidden)
	case j.shim.Launch != h.Shim.Launch || j.shim.Cwd != h.Shim.Cwd:
		return fmt.Errorf("attachment %s came with another command line or folder: %w", h.Shim.Attachment, gate.ErrForbidden)
	}
	return nil
}

// tell informs the session of j, if it has one. r.mu is held.
func (r *Registry) tell(j *Joined, gone bool) {
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

// Started notes the leader of the group that the shim started, on disk too.
func (r *Registry) Started(j *Joined, server Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.server == server {
		return
	}
	j.server = server
	if s := r.wrapOf(j); s != nil {
		if err := r.save(r.ctx, s); err != nil {
			r.log.Error("note the server process", "server_id", j.shim.Server, "err", err)
		}
	}
}

// Part is called when a stream has ended; said is true when the shim said
// goodbye. A shim that did not may come back; until it does, or is surely
// dead, its questions stay open and its server is left alone.
func (r *Registry) Part(j *Joined, stream int, said bool) {
	r.mu.Lock()
	if j.stream != stream || !j.attached { // a newer stream has taken over
		r.mu.Unlock()
		return
	}
	j.attached, j.leave = false, nil
	j.Attachment.Bind(nil)
	j.Attachment.DeliverTo(nil)
	closing := r.closing
	r.mu.Unlock()
	if closing {
		return
	}
	if said {
		r.detach(j, "left", "")
		return
	}
	r.wait.Go(func() { r.await(j, stream) })
}

// await waits for a shim whose stream tore: until it is back, or dead, or has
// had its time. Then its server's group is ended.
func (r *Registry) await(j *Joined, stream int) {
	over := time.Now().Add(Reattach + 5*time.Second)
	for alive(j.peer) && time.Now().Before(over) {
		if !r.pause(look) {
			return // the next daemon looks after it
		}
		r.mu.Lock()
		back := j.stream != stream
		r.mu.Unlock()
		if back {
			return
		}
	}
	r.mu.Lock()
	server := j.server
	r.mu.Unlock()
	if !alive(j.peer) { // a living shim ends its server itself
		endGroup(r.ctx, server, r.log)
	}
	r.detach(j, "lost", "")
}

// detach forgets a shim that will not come back.
func (r *Registry) detach(j *Joined, how, why string) {
	r.withdraw(j.shim.Attachment) // first: it knows why
	j.Attachment.Close(true)
	r.mu.Lock()
	r.tell(j, true)
	delete(r.joined, j.shim.Attachment)
	r.leave(j)
	if s := r.wrapOf(j); s != nil && j.server.PID != 0 {
		if err := r.save(r.ctx, s); err != nil {
			r.log.Error("note the end of a server", "server_id", j.shim.Server, "err", err)
		}
	}
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

// endServer ends the group of a server that an earlier daemon knew of, once
// its shim is dead. A shim that lives looks after it, here or with a later daemon.
func (r *Registry) endServer(old store.Server) {
	over := time.Now().Add(Reattach + 5*time.Second)
	for alive(old.Shim) {
		if time.Now().After(over) || !r.pause(look) {
			return
		}
	}
	endGroup(r.ctx, old.Leader, r.log)
}

// Attached describes one shim.
type Attached struct {
	Shim     gate.Shim
	Profile  gate.Profile // in force
	Lasts    string       // the protection whose line started it
	Build    string
	Peer     Process
	Server   Process
	Since    time.Time
	Detached bool
	Judged   uint64
	Denied   uint64
	Held     int

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
		all = append(all, Attached{j.shim, j.Attachment.Profile(), j.lasts, j.build, j.peer, j.server, j.since, !j.attached, judged, denied, held, unanswered, silent})
	}
	slices.SortFunc(all, func(a, b Attached) int { return a.Since.Compare(b.Since) })
	return all
}
