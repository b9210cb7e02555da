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
		return d.Kind != effects.GitDiscard && d.Kind != effects.GitForcePush
	})
	if len(gone)+len(git)+len(e.Moves) == 0 {
		return
	}
	s := losses{inspection: in, line: line, at: at}
	more := slices.ContainsFunc(in.facts, func(f gate.Fact) bool { return f.Name == gate.FactDestroys })
	if !in.finder.own.takeSlot(in.ctx) {
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

// git looks at what a command of git discards, or pushes over.
func (s *losses) git(d *effects.Deed) {
	what := s.inspection.shown(d.Detail)
	if d.Remote != "" {
		s.lost(what + ", on " + s.inspection.shown(d.Remote))
		return
	}
	c, ok := s.gitCall(d.Command)
	if !ok {
		s.lost(what + ": what it discards could not be counted")
		return
	}
	tree, err := worktree.Find(s.ctx, c.dir, limits)
	if err != nil {
		s.lost(what + ": what it discards " + s.reason(err))
		return
	}
	defer tree.Close()
	if s.tree == nil || tree.Root() != s.tree.Root() && !isBelow(tree.Root(), s.tree.Root()) {
		if !effects.IsTemp(tree.Root()+"/x") || d.Kind == effects.GitForcePush {
			s.lost(what + ", outside of the work tree")
		}
		return
	}
	if d.Kind == effects.GitForcePush {
		s.lost(c.pushes(s, tree, what))
		return
	}
	text, err := c.discards(s, tree)
	switch {
	case err != nil:
		s.lost(what + ": what it discards " + s.reason(err))
	case text != "":
		s.lost(what + ": " + text)
	}
}

// gitCall is a command of git: where it runs, and its words.
type gitCall struct {
	dir, command string
	args         []shell.Word
}

// gitCall reads a command of git. It fails if the repository is not known.
func (s *losses) gitCall(i int) (*gitCall, bool) {
	if i < 0 || i >= len(s.line.Commands) {
		return nil, false
	}
	c := &s.line.Commands[i]
	if c.Program != "git" || len(c.Dirs) != 1 || slices.ContainsFunc(c.Env, func(v shell.Assign) bool { return strings.HasPrefix(v.Name, "GIT_") }) {
		return nil, false
	}
	call := &gitCall{dir: c.Dirs[0]}
	for n := 0; n < len(c.Args); n++ {
		word, known := c.Args[n].Literal()
		switch {
		case !known, strings.HasPrefix(word, "--git-dir"), strings.HasPrefix(word, "--work-tree"):
			return nil, false
		case word == "-C", word == "-c": // Dirs knows of the first
			n++
		case !strings.HasPrefix(word, "-"):
			call.command, call.args = word, c.Args[n+1:]
			return call, call.dir != ""
		}
	}
	return nil, false
}

// words returns the words that are no flags, and whether all are known to the letter.
func (c *gitCall) words() (words []string, all bool) {
	all = true
	for _, w := range c.args {
		word, known := w.Literal()
		all = all && known
		if known && !strings.HasPrefix(word, "-") {
			words = append(words, word)
		}
	}
	return words, all
}

// has reports whether a flag of one letter is given.
func (c *gitCall) has(letters string) bool {
	return slices.ContainsFunc(c.args, func(w shell.Word) bool {
		flag, ok := strings.CutPrefix(w.Value, "-")
		return ok && !strings.HasPrefix(flag, "-") && strings.ContainsAny(flag, letters)
	})
}

// hasFlag reports whether one of some long flags is given, which may be cut short.
func (c *gitCall) hasFlag(flags ...string) bool {
	return slices.ContainsFunc(c.args, func(w shell.Word) bool {
		return len(w.Value) > 2 && slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, w.Value) })
	})
}

// discards says what a command discards that is in no commit, or on no branch. It returns "" if
// that is nothing.
func (c *gitCall) discards(s *losses, tree *worktree.Tree) (string, error) {
	words, all := c.words()
	switch c.command {
	case "reset":
		return c.resets(s, tree, words)
	case "switch", "read-tree", "checkout-index":
		return c.changes(s, tree)
	case "checkout", "restore", "rm":
		return c.restores(s, tree, words, all)
	case "clean":
		return c.cleans(s, tree)
	case "stash":
		n, err := tree.Stashes()
		if n == 0 {
			return "", err
		}
		s.extends("stashes", n)
		return fmt.Sprintf("the stash has work that is on no branch, %d times", n), nil
	case "branch":
		if !all {
			return "", errors.New("the branch is not known")
		}
		return c.branches(s, tree, words)
	}
	return "what it discards can't be brought back", nil
}

