// Package session keeps track of the agents at the daemon: the wraps that people opened and the
// shims that attached.
//
// A wrap is a stream. When it breaks, the files that it rewrote remain rewritten. This package then
// restores them once the wrap's lock is free. The work to do is on disk, so that a daemon that was
// killed too does it at its next start.
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// drainLimit is how long a session's shims may take to leave.
const drainLimit = 10 * time.Second

// ReattachGracePeriod is how long a peer that lost the daemon may take to come back.
const ReattachGracePeriod = 15 * time.Second

// Process identifies a process even if its pid is reused.
type Process = proc.Process

// File is one file that a session rewrote. Its journal is opaque to this package.
type File = store.File

// Spec is what a wrap says about itself.
type Spec struct {
	ID       string
	Agent    string
	Command  []string
	Project  string
	Profile  gate.Profile // empty: that of the configuration
	Files    []File
	Keep     bool // leave the files as they are
	Headless bool // a run of the daemon's own, which ends its leftovers itself
	// Outlasting is set if servers are started after the command has returned, by its children or
	// by an instance that ran before. See member.
	Outlasting bool
	Tools      bool // the agent runs hooks before it uses tools of its own
	// Remotes are the servers behind an address, which may hold secrets.
	Remotes []agentconf.Remote
	// Ungoverned are the servers that appeared before the session was reopened.
	Ungoverned []Ungoverned
}

// Restorer restores rewritten files. Restore returns false if the lock of the file is held: its
// wrap lives, or another has started. It must be safe to call Restore again after an interrupted
// call.
type Restorer interface {
	Restore(journal []byte) (report string, free bool, err error)
}

// Store keeps sessions and ended wraps across restarts; see store.DB.
type Store interface {
	PutSession(context.Context, *store.Session) error
	DeleteSession(ctx context.Context, id string) error
	Sessions(context.Context) ([]store.Session, error)
	KeepGone(context.Context, *store.EndedWrap) error
	DropGone(ctx context.Context, session string) error
	Gone(context.Context) ([]store.EndedWrap, error)
}

// Event reports that a shim of a session attached or left.
type Event struct {
	Attachment string
	Server     string
	Gone       bool
	Attached   int     // how many are attached now
	Agent      Process // the process that counts as the agent; zero if not known
	Claimed    bool    // it names the session without descending from the wrap
}

// Session is one wrapped run of an agent.
type Session struct {
	Spec   Spec
	Wrap   Process
	Opened time.Time

	terminal int    // the wrap's, see terminalOf, or noTerminal
	cgroup   string // of the wrap
	events   chan Event
	ended    chan struct{} // closed when the stream that opened the session has ended

	// The registry's mutex guards the fields below.
	present    bool               // the wrap's stream is open
	closed     bool               // the wrap asked to close the session
	settled    bool               // what the wrap leaves running is known: see leaves
	problem    string             // why the files could not be restored yet
	served     int                // shims that have attached
	hooked     bool               // the agent has run a hook
	apps       []Process          // what counts as the agent besides descendants of the wrap: see agentOf
	files      []File             // those of Spec, and those amended since
	remotes    []agentconf.Remote // likewise
	ungoverned []Ungoverned
}

// Events returns the channel of the session's events. An event that nobody receives is dropped;
// each event carries the current count.
func (s *Session) Events() <-chan Event { return s.events }

// Open opens a session, or reopens one that the same wrap opened with an earlier stream or a
// previous daemon. The session is on disk when Open returns. Leave must be called when the wrap's
// stream ends.
func (r *Registry) Open(ctx context.Context, wrap Process, spec Spec) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, fmt.Errorf("open session: the daemon is stopping: %w", gate.ErrNotRunning)
	}
	opened, again := time.Now(), false
	if old := r.sessions[spec.ID]; old != nil {
		if old.Wrap != wrap {
			return nil, fmt.Errorf("open session %s: it belongs to process %d: %w", spec.ID, old.Wrap.PID, gate.ErrForbidden)
		}
		if old.present {
			return nil, fmt.Errorf("open session %s: it is already open: %w", spec.ID, gate.ErrLocked)
		}
		opened, again = old.Opened, true
	}
	s := newSession(spec, wrap, opened)
	s.terminal = terminalOf(wrap)
	s.cgroup, _ = proc.Cgroup(wrap.PID)
	if err := r.save(ctx, s); err != nil {
		return nil, fmt.Errorf("open session %s: %w", spec.ID, err)
	}
	if old := r.sessions[spec.ID]; old != nil {
		s.served, s.apps, s.hooked = old.served, old.apps, old.hooked
	}
	s.present = true
	r.sessions[spec.ID] = s
	r.forgetEndedWrap(spec.ID)
	verdict := "opened"
	if again {
		verdict = "reopened"
		// Nobody was notified of shims that came or went meanwhile.
		n := len(r.of(spec.ID))
		s.events <- Event{Gone: n == 0, Attached: n}
	}
	if err := r.recordSession(ctx, s, verdict, s.opening()); err != nil {
		// Leave will not be called for a session that was not opened, but what an earlier stream of
		// it rewrote must be restored.
		s.present = false
		r.rememberKilledWrap(s)
		close(s.ended)
		r.wait.Go(func() { r.adopt(s) })
		return nil, fmt.Errorf("open session %s: %w", spec.ID, err)
	}
	return s, nil
}

// opening describes a new session for the record.
func (s *Session) opening() string {
	if len(s.Spec.Files) == 0 {
		return fmt.Sprintf("%q in %s", s.Spec.Command, s.Spec.Project)
	}
	return filesOf(s.Spec.Files)
}

