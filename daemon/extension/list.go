package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
)

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
