package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// Ungoverned is a server that the agent of a session starts without ThoughtGate.
type Ungoverned struct {
	Server string
	Path   string // of the configuration, as the agent knows it
	How    string // added or changed
}

// Amend stores how to restore files of an open session that the wrap is about to rewrite; each
// replaces an earlier entry with the same path, as remotes replace those of the same name. ungoverned replaces the list of servers that run
// past the session. When Amend returns, the files are on disk and the changes are recorded.
func (r *Registry) Amend(ctx context.Context, wrap Process, id string, files []File, remotes []agentconf.Remote, ungoverned []Ungoverned) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[id]
	switch {
	case s == nil:
		return fmt.Errorf("amend session %s: %w", id, gate.ErrNotFound)
	case s.Wrap != wrap:
		return fmt.Errorf("amend session %s: it belongs to process %d: %w", id, s.Wrap.PID, gate.ErrForbidden)
	case !s.present: // the session's files may be restored at any moment
		return fmt.Errorf("amend session %s: it is not open: %w", id, gate.ErrNotRunning)
	}
	before, known := s.files, s.remotes
	s.files = merge(s.files, files, func(f File) string { return f.Path })
	s.remotes = merge(s.remotes, remotes, func(one agentconf.Remote) string { return one.Server })
	if err := r.save(ctx, s); err != nil {
		s.files, s.remotes = before, known
		return fmt.Errorf("amend session %s: %w", id, err)
	}
	if len(files) > 0 {
		if err := r.recordSession(ctx, s, "amended", filesOf(files)); err != nil {
			return fmt.Errorf("amend session %s: %w", id, err)
		}
	}
	for _, u := range ungoverned {
		if slices.Contains(s.ungoverned, u) {
			continue
		}
		r.log.Warn("a server is ungoverned in its session", "session", id, "server_id", u.Server, "path", u.Path, "how", u.How)
		if err := r.recordSession(ctx, s, "ungoverned", fmt.Sprintf("server %q in %s was %s", u.Server, u.Path, u.How)); err != nil {
			return fmt.Errorf("amend session %s: %w", id, err)
		}
	}
	s.ungoverned = slices.Clone(ungoverned)
	return nil
}

// merge returns old with next added; what has the same key is replaced.
func merge[T any](old, next []T, key func(T) string) []T {
	all := slices.Clone(old)
	for _, f := range next {
		if i := slices.IndexFunc(all, func(have T) bool { return key(have) == key(f) }); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
	}
	return all
}