func filesOf(files []File) string {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	return fmt.Sprintf("with the servers of %q", paths)
}

// Remote returns the description of a server behind an address, as the wrap with that session, or the
// protection with that id, has found it in the agent's files. It survives the daemon.
func (r *Registry) Remote(session, server string) (agentconf.Remote, bool) {
	r.mu.Lock()
	s := r.sessions[session]
	var all []agentconf.Remote
	if s != nil {
		all = s.remotes
	}
	r.mu.Unlock()
	if s == nil && r.remotes != nil {
		return r.remotes(session, server)
	}
	return agentconf.RemoteOf(all, server)
}

// Remotes returns the servers behind an address of all sessions.
func (r *Registry) Remotes() []agentconf.Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []agentconf.Remote
	for _, s := range r.sessions {
		all = append(all, s.remotes...)
	}
	return all
}

// RemoteOf returns the description of the server behind an address for which a new shim stands. A shim of
// a wrap gets no server of another session, whatever it names; see member.
func (r *Registry) RemoteOf(h *Hello) (agentconf.Remote, bool) {
	r.mu.Lock()
	s := Saved{}
	s.Shim, s.Lasts, s.Claims = r.member(*h)
	r.mu.Unlock()
	return r.RemoteOfSaved(&s)
}

// RemoteOfSaved is RemoteOf for a shim that has attached.
func (r *Registry) RemoteOfSaved(s *Saved) (agentconf.Remote, bool) {
	return r.Remote(cmp.Or(s.Lasts, s.Claims, s.Shim.Session), s.Shim.Server)
}

// save stores what the next daemon needs of s. r.mu must be held.
func (r *Registry) save(ctx context.Context, s *Session) error {
	remotes, err := json.Marshal(s.remotes)
	if err != nil {
		return err
	}
	return r.store.PutSession(ctx, &store.Session{
		ID: s.Spec.ID, Agent: s.Spec.Agent, Command: s.Spec.Command, Project: s.Spec.Project, Profile: string(s.Spec.Profile),
		Keep: s.Spec.Keep, Wrap: s.Wrap, Opened: s.Opened, Files: s.files, Remotes: string(remotes),
	})
}

// recordSession records what happened to a session.
func (r *Registry) recordSession(ctx context.Context, s *Session, verdict, reason string) error {
	return r.recorder.Record(ctx, &record.Record{
		Kind: record.KindSession, Session: s.Spec.ID, Agent: s.Spec.Agent, Verdict: verdict, Reason: reason,
		Profile: string(r.gate.InForce(s.Spec.Profile)),
	}, nil, nil)
}

// Drain asks the session's shims to leave and waits until they have, for at most 10 seconds. byWrap
// reports that the caller is the wrap, which is about to end.
func (r *Registry) Drain(ctx context.Context, id string, byWrap bool) (drained, remaining int, err error) {
	r.mu.Lock()
	if r.sessions[id] == nil {
		r.mu.Unlock()
		return 0, 0, fmt.Errorf("close session %s: %w", id, gate.ErrNotFound)
	}
	r.sessions[id].closed = r.sessions[id].closed || byWrap
	mine := r.drains(id)
	for _, j := range mine {
		j.leave("the session is closing")
	}
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	remaining = r.waitForZero(ctx, func() int { return len(r.drains(id)) })
	if byWrap {
		r.rememberLeftProcesses(id)
	}
	return max(0, len(mine)-remaining), remaining, nil
}

// Owns reports whether p is the wrap that opened the session.
func (r *Registry) Owns(p Process, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[id]
	return s != nil && s.Wrap == p
}

// of returns the attachments of a session. r.mu must be held.
func (r *Registry) of(session string) []*Joined {
	var mine []*Joined
	for _, j := range r.joined {
		if j.of(session) {
			mine = append(mine, j)
		}
	}
	return mine
}

// of reports whether the shim belongs to a session or counts for it.
func (j *Joined) of(session string) bool { return j.Shim.Session == session || j.Claims == session }

// drains returns the attachments that end with the session. A shim that a protection's command line
// started, and that does not descend from the wrap, continues without it. r.mu must be held.
func (r *Registry) drains(session string) []*Joined {
	return slices.DeleteFunc(r.of(session), func(j *Joined) bool { return j.Claims == session && j.Lasts != "" })
}

// waitForZero waits until count returns zero or ctx ends, and returns the count.
func (r *Registry) waitForZero(ctx context.Context, count func() int) int {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for count() > 0 && ctx.Err() == nil {
		r.changed.Wait()
	}
	return count()
}

// Suspend is called instead of Leave if the stream ended because the daemon stops: the wrap
// connects to the next daemon, which takes over its shims.
func (r *Registry) Suspend(s *Session) {
	r.mu.Lock()
	s.present = false
	r.mu.Unlock()
	close(s.ended)
}

// wrapEnded is the reason given to the shims of a wrap that ended without asking them to leave.
const wrapEnded = "the wrap has ended"

// Leave is called when the stream that opened s has ended. Files that the wrap has not restored are
// restored by the registry.
func (r *Registry) Leave(s *Session) {
	r.mu.Lock()
	s.present = false
	closing := r.closing
	if r.sessions[s.Spec.ID] == s && !closing {
		r.rememberKilledWrap(s)
	}
	for _, j := range r.drains(s.Spec.ID) {
		if !closing { // a daemon that stops leaves the shims to the next one
			j.leave(wrapEnded)
		}
	}
	r.mu.Unlock()
	close(s.ended)
	if !closing {
		r.hangUps.Go(func() { r.hangUp(s) })
		r.wait.Go(func() { r.adopt(s) })
	}
}
