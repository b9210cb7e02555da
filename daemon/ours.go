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
// own folders, what projects say, and the files of wraps. It is asked for each call,
// and names them in the same order as long as they are the same.
func (d *Daemon) ours() []string {
	set := d.policies.current.Load().set.Paths()
	projects, wrapped, kept := d.projects.paths(), d.wraps.paths(d.sessions.Files()), d.guard.Files()
	all := make([]string, 0, 4+len(set)+len(projects)+2*len(wrapped)+2*len(kept))
	all = append(all, d.options.Paths.Config, d.options.Paths.State, d.options.Paths.Runtime)
	if path := d.policies.path; path != "" {
		all = append(all, path)
	}
	all = append(all, set...)
	all = append(all, projects...)
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
