// Package extension runs extensions: programs of the user's that join the gate. They see calls
// before they are judged and results before the agent reads them, offer tools and models, and
// answer commands.
//
// Three rules keep an extension in bounds. A person agreed to it: a listing of its folder is
// kept at installation, and an extension whose folder differs from that listing is not run. It
// may do what its manifest permits; the permission is checked with each request. And its
// failures count against the call: a hook that hangs, crashes, returns an invalid answer or is
// being removed denies what it was to see, unless its manifest says that calls continue without
// it.
//
// A [Registry] holds all extensions. The state database keeps what is installed, including the
// manifest as it was then, so that deleting or replacing a folder removes no hook.
package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protowire"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// wireProtocol is the wire protocol of one kind of extension.
type wireProtocol struct {
	framing wire.Framing
	dialect rpc.Dialect
	max     int // max bytes of a message; a longer one closes the connection
}

var tongues = map[manifest.Wire]wireProtocol{
	manifest.JSON:     {wire.ContentLength{}, rpc.JSONRPC{}, 4 << 20},
	manifest.Protobuf: {wire.Length32{}, protowire.Dialect{}, 10 << 20},
}

// Options are the dependencies of a Registry.
type Options struct {
	Dir      string // where extensions are installed; created by the first installation
	Store    *store.DB
	Recorder gate.Recorder
	Logger   *slog.Logger        // nil for no logging
	Getenv   func(string) string // the daemon's environment
	Build    string              // of the daemon
	// Changed, when set, is called when what extensions offer has changed. It must not block.
	Changed func()
	// Timeout returns how long the answer to a method may take ([protocol.Timeout]).
	Timeout func(method string) time.Duration
}

// Actor names the person who made a change.
type Actor struct {
	Decider string       // the person, as the kernel shows the caller
	Surface string       // as the caller reports it
	Peer    *record.Peer // the caller's process, as the kernel shows it; may be nil
}

// Registry holds the extensions of one user. Its methods are safe for concurrent use.
type Registry struct {
	o     Options
	hooks atomic.Pointer[hooks] // which extensions see which calls

	installing sync.Mutex // held while the set of installed extensions changes; locked before mu

	mu      sync.Mutex // guards the fields below
	all     map[string]*extension
	waiting []*extension  // to be started by Run
	ended   bool          // Run has ended or is about to
	poke    chan struct{} // holds a token while waiting is not empty
}

// Open loads the installed extensions. It starts none: Run does. Their hooks apply from now on,
// and calls that match them wait for Run.
func Open(o Options) (*Registry, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Timeout == nil {
		o.Timeout = protocol.Timeout
	}
	r := &Registry{o: o, all: map[string]*extension{}, poke: make(chan struct{}, 1)}
	r.hooks.Store(&hooks{})
	if err := r.tidy(); err != nil {
		return nil, fmt.Errorf("load extensions: %w", err)
	}
	if err := r.Scan(context.Background()); err != nil { // local and short
		return nil, fmt.Errorf("load extensions: %w", err)
	}
	return r, nil
}

// Run keeps the extensions running until ctx ends. Then it stops them and returns when none
// runs. It may be called once.
func (r *Registry) Run(ctx context.Context) error {
	var lives sync.WaitGroup
	for {
		r.mu.Lock()
		waiting := r.waiting
		r.waiting = nil
		for _, e := range waiting {
			if !e.gone {
				e.started = true
				lives.Go(func() { r.keep(ctx, e) })
			}
		}
		r.mu.Unlock()
		select {
		case <-r.poke:
		case <-ctx.Done():
			r.mu.Lock()
			r.ended = true
			r.mu.Unlock()
			lives.Wait()
			return nil
		}
	}
}

