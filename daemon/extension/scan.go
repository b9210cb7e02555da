package extension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
)

// Scan looks again at what is installed: a folder that was changed is not run any
// more, one that is again what a person agreed to is, and one that came without
// anybody's word is listed and not run.
func (r *Registry) Scan(ctx context.Context) error {
	r.installing.Lock()
	defer r.installing.Unlock()
	rows, err := r.o.Store.Extensions(ctx)
	if err != nil {
		return err
	}
	there, err := r.folders()
	if err != nil {
		return err
	}
	kept := map[string]*store.Extension{}
	for i := range rows {
		kept[rows[i].Name] = &rows[i]
		r.look(&rows[i])
	}
	for _, name := range there {
		if kept[name] == nil {
			r.stranger(name)
		}
	}
	r.mu.Lock()
	var lost []string
	for name := range r.all {
		if kept[name] == nil && !slices.Contains(there, name) {
			lost = append(lost, name)
		}
	}
	r.mu.Unlock()
	for _, name := range lost {
		r.take(name)
		r.forget(name)
	}
	return nil
}

// folders names what lies in the folder of extensions.
func (r *Registry) folders() ([]string, error) {
	entries, err := os.ReadDir(r.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for extensions: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && manifest.IsName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// look takes up what a person agreed to, or looks again at it. r.installing is held.
func (r *Registry) look(kept *store.Extension) {
	e, _ := r.find(kept.Name)
	if e == nil || e.kept == nil || e.process == nil {
		r.take(kept.Name)
		r.put(r.accepted(kept))
		return
	}
	s := e.process.Status()
	refused := s.State == supervise.Failed && errors.Is(s.Err, errChanged)
	if changed := e.unchanged() != nil; changed == refused {
		return
	}
	// It is only asked to begin another life, which looks at the folder; nobody
	// waits here for how that goes.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.process.Restart(ctx)
}

// accepted makes the extension of what a person agreed to.
func (r *Registry) accepted(kept *store.Extension) *extension {
	m, problems := manifest.Parse(filepath.Join(r.o.Dir, kept.Name, manifest.FileName), kept.Manifest)
	if m == nil {
		return r.newExtension(kept.Name, kept, nil, fmt.Errorf("its manifest was written for another version: %w", &ManifestError{problems}))
	}
	return r.newExtension(kept.Name, kept, m, nil)
}

// stranger lists a folder that nobody has agreed to. What its manifest says of hooks
// counts all the same: it may have been agreed to before the state was lost.
func (r *Registry) stranger(name string) {
	var m *manifest.Manifest
	text, err := readManifest(filepath.Join(r.o.Dir, name))
	if err == nil {
		var problems []config.Diagnostic
		m, problems = manifest.Parse(filepath.Join(r.o.Dir, name, manifest.FileName), text)
		if m == nil {
			err = &ManifestError{problems}
		} else if m.Name != name {
			m, err = nil, fmt.Errorf("its manifest names it %q", m.Name)
		}
	}
	wrong := errNobody
	if err != nil {
		wrong = fmt.Errorf("%w (%w)", errNobody, err)
	}
	r.take(name)
	r.put(r.newExtension(name, nil, m, wrong))
}

// load makes what is there of one name into its extension again, after a change that
// went wrong. r.installing is held.
func (r *Registry) load(ctx context.Context, name string) error {
	rows, err := r.o.Store.Extensions(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].Name == name {
			r.put(r.accepted(&rows[i]))
			return nil
		}
	}
	if _, err := os.Lstat(filepath.Join(r.o.Dir, name)); err == nil {
		r.stranger(name)
		return nil
	}
	r.forget(name)
	return nil
}
