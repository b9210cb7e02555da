package facts

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/worktree"
)

// maxFolders is the number of folders in which is counted what one command discards. The deadline of
// all counting holds as well.
const maxFolders = 16

// git looks at what a command of git discards, or pushes over, wherever it may run.
func (s *losses) git(d *effects.Deed) {
	dirs := []string{""}
	if d.Command >= 0 && d.Command < len(s.line.Commands) {
		dirs = s.line.Commands[d.Command].Dirs
	}
	seen := map[string]bool{"": true}
	for i, dir := range dirs {
		if i == maxFolders {
			s.lost(s.inspection.shown(d.Detail) + ": what it discards in other folders was not counted")
			return
		}
		before, extent := *s, maps.Clone(s.inspection.call.Extent)
		if s.copied != nil {
			copied := *s.copied
			before.copied = &copied
		}
		detail := s.gitIn(dir, d)
		if seen[detail] { // nothing, or the same as in another folder of the tree: take back what gitIn has counted
			parsed := s.parsed
			*s, s.inspection.call.Extent = before, extent
			s.parsed = parsed
			continue
		}
		seen[detail] = true
		s.lost(detail)
	}
}

// gitIn says what a command discards, or pushes over, in a folder, or "" if that is nothing.
func (s *losses) gitIn(dir string, d *effects.Deed) string {
	what := s.inspection.shown(d.Detail)
	c := s.gitCall(d.Command, dir)
	switch {
	case d.Kind == effects.GitSwitch && (d.Remote != "" || c == nil || !c.namesFile(s)):
		return ""
	case d.Remote != "":
		return what + ", on " + s.inspection.shown(d.Remote)
	case c == nil || !s.isAtHome(c):
		return what + ": what it discards could not be counted"
	}
	tree, err := worktree.Find(s.ctx, dir, limits)
	if err != nil {
		return what + ": what it discards " + s.reason(err)
	}
	defer tree.Close()
	if s.tree == nil || tree.Root() != s.tree.Root() && !isBelow(tree.Root(), s.tree.Root()) {
		if effects.IsTemp(tree.Root()+"/x") && d.Kind != effects.GitForcePush {
			return ""
		}
		return what + ", outside of the work tree"
	}
	if d.Kind == effects.GitForcePush {
		return c.pushes(s, tree, what)
	}
	text, err := c.discards(s, tree)
	switch {
	case err != nil:
		return what + ": what it discards " + s.reason(err)
	case text != "":
		return what + ": " + text
	}
	return ""
}

// gitCall is a command of git, and where it runs.
type gitCall struct {
	*effects.GitCall
	index int
	dir   string
	words []string // the operands that are known to the letter
	all   bool     // they are all
}

// gitCall reads a command of git. It returns nil if the folder is not known.
func (s *losses) gitCall(i int, dir string) *gitCall {
	if i < 0 || dir == "" || s.line.Commands[i].Program != "git" {
		return nil
	}
	call := &gitCall{GitCall: s.parseGit(i), index: i, dir: dir, all: true}
	for _, w := range call.Operands {
		word, known := w.Literal()
		if call.all = call.all && known; known {
			call.words = append(call.words, word)
		}
	}
	return call
}

// parseGit sorts the words of command i of the line, which is one of git. A line may have thousands, of
// which each looks at all before it, so they are kept.
func (s *losses) parseGit(i int) *effects.GitCall {
	call := s.parsed[i]
	if call == nil {
		if s.parsed == nil {
			s.parsed = map[int]*effects.GitCall{}
		}
		call = effects.ParseGit(&s.line.Commands[i])
		s.parsed[i] = call
	}
	return call
}

// path returns the path that a word names, or "" if it is not known. git removes .. from the text.
func (c *gitCall) path(w shell.Word) string {
	name := shell.Join(c.dir, w)
	if name == "" {
		return ""
	}
	return path.Clean(name)
}

