package daemon

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// ours returns the path patterns of all files that no call may touch without a person's approval:
// ThoughtGate's own folders, the files of projects, and the files of wraps and protections. It is
// called for each call; the result must not be modified.
func (d *Daemon) ours() []string {
	of := [...][]string{
		d.policies.current.Load().set.Paths(), d.projects.paths(), d.wraps.paths(d.sessions.Files()), d.guard.Files(),
	}
	d.named.mu.Lock()
	defer d.named.mu.Unlock()
	if d.named.paths == nil || !slices.EqualFunc(of[:], d.named.of[:], slices.Equal) {
		d.named.of, d.named.paths = of, d.oursOf(of[0], of[1], of[2], of[3])
	}
	return d.named.paths
}

// named caches the result of ours, with its inputs.
type named struct {
	mu    sync.Mutex // guards the fields below
	of    [4][]string
	paths []string
}

func (d *Daemon) oursOf(set, projects, wrapped, kept []string) []string {
	all := []string{d.options.Paths.Config, d.options.Paths.State, d.options.Paths.Runtime}
	if path := d.policies.path; path != "" {
		all = append(all, path)
	}
	all = slices.Concat(all, set, projects)
	for _, path := range slices.Concat(wrapped, kept) {
		all = append(all, path)
		if !strings.Contains(filepath.Base(path), agentconf.Infix) {
			all = append(all, path+agentconf.Infix+"*")
		}
	}
	return all
}

// wraps caches the paths of the files of wraps. Finding them requires reading a journal, which
// contains a whole configuration. It is safe for concurrent use.
type wraps struct {
	mu   sync.Mutex // guards the fields below
	of   []session.File
	said []string // the paths for of; never modified
}

// paths returns every path that the files of sessions concern. The result must not be modified.
func (w *wraps) paths(files []session.File) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.EqualFunc(files, w.of, sameFile) {
		return w.said
	}
	w.of, w.said = files, nil
	for _, f := range files {
		paths, err := agentconf.JournalPaths(f.Journal)
		if err != nil {
			paths = []string{f.Path}
		}
		w.said = append(w.said, paths...)
	}
	return w.said
}

// sameFile reports whether a and b are equal. Usually their journals are the same memory, which
// bytes.Equal detects without comparing bytes.
func sameFile(a, b session.File) bool { return a.Path == b.Path && bytes.Equal(a.Journal, b.Journal) }
