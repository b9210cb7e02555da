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

// ours names every file that no call may touch without a person's word: our
// own folders, what projects say, and the files of wraps. It is asked for each call;
// what it returns is not to be changed.
func (d *Daemon) ours() []string {
	of := [...][]string{
		d.policies.current.Load().set.Paths(), d.projects.paths(), d.wraps.paths(d.sessions.Files()), d.guard.Files(),
	}
	d.named.mu.Lock()
	defer d.named.mu.Unlock()
	if d.named.said == nil || !slices.EqualFunc(of[:], d.named.of[:], slices.Equal) {
		d.named.of, d.named.said = of, d.oursOf(of[0], of[1], of[2], of[3])
	}
	return d.named.said
}

// named is what is ours, and of what that was made.
type named struct {
	mu   sync.Mutex // guards what follows
	of   [4][]string
	said []string
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

// wraps knows what the files of wraps are about. To find that out a journal has to be
// read, which holds a whole configuration. It is safe for concurrent use.
type wraps struct {
	mu   sync.Mutex // guards what follows
	of   []session.File
	said []string // of these; not changed
}

// paths returns every file that the files of sessions are about; it is not to be
// changed.
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

// sameFile reports whether two say the same of one file. Most often their journal is
// one piece of memory, of which no byte is looked at then.
func sameFile(a, b session.File) bool { return a.Path == b.Path && bytes.Equal(a.Journal, b.Journal) }