// isAtHome reports whether a command works on the repository that is found from its folder.
func (s *losses) isAtHome(c *gitCall) bool {
	repository, hasRepository := c.Flag("git-dir")
	tree, hasTree := c.Flag("work-tree")
	for set := range c.earlier(s, "config") {
		key := set.Operands[:min(1, len(set.Operands))]
		if len(set.Operands) > 1 && set.Operands[0].Value == "set" {
			key = set.Operands[1:2]
		}
		if slices.ContainsFunc(key, isPlace) {
			return false
		}
	}
	for _, v := range s.line.Commands[c.index].Env {
		switch name := v.Name; {
		case name == "GIT_DIR" && hasRepository == 0:
			repository, hasRepository = v.Value, 1
		case name == "GIT_WORK_TREE" && hasTree == 0:
			tree, hasTree = v.Value, 1
		case slices.Contains([]string{"GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}, name):
			return false
		case strings.HasPrefix(name, "GIT_CONFIG_KEY_"):
			if isPlace(v.Value) {
				return false
			}
		}
	}
	root := c.dir
	if hasTree > 0 {
		root = c.path(tree)
	}
	switch {
	case hasRepository > 0:
		return root != "" && (root == c.dir || isBelow(c.dir, root)) && c.path(repository) == root+"/.git"
	case hasTree > 0:
		return s.tree != nil && root == s.tree.Root()
	}
	return true
}

// isPlace reports whether the name of a setting may be one that says where the work tree is.
func isPlace(setting shell.Word) bool {
	key, known := setting.Literal()
	return !known || strings.EqualFold(key, "core.worktree") || strings.EqualFold(key, "core.bare")
}

// namesFile reports whether an operand is the name of a file or a pattern for such names.
func (c *gitCall) namesFile(s *losses) bool {
	return c.ignoresCase(s) || slices.ContainsFunc(c.words, func(word string) bool {
		_, exists, _ := follow(s.ctx, "/", c.path(shell.NewWord(word)))
		return exists || isPathspec(word)
	})
}

// ignoresCase reports whether a file may be named in another case.
func (c *gitCall) ignoresCase(s *losses) bool {
	return c.Has("icase-pathspecs") || slices.ContainsFunc(s.line.Commands[c.index].Env, func(v shell.Assign) bool { return v.Name == "GIT_ICASE_PATHSPECS" })
}

// isPathspec reports whether a word is more than a name to git.
func isPathspec(word string) bool {
	return strings.HasPrefix(word, ":") || strings.ContainsAny(word, "*?[\\")
}

// earlier yields the commands of git before this one in the line that are among some.
func (c *gitCall) earlier(s *losses, commands ...string) iter.Seq[*effects.GitCall] {
	return func(yield func(*effects.GitCall) bool) {
		for i := range s.line.Commands[:c.index] {
			if s.line.Commands[i].Program == "git" {
				if call := s.parseGit(i); slices.Contains(commands, call.Command) && !yield(call) {
					return
				}
			}
		}
	}
}

// follows reports whether one of some commands of git is before this one in the line.
func (c *gitCall) follows(s *losses, commands ...string) bool {
	for range c.earlier(s, commands...) {
		return true
	}
	return false
}

// discards says what a command discards that is in no commit, or on no branch. It returns "" if
// that is nothing.
func (c *gitCall) discards(s *losses, tree *worktree.Tree) (text string, err error) {
	switch c.Command {
	case "reset":
		text, err = c.resets(s, tree)
	case "read-tree", "checkout-index", "apply":
		text, err = c.changes(s, tree, worktree.Staged, worktree.Changed)
	case "switch", "checkout":
		text, err = c.switches(s, tree)
	case "restore", "rm":
		text, err = c.restores(s, tree)
	case "clean":
		text, err = c.cleans(s, tree)
	case "stash drop", "stash clear":
		text, err = c.dropsStash(s, tree)
	case "branch", "tag", "update-ref", "symbolic-ref", "worktree add", "fetch", "pull":
		return c.moves(s, tree)
	default:
		return "what it discards can't be brought back", nil
	}
	// What a branch has left before is no commit of it any more, but a change.
	for before := range c.earlier(s, "reset") {
		if text != "" || err != nil || before.Dashed {
			continue
		}
		left := gitCall{GitCall: before, dir: c.dir, index: c.index}
		for _, w := range before.Operands {
			left.words = append(left.words, w.Value)
		}
		if !left.namesFile(s) {
			text, err = left.leaves(s, tree)
		}
	}
	return text, err
}

// changes says how many files have changes of some kinds. What the line adds to the index before is
// discarded as what was there.
func (c *gitCall) changes(s *losses, tree *worktree.Tree, kinds ...worktree.Kind) (string, error) {
	added := slices.Collect(c.earlier(s, "add", "stage"))
	if len(added) > 0 {
		kinds = append(kinds, worktree.Staged, worktree.Changed)
	}
	r, err := tree.Changes(s.ctx, len(added) == 0 && !slices.Contains(kinds, worktree.Untracked))
	if err != nil {
		return "", err
	}
	added = slices.DeleteFunc(added, func(call *effects.GitCall) bool { return call.Has("u") })
	if len(added) > 0 && !slices.Contains(kinds, worktree.Untracked) {
		c.keepAdded(tree, added, &r.Kinds[worktree.Untracked])
		kinds = append(kinds, worktree.Untracked)
	}
	return s.changed(tree, r, "discards the changes of ", kinds...), nil
}

// keepAdded removes from untracked files those that no git add names.
func (c *gitCall) keepAdded(tree *worktree.Tree, added []*effects.GitCall, files *worktree.Count) {
	var names []string
	for _, call := range added {
		for _, w := range call.Operands {
			word, known := w.Literal()
			name, err := tree.Locate(c.path(w))
			if !known || err != nil || name == "." || isPathspec(word) {
				return
			}
			names = append(names, name)
		}
		if len(call.Operands) == 0 { // -A
			return
		}
	}
	files.Names = slices.DeleteFunc(files.Names, func(file string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return file == name || isBelow(file, name) })
	})
	files.Files = len(files.Names)
}

