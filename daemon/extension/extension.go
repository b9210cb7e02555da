// Package extension runs programs of the user's that join the gate: they see calls
// before they are judged and results before they are read, offer tools and models,
// and answer commands.
//
// Three things keep such a program in its place. It is what a person agreed to: what
// was installed is kept as a listing of its folder, and a folder that holds anything
// else is not run. It may do what its manifest says and a person saw, which is looked
// at with each thing that it asks. And what it does not do counts against the call
// and not for it: a hook that hangs, crashes, lies or was taken away refuses what it
// was to see, unless its manifest says that calls go on without it.
//
// A [Registry] holds all of them. What is installed stands in the state database,
// with the manifest as it was then, so that taking a folder away, or putting another
// in its place, takes away no hook.
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

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protowire"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// tongue is how extensions of one kind speak.
type tongue struct {
	framing wire.Framing
	dialect wire.Dialect
	max     int // bytes of a message of theirs; more ends the conversation
}

var tongues = map[manifest.Wire]tongue{
	manifest.JSON:     {wire.ContentLength{Whole: true}, wire.JSONRPC{}, 4 << 20},
	manifest.Protobuf: {wire.Length32{Whole: true}, protowire.Dialect{}, 10 << 20},
}

// Options say what a Registry needs of others.
type Options struct {
	Dir      string // where extensions are installed; made with the first
	Store    *store.DB
	Recorder gate.Recorder
	Logger   *slog.Logger        // nil for none
	Getenv   func(string) string // the daemon's environment
	Build    string              // of the daemon
	// Changed, when set, is told that what extensions offer is another. It must not
	// block.
	Changed func()
}

// By is whose word something is.
type By struct {
	Decider string       // who, as the kernel saw them
	Surface string       // where, as they say
	Peer    *record.Peer // what the kernel showed of them; may be nil
}

// Registry is the extensions of one user. Its methods are safe for concurrent use.
type Registry struct {
	o     Options
	hooks atomic.Pointer[hooks] // who sees which calls

	installing sync.Mutex // held while what is installed changes; taken before mu

	mu      sync.Mutex // guards what follows
	all     map[string]*extension
	waiting []*extension  // to be started by Run
	ended   bool          // Run has, or is about to
	poke    chan struct{} // has an item when waiting does
}

// Open takes up what is installed. Nothing is started before Run; hooks count from
// now on, and wait for Run.
func Open(o Options) (*Registry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	r := &Registry{o: o, all: map[string]*extension{}, poke: make(chan struct{}, 1)}
	r.hooks.Store(&hooks{})
	if err := r.tidy(); err != nil {
		return nil, fmt.Errorf("take up extensions: %w", err)
	}
	if err := r.Scan(context.Background()); err != nil { // it is local, and takes a moment
		return nil, fmt.Errorf("take up extensions: %w", err)
	}
	return r, nil
}

// Run keeps the extensions running until ctx ends, then asks them to leave and
// returns when none runs any more. It may be called once.
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

// keep runs one extension until ctx ends or it is taken away.
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
		r.o.Logger.Error("an extension is not run any more", "extension", e.name, "err", err)
	}
}

// noteFailures writes down when e has failed.
func (r *Registry) noteFailures(ctx context.Context, e *extension) {
	for {
		select {
		case why := <-e.failures:
			r.record(ctx, "failed", e, By{}, fmt.Sprint(why))
			r.o.Changed()
		case <-ctx.Done():
			return
		}
	}
}

// record writes down what became of an extension, or logs why it can't.
func (r *Registry) record(ctx context.Context, verdict string, e *extension, by By, reason string) {
	if err := r.recordOrFail(ctx, verdict, e, by, reason); err != nil {
		r.o.Logger.Error("record an extension", "extension", e.name, "err", err)
	}
}

func (r *Registry) recordOrFail(ctx context.Context, verdict string, e *extension, by By, reason string) error {
	line := &record.Record{
		Kind: record.KindExtension, Verdict: verdict, Tool: e.name, Digest: e.digest(), Reason: reason,
		Decider: by.Decider, Surface: by.Surface, Peer: by.Peer,
	}
	if err := r.o.Recorder.Record(context.WithoutCancel(ctx), line, nil, nil); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// put makes e the extension of its name, to be started if it may be. r.installing
// is held.
func (r *Registry) put(e *extension) {
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

// take takes the extension of a name away, and returns when it has ended. It gets to
// answer what it was asked, and what it is to be asked waits for what is put in its
// place. r.installing is held.
func (r *Registry) take(name string) {
	r.mu.Lock()
	e := r.all[name]
	if e == nil || e.gone {
		r.mu.Unlock()
		return
	}
	e.gone = true
	started := e.started
	r.mu.Unlock()
	e.dismiss()
	close(e.quit)
	if started {
		<-e.done
	}
}

// forget drops the extension of a name, which was taken away. r.installing is held.
func (r *Registry) forget(name string) {
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

// find returns the extension of a name.
func (r *Registry) find(name string) (*extension, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.all[name]
	if e == nil {
		return nil, fmt.Errorf("extension %q: %w", name, gate.ErrNotFound)
	}
	return e, nil
}

// View is an extension as a person is shown it. It must not be changed.
type View struct {
	Name      string
	Dir       string
	Manifest  *manifest.Manifest // as it was agreed to; nil when it can't be read
	Digest    string             // of the folder that a person agreed to, hex SHA-256; empty when nobody has
	Installed time.Time          // zero likewise
	Decider   string             // who agreed
	Status    supervise.Status   // Failed, with the reason, when it is not to be run
	Declared  protocol.Declared  // what it offers, once it runs
	Strays    uint64             // messages of it that could not be read or said nothing to anybody
	Changed   bool               // its folder is not what a person agreed to, so that it is not run
	Program   string             // path of what its command starts; empty when there is none
}

func (e *extension) view() View {
	v := View{Name: e.name, Dir: e.dir, Manifest: e.manifest, Digest: e.digest(), Status: e.status(), Declared: e.offers(), Strays: e.strays.Load()}
	v.Changed = errors.Is(v.Status.Err, errChanged)
	if e.manifest != nil {
		v.Program, _ = e.registry.program(e.manifest, e.dir) // an empty one says it
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

// sorted returns all extensions by name.
func (r *Registry) sorted() []*extension {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.all), func(a, b *extension) int { return cmp.Compare(a.name, b.name) })
}

// List returns all extensions, by name.
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

// Warnings are what a person should know: extensions that are not run.
func (r *Registry) Warnings() []string {
	var all []string
	for _, e := range r.sorted() {
		if s := e.status(); s.State == supervise.Failed {
			all = append(all, fmt.Sprintf("the extension %s is not run: %v", e.name, s.Err))
		}
	}
	return all
}

// Fleet returns the extensions as programs that the daemon keeps.
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
