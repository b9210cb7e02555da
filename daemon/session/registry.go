package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Registry is the list of sessions and attachments. It is safe for concurrent use.
type Registry struct {
	gate     *gate.Gate
	recorder gate.Recorder
	store    Store
	restorer Restorer
	log      *slog.Logger
	earlier  func(attachment string) map[uint64]record.Record
	withdraw func(attachment string)
	forgets  func(session, attachment string)
	covers   func(protection, server string) (agent string, ok bool)
	patience func(agent string) time.Duration
	windowed func(agent string) bool
	remotes  func(protection, server string) (agentconf.Remote, bool)

	ctx    context.Context // the registry's lifetime
	cancel context.CancelFunc
	wait   sync.WaitGroup

	began time.Time
	self  int32 // the daemon's own process, which a wrap may have started

	hangUps sync.WaitGroup // those under way, which end by themselves

	refresh  chan struct{} // holds a token if agents may see other definitions than before
	programs *programs
	known    sync.Map // know, by attachment

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond
	sessions map[string]*Session
	joined   map[string]*Joined
	runs     map[string]*run
	gone     map[string]store.EndedWrap // ended wraps, by session
	closing  bool
}

// Options are the dependencies and callbacks of a Registry.
type Options struct {
	Gate     *gate.Gate
	Recorder gate.Recorder
	Store    Store
	Restorer Restorer
	Logger   *slog.Logger
	// Earlier returns what a previous daemon recorded for an attachment.
	Earlier func(attachment string) map[uint64]record.Record
	// Withdraw withdraws the waiting questions of an attachment that will not come back.
	Withdraw func(attachment string)
	// Forget deletes what is remembered of an ended session, or of a shim without a session.
	Forget func(session, attachment string)
	// Protected returns the agent that is protected under id, if server is one of those whose
	// entries were rewritten. It must not block.
	Protected func(id, server string) (agent string, ok bool)
	// Remote returns a server behind an address that the protection under id governs. It must not
	// block. If nil, there is none.
	Remote func(id, server string) (agentconf.Remote, bool)
	// Patience returns the timeout of calls of an agent type, 0 if it is not known. If nil, it is
	// never known.
	Patience func(agent string) time.Duration
	// Windowed reports whether agents of a type are applications of several processes. If nil, none
	// is.
	Windowed func(agent string) bool
}

// New returns a registry that has recovered the state of a previous daemon: goroutines restore the
// files of sessions whose wrap has ended. Close must be called.
func New(o Options) (*Registry, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registry{
		gate: o.Gate, recorder: o.Recorder, store: o.Store, restorer: o.Restorer, log: o.Logger,
		earlier: o.Earlier, withdraw: o.Withdraw, forgets: o.Forget, covers: o.Protected, patience: o.Patience, remotes: o.Remote, windowed: o.Windowed, ctx: ctx, cancel: cancel,
		sessions: map[string]*Session{}, joined: map[string]*Joined{}, runs: map[string]*run{}, gone: map[string]store.EndedWrap{}, programs: newPrograms(ctx),
		refresh: make(chan struct{}, 1), began: time.Now(), self: int32(os.Getpid()),
	}
	r.changed.L = &r.mu
	saved, err := o.Store.Sessions(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read the sessions of the previous daemon: %w", err)
	}
	left, err := o.Store.Gone(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read the wraps of the previous daemon: %w", err)
	}
	for _, g := range left {
		r.gone[g.Session] = g
	}
	for _, old := range saved {
		var remotes []agentconf.Remote
		if err := json.Unmarshal([]byte(cmp.Or(old.Remotes, "null")), &remotes); err != nil {
			o.Logger.Error("the servers behind an address of a session can't be read", "session", old.ID, "err", err)
		}
		s := newSession(Spec{
			Remotes: remotes,
			ID:      old.ID, Agent: old.Agent, Command: old.Command, Project: old.Project,
			Profile: gate.Profile(old.Profile), Files: old.Files, Keep: old.Keep,
		}, old.Wrap, old.Opened)
		r.sessions[s.Spec.ID] = s
		s.cgroup, _ = proc.Cgroup(s.Wrap.PID)
		if !s.Wrap.Alive() {
			r.rememberKilledWrap(s)
		}
		r.wait.Go(func() {
			if r.leaveToWrap(s) {
				r.adopt(s)
			}
		})
	}
	r.wait.Go(r.refreshes)
	return r, nil
}

// Refresh notifies all agents that their lists have changed, because another set is in force or a
// definition was accepted. It does not block.
func (r *Registry) Refresh() {
	select {
	case r.refresh <- struct{}{}:
	default: // a refresh that has not begun yet covers this one
	}
}

func (r *Registry) refreshes() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.refresh:
		}
		r.mu.Lock()
		joined := slices.Collect(maps.Values(r.joined))
		r.mu.Unlock()
		for _, j := range joined {
			j.Attachment.Refresh()
		}
	}
}

func newSession(spec Spec, wrap Process, opened time.Time) *Session {
	return &Session{
		Spec: spec, Wrap: wrap, Opened: opened, events: make(chan Event, 16), ended: make(chan struct{}),
		files: spec.Files, remotes: spec.Remotes, ungoverned: spec.Ungoverned, terminal: noTerminal,
	}
}

// List returns the sessions, oldest first, each with its number of shims and the reason why its
// files are not restored.
func (r *Registry) List() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []State
	for _, s := range r.sessions {
		all = append(all, State{s, len(r.of(s.Spec.ID)), s.present, s.problem, s.files, s.ungoverned, s.Spec.Tools && !s.hooked && r.silent(s.Opened)})
	}
	slices.SortFunc(all, func(a, b State) int { return a.Session.Opened.Compare(b.Session.Opened) })
	return all
}

// Files returns the rewritten files of all sessions, those of the oldest session first. It is
// called for each call; the result must not be modified.
func (r *Registry) Files() []File {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch len(r.sessions) {
	case 0:
		return nil
	case 1:
		for _, s := range r.sessions {
			return s.files
		}
	}
	sorted := slices.SortedFunc(maps.Values(r.sessions), func(a, b *Session) int {
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.Spec.ID, b.Spec.ID))
	})
	var all []File
	for _, s := range sorted {
		all = append(all, s.files...)
	}
	return all
}

// State is the current state of a session.
type State struct {
	Session  *Session
	Attached int
	Present  bool   // its wrap's stream is open
	Problem  string // why its files are not restored yet

	Files      []File // rewritten files: those of Spec, and those amended since
	Ungoverned []Ungoverned
	Silent     bool // the agent should run hooks, and none has been run yet
}

// Close ends the registry. Shims and files are left to the next daemon.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closing = true
	all := slices.Collect(maps.Values(r.joined))
	r.mu.Unlock()
	r.cancel()
	for _, j := range all {
		j.Attachment.Close(false)
	}
	r.wait.Wait()
	r.hangUps.Wait()
	r.programs.close()
}

// pollInterval is the interval at which a process is polled.
const pollInterval = 50 * time.Millisecond

// pause waits for d. It returns false if the registry was closed meanwhile.
func (r *Registry) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ctx.Done():
		return false
	}
}