func (c *gitCall) changes(s *losses, tree *worktree.Tree) (string, error) {
	r, err := tree.Changes(s.ctx, true)
	if err != nil {
		return "", err
	}
	return s.changed(tree, r), nil
}

// changed says how many files have changes that are in no commit.
func (s *losses) changed(tree *worktree.Tree, r *worktree.Report) string {
	n := r.Files(worktree.Staged, worktree.Changed)
	if n == 0 && r.Complete() && r.Files(worktree.Unclear) == 0 {
		return ""
	}
	s.canCopy(tree, r, nil, worktree.Staged, worktree.Changed)
	r.Kinds[worktree.Untracked] = worktree.Count{}
	return "discards the changes of " + s.count(r, n, n)
}

// resets looks at the changes, and at the commits that the branch leaves.
func (c *gitCall) resets(s *losses, tree *worktree.Tree, words []string) (string, error) {
	text, err := c.changes(s, tree)
	if err != nil || text != "" || len(words) == 0 || len(words) == 1 && words[0] == "HEAD" {
		return text, err
	}
	commits, err := tree.Unpushed(s.ctx, "")
	if err != nil || commits.Count == 0 {
		return "", err
	}
	s.extends("commits", commits.Count)
	return "the branch may lose " + gate.Plural(commits.Count, "commit") + " that no remote has", nil
}

// restores looks at the changes of the paths that a command names, or at all.
func (c *gitCall) restores(s *losses, tree *worktree.Tree, words []string, all bool) (string, error) {
	special := func(word string) bool { return strings.HasPrefix(word, ":") || strings.ContainsAny(word, "*?[\\") }
	if !all || len(words) == 0 || slices.ContainsFunc(words, special) {
		return c.changes(s, tree)
	}
	paths := make([]string, len(words))
	for i, word := range words {
		paths[i] = shell.Join(c.dir, shell.NewWord(word))
	}
	r, err := tree.Losses(s.ctx, paths...)
	if err != nil {
		return "", err
	}
	return s.changed(tree, r), nil
}

func (c *gitCall) cleans(s *losses, tree *worktree.Tree) (string, error) {
	r, err := tree.Changes(s.ctx, false)
	if err != nil {
		return "", err
	}
	kinds := []worktree.Kind{worktree.Untracked}
	if c.has("xX") {
		kinds = append(kinds, worktree.Ignored)
	}
	n := r.Files(kinds...)
	if n == 0 && r.Complete() {
		return "", nil
	}
	s.canCopy(tree, r, nil, kinds...)
	r.Kinds[worktree.Staged], r.Kinds[worktree.Changed] = worktree.Count{}, worktree.Count{}
	return "deletes " + s.count(r, n, n), nil
}

func (c *gitCall) branches(s *losses, tree *worktree.Tree, names []string) (string, error) {
	n := 0
	for _, name := range names {
		commits, err := tree.OnlyOn(s.ctx, name)
		if err != nil && !errors.Is(err, worktree.ErrNoRef) {
			return "", err
		}
		n += commits.Count
	}
	if n == 0 {
		return "", nil
	}
	s.extends("commits", n)
	return "drops " + gate.Plural(n, "commit") + " of no other branch", nil
}

// pushes says what a forced push drops. The remote may have more than is known here, so it counts
// in any case.
func (c *gitCall) pushes(s *losses, tree *worktree.Tree, what string) string {
	words, all := c.words()
	remote, branch, to := "origin", "", tree.Branch()
	if len(words) > 0 {
		remote = words[0]
	}
	if len(words) > 1 {
		from, target, renamed := strings.Cut(strings.TrimPrefix(words[1], "+"), ":")
		branch, to = from, from
		if renamed {
			to = target
		}
		if from == "HEAD" && !renamed {
			branch, to = "", tree.Branch()
		}
	}
	to = strings.TrimPrefix(to, "refs/heads/")
	if !all || c.has("d") || c.hasFlag("--delete", "--mirror", "--prune", "--all", "--tags") || len(words) > 2 || to == "" || len(words) > 1 && strings.HasPrefix(words[1], ":") {
		return what + ": what the remote loses is not known"
	}
	commits, err := tree.Overwritten(s.ctx, remote, to, strings.TrimPrefix(branch, "refs/heads/"))
	onto := s.inspection.shown(remote + "/" + to)
	if err == nil {
		s.extends("commits of "+onto, commits.Count)
	}
	switch {
	case s.ctx.Err() != nil:
		return what + ": what the remote loses could not be counted in time"
	case err != nil:
		return "force-pushes to " + onto + "; what that drops is not known"
	case commits.Count == 0:
		return "force-pushes to " + onto + "; no commit is known to be dropped"
	}
	return "force-pushes over " + gate.Plural(commits.Count, "commit") + " of " + onto
}
