package facts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/worktree"
)

const (
	// lossDeadline is how long it is counted at most what a call would destroy.
	lossDeadline = 300 * time.Millisecond
	mostLooked   = 200_000 // files that are looked at
	mostShown    = 3       // names in a question
	// mostLost and mostLostBytes are how many names of lost files are kept with a call.
	mostLost      = 2000
	mostLostBytes = 256 << 10
)

// losses finds what a line destroys that nothing can bring back: in the work tree what is in no
// commit, elsewhere everything. What can't be found out counts as destroyed.
type losses struct {
	inspection *inspection
	ctx        context.Context // ends when it takes too long
	line       *shell.Line
	parsed     map[int]*effects.GitCall // commands of the line, by their index
	at         where
	tree       *worktree.Tree // of the project; nil if it can't be read

	copied *gate.Loss // what can be copied of what is lost; nil: nothing
	rest   int        // losses of which nothing can be copied

	counted bool // the extent of the loss that is reported next is known
}

// losses adds a fact for what the line destroys. It looks at files only if there is something.
func (in *inspection) losses(line *shell.Line, e *effects.Effects, at where) {
	gone := deleted(line, e)
	git := slices.DeleteFunc(slices.Clone(e.Deeds), func(d effects.Deed) bool {
		return d.Kind != effects.GitDiscard && d.Kind != effects.GitSwitch && d.Kind != effects.GitForcePush
	})
	if len(gone)+len(git)+len(e.Moves) == 0 {
		return
	}
	s := losses{inspection: in, ctx: in.ctx, line: line, at: at}
	if in.finder.own.past {
		s.past(gone, git)
		return
	}
	more := slices.ContainsFunc(in.facts, func(f gate.Fact) bool { return f.Name == gate.FactDestroys })
	if !in.finder.own.takeSlot(in.ctx) {
		if len(gone) == 0 && !slices.ContainsFunc(git, func(d effects.Deed) bool { return d.Kind != effects.GitSwitch }) {
			return
		}
		s.lost("what it destroys could not be counted in time")
		return
	}
	defer in.finder.own.releaseSlot()
	ctx, cancel := context.WithTimeout(in.ctx, in.finder.patience)
	defer cancel()
	s.ctx = ctx
	if tree, err := worktree.Find(ctx, in.call.Project, limits); err == nil {
		defer tree.Close()
		s.tree = tree
	}
	s.files(gone)
	for _, d := range git {
		s.git(&d)
	}
	s.moves(e.Moves)
	if s.copied != nil {
		s.copied.More = more || s.rest > 0
		in.call.Loses = s.copied
	}
}

var limits = worktree.Limits{Entries: mostLooked, Names: mostLost}

// deleted returns the paths that a line deletes. What is only moved, or empty, is not lost.
func deleted(line *shell.Line, e *effects.Effects) []effects.Path {
	gone := slices.DeleteFunc(slices.Clone(e.Deletes), func(p effects.Path) bool {
		switch programAt(line, p) {
		case "mv", "rmdir", "find", "git": // the deeds of the last two tell
			return true
		}
		return p.Remote != ""
	})
	for _, d := range e.Deeds {
		if d.Kind == effects.DeleteRecursive {
			gone = append(gone, d.Paths...)
		}
	}
	return gone
}

func (s *losses) lost(detail string) {
	s.rest++
	if !s.counted {
		sum := sha256.Sum256([]byte(detail))
		s.extends(hex.EncodeToString(sum[:8]), 1)
	}
	s.counted = false
	s.inspection.addDetail(gate.FactDestroys, detail, s.at)
}

// extends adds to the extent of what the call destroys, for the loss that is reported next.
func (s *losses) extends(kind string, n int) {
	c := s.inspection.call
	if c.Extent == nil {
		c.Extent = gate.Extent{}
	}
	c.Extent[kind] += n
	s.counted = true
}

