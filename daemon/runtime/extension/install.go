package extension

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/folder"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Prefixes of temporary folders of ours in the folder of extensions.
const (
	staging = ".staging-"
	old     = ".old-"
)

// ManifestError reports an invalid manifest, with all that is wrong with it.
type ManifestError struct{ Problems []config.Diagnostic }

func (e *ManifestError) Error() string {
	text := manifest.FileName + " is invalid:"
	for _, p := range e.Problems {
		if p.Severity == config.Error {
			text += "\n" + p.String()
		}
	}
	return text
}

// Is reports whether target is gate.ErrInvalid.
func (e *ManifestError) Is(target error) bool { return target == gate.ErrInvalid }

// Candidate is a folder that can be installed, as it is shown to a person.
type Candidate struct {
	Dir      string // absolute
	Manifest *manifest.Manifest
	Warnings []config.Diagnostic
	Digest   [32]byte // of all that is in the folder
	Files    int
	Bytes    int64
	Program  string // path of the program that its command would start; empty if there is none
	// Installed is the extension that it would replace; nil for none.
	Installed *View
}

// Look examines a folder that is to be installed. Errors are a *ManifestError, and those of
// gate for a folder that can't be installed.
func (r *Registry) Look(dir string) (*Candidate, error) {
	dir, err := r.source(dir)
	if err != nil {
		return nil, err
	}
	listing, err := folder.List(dir)
	if err != nil {
		return nil, err
	}
	m, _, warnings, err := read(dir, dir, listing)
	if err != nil {
		return nil, err
	}
	c := &Candidate{Dir: dir, Manifest: m, Warnings: warnings, Digest: listing.Digest(), Files: listing.Files, Bytes: listing.Bytes}
	c.Program, _ = r.program(m, dir) // an empty path tells the person that there is no program
	if e, err := r.find(m.Name); err == nil && e.kept != nil {
		v := e.view()
		c.Installed = &v
	}
	return c, nil
}

// source returns dir with symbolic links resolved.
func (r *Registry) source(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("install %q: %w: the path is not absolute", dir, gate.ErrInvalid)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("install: %w: %w", gate.ErrNotFound, err)
	}
	if err != nil {
		return "", fmt.Errorf("install: %w: %w", gate.ErrInvalid, err)
	}
	if within, err := filepath.Rel(dir, r.o.Dir); err == nil && filepath.IsLocal(within) {
		return "", fmt.Errorf("install %s: %w: it is inside the folder of installed extensions", dir, gate.ErrInvalid)
	}
	return dir, nil
}

// read reads and checks the manifest of a listed folder. copied is the folder to read; dir,
// which may be the same, is where it comes from and stands in errors.
func read(copied, dir string, listing *folder.Listing) (m *manifest.Manifest, text []byte, warnings []config.Diagnostic, err error) {
	text, err = readManifest(copied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, fmt.Errorf("install %s: %w: it has no %s, the manifest of an extension", dir, gate.ErrInvalid, manifest.FileName)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("install %s: %w: %w", dir, gate.ErrInvalid, err)
	}
	m, problems := manifest.Parse(filepath.Join(dir, manifest.FileName), text)
	if m == nil {
		return nil, nil, nil, &ManifestError{problems}
	}
	if strings.Contains(m.Command, "/") && !listing.Runs(m.Command) {
		return nil, nil, nil, fmt.Errorf("install %s: %w: the command %s is not an executable file in it", dir, gate.ErrInvalid, m.Command)
	}
	return m, text, problems, nil
}

func readManifest(dir string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(manifest.FileName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, manifest.MaxFile+1))
	if err == nil && len(text) > manifest.MaxFile {
		err = fmt.Errorf("%s has more than %d bytes", manifest.FileName, manifest.MaxFile)
	}
	return text, err
}

// Install copies the folder at dir to the folder of extensions and runs it, in place of an
// extension with its name. digest, when not nil, is that of the content that the person saw; if
// the content differs, the error is gate.ErrChanged. Other errors are those of Look, of the
// record and of the disk. If Install fails before it has changed anything, the previous version
// keeps running.
func (r *Registry) Install(ctx context.Context, dir string, digest []byte, by Actor) (*View, error) {
	r.installing.Lock()
	defer r.installing.Unlock()
	dir, err := r.source(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	staged := filepath.Join(r.o.Dir, staging+rand.Text())
	listing, err := folder.Copy(dir, staged)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(staged) // renamed by then, if all went well
	m, text, _, err := read(staged, dir, listing)
	if err != nil {
		return nil, err
	}
	sum := listing.Digest()
	if digest != nil && hex.EncodeToString(digest) != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("install %s: %w: the content of the folder is not what was shown", dir, gate.ErrChanged)
	}
	kept := &store.Extension{
		Name: m.Name, Listing: listing.Text, Manifest: text, Installed: time.Now().UTC().Truncate(time.Microsecond), Decider: by.Decider,
	}
	next := r.newExtension(m.Name, kept, m, nil)
	if err := r.recordOrFail(ctx, "installed", next, by, fmt.Sprintf("version %s from %s", m.Version, dir)); err != nil {
		return nil, fmt.Errorf("install %s: %w", m.Name, err)
	}
	r.stopExtension(m.Name)
	if err := r.replace(ctx, staged, kept); err != nil {
		// Load what is there now; it is refused if it is neither version.
		return nil, errors.Join(fmt.Errorf("install %s: %w", m.Name, err), r.load(ctx, m.Name))
	}
	r.register(next)
	view := next.view()
	return &view, nil
}