// changed says how many files of some kinds go.
func (s *losses) changed(tree *worktree.Tree, r *worktree.Report, verb string, kinds ...worktree.Kind) string {
	n := r.Files(kinds...)
	if n == 0 && r.Complete() && r.Files(worktree.Unclear) == 0 {
		return ""
	}
	s.canCopy(tree, r, nil, kinds...)
	for _, kind := range []worktree.Kind{worktree.Staged, worktree.Changed, worktree.Untracked, worktree.Nested} {
		if !slices.Contains(kinds, kind) {
			r.Kinds[kind] = worktree.Count{}
		}
	}
	return verb + s.count(r, n, n)
}

// resets looks at the changes, and at the commits that the branch leaves.
func (c *gitCall) resets(s *losses, tree *worktree.Tree) (text string, err error) {
	switch {
	case c.Has("hard"):
		text, err = c.changes(s, tree, worktree.Staged, worktree.Changed)
	case c.Has("merge"):
		text, err = c.changes(s, tree, worktree.Staged)
	}
	if err != nil || text != "" {
		return text, err
	}
	return c.leaves(s, tree)
}

// leaves looks at the commits that the branch leaves by git reset.
func (c *gitCall) leaves(s *losses, tree *worktree.Tree) (string, error) {
	if len(c.words) == 0 || len(c.words) == 1 && c.words[0] == "HEAD" {
		return "", nil
	}
	commits, err := tree.Unpushed(s.ctx, "")
	if err != nil || commits.Count == 0 {
		return "", err
	}
	s.extends("commits", commits.Count)
	return "the branch may lose " + gate.Plural(commits.Count, "commit") + " that no remote has", nil
}

// switches looks at the changes that a switch of branches discards if it is forced to, or a checkout
// of files, and at the commits of a branch that it moves.
func (c *gitCall) switches(s *losses, tree *worktree.Tree) (text string, err error) {
	moves := c.Has("B") || c.Command == "switch" && c.Has("C")
	switch {
	case c.Has("discard-changes"), c.Has("f") && (moves || !c.Dashed && len(c.words) < 2 && !c.namesFile(s)):
		text, err = c.changes(s, tree, worktree.Staged, worktree.Changed)
	case !moves:
		return c.restores(s, tree)
	}
	if text == "" && err == nil && moves {
		text, err = c.moves(s, tree)
	}
	return text, err
}