// keep runs e until ctx ends or e is removed or replaced.
func (r *Registry) keep(ctx context.Context, e *extension) {
	defer close(e.done)
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		select {
		case <-e.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	work.Go(func() { r.noteFailures(ctx, e) })
	if err := e.process.Run(ctx); err != nil {
		r.o.Logger.Error("an extension is no longer run", "extension", e.name, "err", err)
	}
}

// noteFailures records each failure of e.
func (r *Registry) noteFailures(ctx context.Context, e *extension) {
	for {
		select {
		case why := <-e.failures:
			r.record(ctx, "failed", e, Actor{}, fmt.Sprint(why))
			r.o.Changed()
		case <-ctx.Done():
			return
		}
	}
}

// record records an event of e and logs an error.
func (r *Registry) record(ctx context.Context, verdict string, e *extension, by Actor, reason string) {
	if err := r.recordOrFail(ctx, verdict, e, by, reason); err != nil {
		r.o.Logger.Error("record an extension", "extension", e.name, "err", err)
	}
}

func (r *Registry) recordOrFail(ctx context.Context, verdict string, e *extension, by Actor, reason string) error {
	line := &record.Record{
		Kind: record.KindExtension, Verdict: verdict, Tool: e.name, Digest: e.digest(), Reason: reason,
		Decider: by.Decider, Surface: by.Surface, Peer: by.Peer,
	}
	if err := r.o.Recorder.Record(context.WithoutCancel(ctx), line, nil, nil); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// register registers e under its name and has it started, if it may run. r.installing must be held.
func (r *Registry) register(e *extension) {
	r.mu.Lock()
	before := r.all[e.name]
	r.all[e.name] = e
	if e.process != nil && !r.ended {
		r.waiting = append(r.waiting, e)
		select {
		case r.poke <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	r.subscribe()
	if before != nil {
		close(before.replaced)
	}
	r.o.Changed()
}

// stopExtension stops the extension with that name and returns when it has ended. It may finish the
// requests under way; new ones wait for its replacement. r.installing must be held.
func (r *Registry) stopExtension(name string) {
	r.mu.Lock()
	e := r.all[name]
	if e == nil || e.gone {
		r.mu.Unlock()
		return
	}
	e.gone = true
	started := e.started
	r.mu.Unlock()
	e.drainRequests()
	close(e.quit)
	if started {
		<-e.done
	}
}

// unregister removes the extension with that name, which take has stopped. r.installing must be
// held.
func (r *Registry) unregister(name string) {
	r.mu.Lock()
	e := r.all[name]
	delete(r.all, name)
	r.mu.Unlock()
	r.subscribe()
	if e != nil {
		close(e.replaced)
	}
	r.o.Changed()
}

// find returns the extension with that name.
func (r *Registry) find(name string) (*extension, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.all[name]
	if e == nil {
		return nil, fmt.Errorf("extension %q: %w", name, gate.ErrNotFound)
	}
	return e, nil
}

// View is an extension as it is shown to a person. It must not be modified.
type View struct {
	Name      string
	Dir       string
	Manifest  *manifest.Manifest // as agreed to; nil if invalid
	Digest    string             // hex SHA-256 of the folder that a person agreed to; empty if nobody has
	Installed time.Time          // zero if nobody has agreed to it
	Decider   string             // who agreed
	Status    supervise.Status   // Failed, with the reason, if it must not run
	Declared  protocol.Declared  // what it offers once it runs
	Strays    uint64             // its messages that were invalid or that nobody expected
	Changed   bool               // its folder differs from what a person agreed to, so it is not run
	Program   string             // path of the program that its command starts; empty if there is none
}

func (e *extension) view() View {
	v := View{Name: e.name, Dir: e.dir, Manifest: e.manifest, Digest: e.digest(), Status: e.status(), Declared: e.offers(), Strays: e.strays.Load()}
	v.Changed = errors.Is(v.Status.Err, errChanged)
	if e.manifest != nil {
		v.Program, _ = e.registry.program(e.manifest, e.dir) // an empty path reports the error
	}
	if e.kept != nil {
		v.Installed, v.Decider = e.kept.Installed, e.kept.Decider
	}
	return v
}

func (e *extension) status() supervise.Status {
	if e.wrong != nil {
		return supervise.Status{State: supervise.Failed, Err: e.wrong}
	}
	return e.process.Status()
}

// sorted returns all extensions, sorted by name.
func (r *Registry) sorted() []*extension {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.all), func(a, b *extension) int { return cmp.Compare(a.name, b.name) })
}

// List returns all extensions, sorted by name.
func (r *Registry) List() []View {
	var all []View
	for _, e := range r.sorted() {
		all = append(all, e.view())
	}
	return all
}

// Get returns one extension, or gate.ErrNotFound.
func (r *Registry) Get(name string) (View, error) {
	e, err := r.find(name)
	if err != nil {
		return View{}, err
	}
	return e.view(), nil
}

// Warnings returns what a person should know: which extensions are not run, and why.
func (r *Registry) Warnings() []string {
	var all []string
	for _, e := range r.sorted() {
		if s := e.status(); s.State == supervise.Failed {
			all = append(all, fmt.Sprintf("the extension %s is not run: %v", e.name, s.Err))
		}
	}
	return all
}

// Fleet returns the extensions as supervised processes of the daemon.
func (r *Registry) Fleet() supervise.Fleet { return fleet{r} }

type fleet struct{ r *Registry }

// List implements supervise.Fleet.
func (f fleet) List() []supervise.Info {
	var all []supervise.Info
	for _, e := range f.r.sorted() {
		info := supervise.Info{Kind: supervise.KindExtension, Name: e.name, Status: e.status()}
		if e.manifest != nil {
			info.Command = append([]string{e.manifest.Command}, e.manifest.Args...)
		}
		e.mu.Lock()
		info.Began = e.began
		e.mu.Unlock()
		all = append(all, info)
	}
	return all
}

// Tail implements supervise.Fleet.
func (f fleet) Tail(kind, name, id string) (*supervise.Tail, bool) {
	e, err := f.r.find(name)
	if kind != supervise.KindExtension || id != "" || err != nil || e.process == nil {
		return nil, false
	}
	return e.process.Tail(), true
}

// Restart implements supervise.Fleet.
func (f fleet) Restart(ctx context.Context, kind, name, id string) (bool, error) {
	e, err := f.r.find(name)
	if kind != supervise.KindExtension || id != "" || err != nil {
		return false, nil
	}
	if e.wrong != nil {
		return true, fmt.Errorf("restart extension %q: %w: %w", name, gate.ErrNotRunning, e.wrong)
	}
	return true, e.process.Restart(ctx)
}