// canCopy notes that the loss which is reported next is of files in a tree: those of some kinds,
// or where their names are not all known, all that is below whole.
func (s *losses) canCopy(tree *worktree.Tree, r *worktree.Report, whole []string, kinds ...worktree.Kind) {
	below, inside := strings.CutPrefix(tree.Root()+"/", s.tree.Root()+"/")
	if !inside {
		return
	}
	names, bytes, known := []string(nil), 0, r.Complete() && r.Files(worktree.Nested, worktree.Unclear) == 0
	for _, kind := range kinds {
		names = append(names, r.Kinds[kind].Names...)
		known = known && len(r.Kinds[kind].Names) == r.Kinds[kind].Files
	}
	if !known {
		names = whole
	}
	for i, name := range names {
		names[i] = path.Join(below, name)
		bytes += len(names[i])
	}
	if s.copied == nil {
		s.copied = &gate.Loss{Root: s.tree.Root()}
	}
	if len(names) == 0 || len(s.copied.Names)+len(names) > mostLost || bytes > mostLostBytes {
		return
	}
	s.copied.Names = append(s.copied.Names, names...)
	s.rest--
}

// files looks at what is deleted.
func (s *losses) files(gone []effects.Path) {
	var names []string
	for _, p := range gone {
		switch {
		case p.Remote != "":
			if !p.Temp {
				s.lost(fmt.Sprintf("deletes %s, on %s", s.inspection.shown(p.Text), s.inspection.shown(p.Remote)))
			}
		case p.Kind == effects.Exact:
			names = append(names, s.entry(p.Name))
		case p.Kind == effects.Pattern && s.holds(p):
			found, err := s.tree.Expand(s.ctx, p.Name)
			if names = append(names, found...); err != nil {
				s.lost(fmt.Sprintf("deletes %s: what it matches %s", s.inspection.shown(p.Text), s.reason(err)))
			}
		case p.Kind == effects.Pattern && s.isTemporary(p):
			names = append(names, s.movedTo(p)...)
		case p.Kind == effects.Below && s.holds(p) && !strings.Contains(p.Tail, ".."):
			names = append(names, path.Dir(p.Name+"x")) // at most all that is in the folder
		case p.Text == "" && !s.isTemporary(p):
			s.lost("deletes files that are known only when it runs")
		case !s.isTemporary(p):
			s.lost(fmt.Sprintf("deletes %s, which is not known to be in the work tree", s.inspection.shown(p.Text)))
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), s.inspection.hasMade)
	s.names(names)
}

// entry returns the path of the folder to which a path leads, with the last part of the path.
func (s *losses) entry(name string) string {
	folder, _, _ := follow(s.ctx, "/", path.Dir(name))
	return path.Join(folder, path.Base(name))
}

// holds reports whether what is known of a path is in the work tree.
func (s *losses) holds(p effects.Path) bool {
	if s.tree == nil {
		return false
	}
	_, err := s.tree.Locate(certain(p))
	return err == nil
}