// restores looks at the changes of the paths that a command names, or at all. From a commit they are
// restored also where git does not know a file yet.
func (c *gitCall) restores(s *losses, tree *worktree.Tree) (string, error) {
	kinds, isSource := []worktree.Kind{worktree.Changed}, c.Has("s") || c.Command == "checkout" && (c.Before > 0 || !c.Dashed && len(c.words) > 1)
	if isSource || c.Command == "rm" || c.Has("S") {
		kinds = append(kinds, worktree.Staged)
	}
	paths, given := []string(nil), map[string]bool{}
	for _, word := range c.words {
		file := c.path(shell.NewWord(word))
		if c.Has("ours", "theirs", "m") && tree.IsUnmerged(file) {
			continue // git has all that it was merged from
		}
		name, err := tree.Locate(file)
		if isPathspec(word) || err != nil || name == "." || c.ignoresCase(s) {
			return c.changes(s, tree, kinds...)
		}
		paths = append(paths, file)
		given[name] = true
	}
	if !c.all || len(c.words) == 0 {
		return c.changes(s, tree, kinds...)
	}
	r, err := tree.Losses(s.ctx, paths...)
	if err != nil {
		return "", err
	}
	if new := &r.Kinds[worktree.Untracked]; (c.Command == "rm" || c.Has("S")) && c.follows(s, "add", "stage") {
		kinds = append(kinds, worktree.Untracked)
	} else if isSource {
		new.Names = slices.DeleteFunc(new.Names, func(name string) bool { return !given[name] })
		new.Files = len(new.Names)
		kinds = append(kinds, worktree.Untracked)
	}
	return s.changed(tree, r, "discards the changes of ", kinds...), nil
}

// cleans looks at the files that git does not know, in the folder of the command or the paths that
// it names.
func (c *gitCall) cleans(s *losses, tree *worktree.Tree) (string, error) {
	var kinds []worktree.Kind
	if !c.Has("X") {
		kinds = append(kinds, worktree.Untracked)
	}
	if c.Has("x", "X") {
		kinds = append(kinds, worktree.Ignored)
	}
	kinds = append(kinds, c.forgotten(s)...)
	if _, times := c.Flag("f"); times > 1 {
		kinds = append(kinds, worktree.Nested)
	}
	paths, whole := []string(nil), !c.all
	for _, word := range c.words {
		whole = whole || isPathspec(word)
		paths = append(paths, c.path(shell.NewWord(word)))
	}
	if len(paths) == 0 || whole {
		paths, whole = []string{c.dir}, false
	}
	for _, p := range paths {
		name, err := tree.Locate(p)
		whole = whole || err != nil || name == "."
	}
	r, err := (*worktree.Report)(nil), error(nil)
	if whole {
		r, err = tree.Changes(s.ctx, false)
	} else {
		r, err = tree.Losses(s.ctx, paths...)
	}
	if err != nil {
		return "", err
	}
	return s.changed(tree, r, "deletes ", kinds...), nil
}

// forgotten returns the kinds of files that the line removes from the index before, so that git does
// not know them any more.
func (c *gitCall) forgotten(s *losses) []worktree.Kind {
	var kinds []worktree.Kind
	for before := range c.earlier(s, "update-index", "read-tree", "rm", "restore", "reset") {
		switch before.Command {
		case "rm":
			if before.Has("cached") {
				return []worktree.Kind{worktree.Staged, worktree.Changed}
			}
		case "restore", "reset":
			if before.Has("S") || before.Command == "reset" && !before.Has("hard") {
				kinds = []worktree.Kind{worktree.Staged}
			}
		default:
			return []worktree.Kind{worktree.Staged, worktree.Changed}
		}
	}
	return kinds
}

// dropsStash looks at what the stash has, and at what the line puts there.
func (c *gitCall) dropsStash(s *losses, tree *worktree.Tree) (string, error) {
	n, err := tree.Stashes()
	if err != nil {
		return "", err
	}
	if n > 0 {
		s.extends("stashes", n)
		return fmt.Sprintf("the stash has work that is on no branch, %d times", n), nil
	}
	left, kinds := 0, []worktree.Kind{worktree.Staged, worktree.Changed}
	for before := range c.earlier(s, "stash", "stash push", "stash save", "stash pop", "stash apply") {
		if before.Command == "stash pop" || before.Command == "stash apply" {
			left--
			continue
		}
		left++
		if before.Has("u", "include-untracked", "a", "all") && !slices.Contains(kinds, worktree.Untracked) {
			kinds = append(kinds, worktree.Untracked)
		}
	}
	if left <= 0 {
		return "", nil
	}
	return c.changes(s, tree, kinds...)
}

