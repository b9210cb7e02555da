package facts

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/worktree"
)

// Files that version control does not hold are lost if they are first moved to where deleting is not
// asked about: a folder for temporary files, or one that git ignores. What a single line moves and
// deletes [effects.Of] tells. Of a line that only moves it is kept where to, for the next ones.

// What Forwarded keeps of a move: each new name, and the folders that it is in.
const (
	movedName   = "moved"
	movedBelow  = "moved below"
	mostNewKeys = 1000
)

// moves keeps where the line moves what nothing else has.
func (s *losses) moves(moves []effects.Move) {
	if s.tree == nil {
		return
	}
	to := map[string][]string{}
	for _, m := range moves {
		names := []string{m.From.Name}
		if m.From.Kind == effects.Pattern {
			names, _ = s.tree.Expand(s.ctx, m.From.Name)
		}
		for _, name := range names {
			switch {
			case m.To == "", m.From.Kind == effects.Below, m.From.Kind == effects.Unknown:
			case m.From.Kind == effects.Pattern:
				to[s.entry(name)] = append(to[s.entry(name)], path.Join(path.Dir(m.To), path.Base(name)))
			default:
				to[s.entry(name)] = append(to[s.entry(name)], m.To)
			}
		}
	}
	if len(to) == 0 || !s.isAnyOnly(slices.Collect(maps.Keys(to))...) {
		return
	}
	for name, names := range to {
		if len(s.inspection.call.Sends) > mostNewKeys || len(to) > 1 && !s.isAnyOnly(name) {
			continue
		}
		for _, at := range names {
			at = s.entry(at)
			s.keep(movedName, at)
			for dir := path.Dir(at); dir != "/" && dir != "."; dir = path.Dir(dir) {
				s.keep(movedBelow, dir)
			}
		}
	}
}

func (s *losses) keep(what, name string) {
	c := s.inspection.call
	c.Sends = append(c.Sends, s.inspection.finder.ownTool(what, name))
}

// isAnyOnly reports whether what is at one of some paths may be nowhere else.
func (s *losses) isAnyOnly(names ...string) bool {
	names = slices.DeleteFunc(names, s.inspection.hasMade)
	if slices.ContainsFunc(names, s.holdsMoved) {
		return true
	}
	_, names, err := s.tree.Ignores(s.ctx, names...)
	if err != nil || len(names) == 0 {
		return err != nil
	}
	r, err := s.tree.Losses(s.ctx, names...)
	return err != nil || r.InNoCommit()+r.Files(worktree.Nested, worktree.Unclear) > 0 || len(r.Missing)+len(r.Elsewhere) < len(names) && !r.Complete()
}

// movedAway adds a loss if what is at a path, which may be deleted otherwise, was moved there.
func (s *losses) movedAway(name string) {
	if s.holdsMoved(name) {
		s.lost(fmt.Sprintf("deletes %s, to which files in no commit were moved", s.inspection.shown(name)))
	}
}

// holdsMoved reports whether something that a call of the session has moved is at a path, below it or
// above it.
func (s *losses) holdsMoved(name string) bool {
	for above := name; above != "/" && above != "."; above = path.Dir(above) {
		if s.inspection.keeps(movedName, above) {
			return true
		}
	}
	if !s.inspection.keeps(movedBelow, name) {
		return false
	}
	found := false // it may be elsewhere again
	_ = filepath.WalkDir(name, func(p string, _ os.DirEntry, err error) error {
		if found = s.ctx.Err() != nil || s.inspection.keeps(movedName, p); found {
			return filepath.SkipAll
		}
		return nil // what can't be read was not moved by the agent
	})
	return found
}

// movedTo returns what a pattern stands for in a folder for temporary files, if something was moved
// there.
func (s *losses) movedTo(p effects.Path) []string {
	folder, _, _ := follow(s.ctx, "/", certain(p))
	if !s.inspection.keeps(movedBelow, folder) {
		return nil
	}
	tree, err := worktree.Find(s.ctx, folder, limits)
	if err != nil {
		s.lost(fmt.Sprintf("deletes %s: what it matches %s", s.inspection.shown(p.Text), s.reason(err)))
		return nil
	}
	defer tree.Close()
	names, err := tree.Expand(s.ctx, p.Name)
	if err != nil {
		s.lost(fmt.Sprintf("deletes %s: what it matches %s", s.inspection.shown(p.Text), s.reason(err)))
	}
	return names
}