// replace moves the staged folder to where the extension lies and keeps what the person agreed
// to in the state database.
func (r *Registry) replace(ctx context.Context, staged string, kept *store.Extension) error {
	place := filepath.Join(r.o.Dir, kept.Name)
	away := filepath.Join(r.o.Dir, old+rand.Text())
	err := os.Rename(place, away)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Rename(staged, place)
	}
	if err == nil {
		err = r.o.Store.KeepExtension(ctx, kept)
	}
	return errors.Join(err, os.RemoveAll(away))
}

// Kept is what remains of an extension that was removed.
type Kept struct {
	Values  int // of its configuration
	Records int // of its memory
}

// Remove stops an extension and deletes its folder; with purge also its configuration and its
// memory. Errors are gate.ErrNotFound, and those of the record and the disk.
func (r *Registry) Remove(ctx context.Context, name string, purge bool, by Actor) (Kept, error) {
	r.installing.Lock()
	defer r.installing.Unlock()
	e, err := r.find(name)
	if err != nil {
		return Kept{}, fmt.Errorf("remove: %w", err)
	}
	if err := r.recordOrFail(ctx, "removed", e, by, ""); err != nil {
		return Kept{}, fmt.Errorf("remove %s: %w", name, err)
	}
	r.stopExtension(name)
	away := filepath.Join(r.o.Dir, old+rand.Text())
	err = os.Rename(e.dir, away)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = r.o.Store.DropExtension(ctx, name, purge)
	}
	if err != nil {
		return Kept{}, errors.Join(fmt.Errorf("remove %s: %w", name, err), r.load(ctx, name))
	}
	r.unregister(name)
	if err := os.RemoveAll(away); err != nil {
		return Kept{}, fmt.Errorf("remove %s: it is stopped, but its folder remains at %s; remove that: %w", name, away, err)
	}
	values, err := r.o.Store.ExtensionValues(ctx, name)
	if err != nil {
		return Kept{}, err
	}
	records, err := r.o.Store.CountMemory(ctx, name)
	return Kept{Values: len(values), Records: records}, err
}

// tidy removes what a crash has left in the folder of extensions.
func (r *Registry) tidy() error {
	entries, err := os.ReadDir(r.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, staging) || strings.HasPrefix(name, old) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.o.Dir, name)))
		}
	}
	return err
}

// Scan compares the folders with what is installed. It stops an extension whose folder has
// changed, runs one whose folder is again what a person agreed to, and lists, without running
// it, a folder that nobody agreed to.
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
			r.registerUnaccepted(name)
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
		r.stopExtension(name)
		r.unregister(name)
	}
	return nil
}

// folders returns the names of the folders of extensions.
func (r *Registry) folders() ([]string, error) {
	entries, err := os.ReadDir(r.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list extensions: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && manifest.IsName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// look loads an installed extension, or checks the folder of a loaded one. r.installing must be
// held.
func (r *Registry) look(kept *store.Extension) {
	e, _ := r.find(kept.Name)
	if e == nil || e.kept == nil || e.process == nil {
		r.stopExtension(kept.Name)
		r.register(r.accepted(kept))
		return
	}
	s := e.process.Status()
	refused := s.State == supervise.Failed && errors.Is(s.Err, errChanged)
	if changed := e.unchanged() != nil; changed == refused {
		return
	}
	// The restart checks the folder. It is only triggered here: nobody waits for its outcome.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.process.Restart(ctx)
}

// accepted returns the extension that a person agreed to.
func (r *Registry) accepted(kept *store.Extension) *extension {
	m, problems := manifest.Parse(filepath.Join(r.o.Dir, kept.Name, manifest.FileName), kept.Manifest)
	if m == nil {
		return r.newExtension(kept.Name, kept, nil, fmt.Errorf("its manifest is for another version of ThoughtGate: %w", &ManifestError{problems}))
	}
	return r.newExtension(kept.Name, kept, m, nil)
}

// registerUnaccepted registers a folder that nobody has agreed to. The hooks of its manifest apply
// nevertheless: a person may have agreed to it before the state was lost.
func (r *Registry) registerUnaccepted(name string) {
	var m *manifest.Manifest
	text, err := readManifest(filepath.Join(r.o.Dir, name))
	if err == nil {
		var problems []config.Diagnostic
		m, problems = manifest.Parse(filepath.Join(r.o.Dir, name, manifest.FileName), text)
		if m == nil {
			err = &ManifestError{problems}
		} else if m.Name != name {
			m, err = nil, fmt.Errorf("its manifest has the name %q", m.Name)
		}
	}
	wrong := errNotAccepted
	if err != nil {
		wrong = fmt.Errorf("%w (%w)", errNotAccepted, err)
	}
	r.stopExtension(name)
	r.register(r.newExtension(name, nil, m, wrong))
}

// load registers what is there under a name again, after a change that failed. r.installing
// must be held.
func (r *Registry) load(ctx context.Context, name string) error {
	rows, err := r.o.Store.Extensions(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].Name == name {
			r.register(r.accepted(&rows[i]))
			return nil
		}
	}
	if _, err := os.Lstat(filepath.Join(r.o.Dir, name)); err == nil {
		r.registerUnaccepted(name)
		return nil
	}
	r.unregister(name)
	return nil
}