// moves says how many commits no branch has when those that a command deletes or moves have left
// them. What the line commits before counts as well.
func (c *gitCall) moves(s *losses, tree *worktree.Tree) (string, error) {
	moved, err := c.moved()
	if err != nil {
		return "", err
	}
	n := 0
	for _, m := range moved {
		if m.ref == "refs/stash" {
			return c.dropsStash(s, tree)
		}
		commits, err := tree.OnlyOn(s.ctx, m.ref, m.to)
		if err != nil && !errors.Is(err, worktree.ErrNoRef) {
			return "", err
		}
		if n += commits.Count; commits.Count == 0 && c.commitsTo(s, tree, m) {
			return c.changes(s, tree, worktree.Staged, worktree.Changed)
		}
	}
	if n == 0 {
		return "", nil
	}
	s.extends("commits", n)
	return "drops " + gate.Plural(n, "commit") + " of no other branch", nil
}

// commitsTo reports whether the line makes commits before, on a branch that then loses them.
func (c *gitCall) commitsTo(s *losses, tree *worktree.Tree, moved movedRef) bool {
	if moved.to == "HEAD" && !c.follows(s, "checkout", "switch") {
		return false
	}
	branch := strings.TrimPrefix(moved.ref, "refs/heads/")
	isNamed := func(w shell.Word) bool { return w.Value == branch }
	return c.follows(s, "commit") && (tree.Branch() == branch || slices.ContainsFunc(s.line.Commands[:c.index], func(before shell.Command) bool {
		return before.Program == "git" && slices.ContainsFunc(before.Args, isNamed)
	}))
}

// movedRef is a reference that is deleted, or set to a revision.
type movedRef struct{ ref, to string }

// word returns an operand, or HEAD if there are fewer.
func (c *gitCall) word(i int) string {
	if i < len(c.words) {
		return c.words[i]
	}
	return "HEAD"
}

// moved returns the references that a command deletes or moves.
func (c *gitCall) moved() (moved []movedRef, err error) {
	if !c.all {
		return nil, errors.New("what it deletes or moves is not known")
	}
	top := map[string]string{"branch": "refs/heads/", "tag": "refs/tags/"}[c.Command]
	switch n := len(c.words); {
	case c.Command == "fetch", c.Command == "pull":
		return c.fetched()
	case c.Has("stdin"):
		return nil, errors.New("it reads which references")
	case c.Command == "symbolic-ref" && c.word(0) == "HEAD": // as a switch of branches
	case top == "" && c.Command != "update-ref" && c.Command != "symbolic-ref": // checkout, switch, worktree add
		name, _ := c.Flag(cmp.Or(map[string]string{"switch": "C"}[c.Command], "B"))
		branch, known := name.Literal()
		if !known {
			return nil, errors.New("the branch is not known")
		}
		return []movedRef{{"refs/heads/" + branch, c.word(strings.Count(c.Command, " "))}}, nil // the first word of worktree add is the folder
	case n == 0, c.Has("r"): // of a remote: can be fetched again
	case c.Has("D", "d"):
		for _, name := range c.words {
			moved = append(moved, movedRef{top + name, ""})
		}
	case c.Has("M", "C", "m", "c") && n == 1:
		return []movedRef{{top + c.words[0], "HEAD"}}, nil
	case c.Has("M", "C", "m", "c"):
		return []movedRef{{top + c.words[1], c.words[0]}}, nil
	default:
		return []movedRef{{top + c.words[0], c.word(1)}}, nil
	}
	return moved, nil
}

// fetched returns the branches that git fetch overwrites.
func (c *gitCall) fetched() (moved []movedRef, err error) {
	for _, refspec := range c.words[min(1, len(c.words)):] {
		_, to, _ := strings.Cut(refspec, ":")
		branch := strings.TrimPrefix(to, "refs/heads/")
		switch {
		case to == "" || !strings.HasPrefix(refspec, "+") && !c.Has("f") || strings.HasPrefix(branch, "refs/") && branch != "refs/*":
		case strings.Contains(to, "*"):
			return nil, errors.New("it overwrites many branches")
		default:
			moved = append(moved, movedRef{"refs/heads/" + branch, ""})
		}
	}
	return moved, nil
}

// pushes says what a forced push drops. The remote may have more than is known here, so it counts
// in any case.
func (c *gitCall) pushes(s *losses, tree *worktree.Tree, what string) string {
	words := c.words
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
	if !c.all || c.Has("d", "mirror", "prune", "all", "tags") || len(words) > 2 || to == "" || len(words) > 1 && strings.HasPrefix(words[1], ":") {
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
