// Package protect watches over the agents that people have protected: those whose files are
// rewritten for good, so that every start is governed.
//
// Such a file is the agent's own, and agents and people write to it. If a line of ThoughtGate is
// lost that way, a server is started ungoverned, and nobody is asked. So the files are checked at a
// slow interval and whenever a protected server joins. What is missing is reported, and restored if
// the person agreed to that before.
package protect

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// every is the default interval of checks. A check of an unchanged file costs a stat.
	every = 15 * time.Second

	// mostRepairs is how often the lines of one agent are restored within repairSpan. If they are
	// removed more often, that is reported, and they are not restored any more.
	mostRepairs = 5
	repairSpan  = 10 * time.Minute
)

// Store keeps protections across restarts; see store.DB.
type Store interface {
	PutProtection(context.Context, *store.Protection) error
	DeleteProtection(ctx context.Context, id string) error
	Protections(context.Context) ([]store.Protection, error)
}

// Options are the dependencies and settings of a Guard.
type Options struct {
	Store    Store
	Recorder gate.Recorder
	Logger   *slog.Logger
	Lookup   func(name string) (string, bool) // looks up the daemon's environment
	Socket   string                           // path at which shims find the daemon
	Every    time.Duration                    // interval of checks; default: 15 s
}

// Guard is the list of protections. It is safe for concurrent use.
type Guard struct {
	Options
	ctx    context.Context // the guard's lifetime
	cancel context.CancelFunc
	wait   sync.WaitGroup
	poke   chan struct{}

	work  sync.Mutex // held while files are checked or written, or a protection changes; locked before mu
	mu    sync.Mutex // guards the fields below
	kept  map[string]*kept
	files []string // of all protections; never modified; nil if outdated
}

// kept is one protection. Its fields are written with both of the guard's locks held, and read with
// either.
type kept struct {
	State
	files   []string    // that it concerns
	seen    string      // stamp of the watched files at the last check; empty to check again
	repairs []time.Time // attempts within the last repairSpan
}

// New returns a guard that watches the protections of a previous daemon. Close must be called.
func New(o Options) (*Guard, error) {
	if o.Every == 0 {
		o.Every = every
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Guard{Options: o, ctx: ctx, cancel: cancel, poke: make(chan struct{}, 1), kept: map[string]*kept{}}
	saved, err := o.Store.Protections(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read the protections of the previous daemon: %w", err)
	}
	for _, s := range saved {
		p, err := agentconf.ParseProtection(s.Text)
		if err != nil {
			// It may be from a newer version, so it is left alone. Its lines stay; without it the
			// rules for the file apply to them.
			o.Logger.Error("a protection can't be read; its agent is not checked", "protection", s.ID, "agent", s.Agent, "err", err)
			continue
		}
		g.kept[s.ID] = &kept{State: State{Protection: p, Since: s.Since, Ending: s.Ending}, files: p.Files()}
	}
	g.wait.Go(g.run)
	return g, nil
}

// Close ends the guard. Protections are left to the next daemon.
func (g *Guard) Close() {
	g.cancel()
	g.wait.Wait()
}

// run checks all protections at once, and then at each interval.
func (g *Guard) run() {
	tick := time.NewTicker(g.Every)
	defer tick.Stop()
	for {
		for _, id := range g.ids() {
			if g.ctx.Err() != nil {
				return
			}
			g.look(id)
		}
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		case <-g.poke:
		}
	}
}

func (g *Guard) ids() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.kept))
}

// Put stores what a person has protected, or protected again. It is on disk when Put returns; the
// files are written after that.
func (g *Guard) Put(ctx context.Context, who, id string, text []byte) error {
	p, err := agentconf.ParseProtection(text)
	if err == nil && (p.ID != id || len(p.Journal) == 0) {
		err = fmt.Errorf("it does not belong to %q, or names no file", id)
	}
	if err != nil {
		return fmt.Errorf("protect: %w: %w", gate.ErrInvalid, err)
	}
	g.work.Lock()
	defer g.work.Unlock()
	since, verdict := time.Now(), "protected"
	if old := g.of(id); old != nil {
		since, verdict = old.Since, "protected again"
	}
	if err := g.note(ctx, p, verdict, who, fmt.Sprintf("rewrites %q", p.Paths())); err != nil {
		return err
	}
	return g.put(ctx, p, since)
}

// put stores p on disk and in memory. g.work must be held.
func (g *Guard) put(ctx context.Context, p *agentconf.Protection, since time.Time) error {
	text, err := p.Text()
	if err != nil {
		return err
	}
	if err := g.Store.PutProtection(ctx, &store.Protection{ID: p.ID, Agent: p.Agent, Since: since, Text: text}); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kept[p.ID]
	if k == nil {
		k = &kept{State: State{Since: since}}
		g.kept[p.ID] = k
	}
	k.Protection, k.files, k.seen, k.Ending = p, p.Files(), "", false
	g.files = nil
	return nil
}

// of returns a protection, or nil if there is none with that id.
func (g *Guard) of(id string) *kept {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept[id]
}

// Of returns the agent of a shim that names a protection and one of its servers. It also requests a
// check of the files, since the agent has just been started.
func (g *Guard) Of(id, server string) (agent string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kept[id]
	if k == nil || !k.Protection.Covers(server) {
		return "", false
	}
	g.Look()
	return k.Protection.Agent, true
}

// Remote returns the description of a server behind an address that a protection governs.
func (g *Guard) Remote(id, server string) (agentconf.Remote, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kept[id]
	if k == nil {
		return agentconf.Remote{}, false
	}
	return agentconf.RemoteOf(k.Protection.Remotes, server)
}

// Variable returns a variable of the agent's environment as a protection has it; empty if it has
// none.
func (g *Guard) Variable(id, name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.kept[id]; k != nil {
		return k.Protection.Where.Vars[name]
	}
	return ""
}

// Look requests a check of the files. It does not wait for it.
func (g *Guard) Look() {
	select {
	case g.poke <- struct{}{}:
	default: // a check is already requested
	}
}

// State is the current state of a protection.
type State struct {
	Protection *agentconf.Protection
	Since      time.Time
	Decay      agentconf.Decay
	Problem    string
	Repairs    int // successful ones since the daemon was started
	Checked    time.Time
	Ending     bool
}

// List returns the protections, oldest first, as of the last check.
func (g *Guard) List() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []State
	for _, k := range g.kept {
		all = append(all, k.State)
	}
	slices.SortFunc(all, func(a, b State) int { return a.Since.Compare(b.Since) })
	return all
}

// Files returns every file that a protection concerns. It is called for each call; the result must
// not be modified.
func (g *Guard) Files() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files == nil {
		g.files = []string{}
		for _, id := range slices.Sorted(maps.Keys(g.kept)) {
			g.files = append(g.files, g.kept[id].files...)
		}
	}
	return g.files
}

// note records what happened to a protection.
func (g *Guard) note(ctx context.Context, p *agentconf.Protection, verdict, who, reason string) error {
	return g.Recorder.Record(context.WithoutCancel(ctx), &record.Record{
		Kind: record.KindSession, Session: p.ID, Agent: p.Agent, Verdict: verdict, Decider: who, Reason: reason,
	}, nil, nil)
}