// certain returns the folder in which a path surely is.
func certain(p effects.Path) string {
	name := p.Name
	if i := strings.IndexAny(name, `*?[\`); p.Kind == effects.Pattern && i >= 0 {
		name = name[:i]
	}
	if p.Kind != effects.Exact {
		name = path.Dir(name + "x")
	}
	return name
}

// isTemporary reports whether a path leads to a folder for temporary files, and not out of it
// through a link.
func (s *losses) isTemporary(p effects.Path) bool {
	if !p.Temp || p.Kind == effects.Unknown {
		return p.Temp
	}
	end, _, _ := follow(s.ctx, "/", certain(p))
	if s.tree != nil && (end == s.tree.Root() || isBelow(s.tree.Root(), end)) {
		return false // the work tree is in it
	}
	if p.Kind != effects.Exact {
		end += "/x"
	}
	return effects.IsTemp(end) && s.ctx.Err() == nil
}

// names looks at paths that are known.
func (s *losses) names(names []string) {
	var elsewhere []string
	if s.tree == nil {
		elsewhere = names
	} else if len(names) > 0 {
		ignored, names, err := s.tree.Ignores(s.ctx, names...)
		for _, name := range ignored {
			s.movedAway(name)
		}
		var r *worktree.Report
		if err == nil && len(names) > 0 {
			r, err = s.tree.Losses(s.ctx, names...)
		}
		switch {
		case err != nil:
			s.lost("deletes files: what is lost " + s.reason(err))
		case r != nil:
			s.report(r, names)
			elsewhere = r.Elsewhere
		}
	}
	for _, name := range elsewhere {
		_, exists, _ := follow(s.ctx, "/", name)
		switch {
		case !exists && s.ctx.Err() == nil:
		case s.isTemporary(effects.Path{Name: name, Temp: effects.IsTemp(name)}):
			s.movedAway(name)
		default:
			s.lost(fmt.Sprintf("deletes %s, which is outside of the work tree", s.inspection.shown(name)))
		}
	}
}

// report adds what is lost of files that are deleted.
func (s *losses) report(r *worktree.Report, deleted []string) {
	if r.Repository {
		s.lost("deletes the repository with all its commits")
	}
	if of := r.Kinds[worktree.Internal]; !r.Repository && (of.Files > len(of.Names) || slices.ContainsFunc(of.Names, func(name string) bool { return !strings.HasSuffix(name, ".lock") })) {
		s.lost("deletes " + gate.Plural(of.Files, "file") + " of the repository itself")
	}
	if slices.ContainsFunc(r.Missing, isOfRepository) && slices.ContainsFunc(s.line.Commands, func(c shell.Command) bool { return c.Program == "git" }) {
		s.lost("deletes what git may have written before in the repository itself")
	}
	never := r.InNoCommit()
	if never+r.Files(worktree.Nested, worktree.Unclear) > 0 || !r.Complete() {
		var whole []string
		for _, given := range deleted {
			if name, err := s.tree.Locate(given); err == nil {
				whole = append(whole, name)
			}
		}
		s.canCopy(s.tree, r, whole, worktree.Staged, worktree.Changed, worktree.Untracked)
		s.lost("deletes " + s.count(r, r.Files(), never))
	}
}

// isOfRepository reports whether a file below a work tree is one of those in which the repository
// keeps commits and what names them.
func isOfRepository(name string) bool {
	return slices.ContainsFunc([]string{"refs", "packed-refs", "objects", "logs"}, func(of string) bool { return name == ".git/"+of || isBelow(name, ".git/"+of) })
}

// count says how many files go, and how many of them are in no commit.
func (s *losses) count(r *worktree.Report, files, never int) string {
	s.extends("files", files)
	s.extends("files in no commit", never)
	text := gate.Plural(files, "file")
	if never == files && files > 0 {
		text += " in no commit"
	} else {
		text += fmt.Sprintf(", %d of them in no commit", never)
	}
	var names []string
	for _, kind := range []worktree.Kind{worktree.Changed, worktree.Staged, worktree.Untracked} {
		names = append(names, r.Kinds[kind].Names...)
	}
	if len(names) > 0 {
		text += " (" + s.inspection.shown(strings.Join(names[:min(len(names), mostShown)], ", ")) + ")"
	}
	if n := r.Files(worktree.Nested); n > 0 {
		s.extends("files in another repository", n)
		text += fmt.Sprintf(", %d in another repository", n)
	}
	if !r.Complete() {
		s.extends("files that were not counted", 1)
		text = "at least " + text + "; the rest " + s.reason(errors.New(r.Gaps[0]))
	}
	return text
}

// reason says why something was not found out.
func (s *losses) reason(err error) string {
	if s.ctx.Err() != nil {
		return "could not be counted in time"
	}
	return "could not be counted: " + s.inspection.shown(err.Error())
}
