package worktree

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// maxAllPatterns bounds how many patterns are kept. What more of them would ignore is Untracked.
const maxAllPatterns = 100_000

// survey looks at files, and counts them by kind.
type survey struct {
	t       *Tree
	ctx     context.Context
	report  *Report
	entries int   // that may still be looked at
	hashed  int64 // bytes that may still be compared
	rules   int   // patterns that may still be kept

	index   *index // nil if it can't be read
	head    *head  // nil if it can't be read
	found   []bool // by entry of the index: a file of the name was found
	tracked bool   // only what git knows is looked for
}

// Losses says what is lost with some paths, which are absolute or relative to the folder that
// Find was given. They are names, not patterns; see Expand. The error is that of ctx only if
// nothing was found out before its end, and Report.Gaps has it otherwise.
func (t *Tree) Losses(ctx context.Context, paths ...string) (*Report, error) {
	s, err := t.newSurvey(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var names []string
	for _, given := range paths {
		name, err := t.Locate(given)
		if err != nil {
			s.report.Elsewhere = append(s.report.Elsewhere, given)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	last := ""
	for n, name := range names {
		if n > 0 && (name == last || last == "." || strings.HasPrefix(name, last+"/")) {
			continue
		}
		last = name
		s.start(name)
	}
	return s.report, nil
}

// Changes says what of the tree is in no commit: `git reset --hard` loses what is Staged or
// Changed, `git checkout .` and `git restore .` what is Changed, `git clean -fd` what is
// Untracked, and with -x what is Ignored as well. With tracked, only Staged and Changed are
// looked for, which is faster.
func (t *Tree) Changes(ctx context.Context, tracked bool) (*Report, error) {
	s, err := t.newSurvey(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.tracked = tracked
	s.walk(folder{name: "."}, true)
	s.countAbsent()
	return s.report, nil
}

// Ignores returns those of some paths that git is told not to know, with all that is in them, and
// the others. It does not look into folders.
func (t *Tree) Ignores(ctx context.Context, paths ...string) (ignored, others []string, err error) {
	s, err := t.newSurvey(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	for _, given := range paths {
		if name, err := t.Locate(given); err == nil && s.ignores(name) {
			ignored = append(ignored, given)
		} else {
			others = append(others, given)
		}
	}
	return ignored, others, nil
}

// IsUnmerged reports whether a path is a file that git could not merge.
func (t *Tree) IsUnmerged(given string) bool {
	name, err := t.Locate(given)
	if err != nil {
		return false
	}
	x, err := t.readIndex()
	if err != nil {
		return false
	}
	e, _ := x.lookup(name)
	return e != nil && e.stage > 0
}

// ignores reports whether a path is ignored, and git knows nothing in it.
func (s *survey) ignores(name string) bool {
	if name == "." || s.index == nil {
		return false
	}
	info, err := s.t.root.Lstat(name)
	known, _ := s.index.lookup(name)
	if err != nil || known != nil || s.index.hasBelow(name) || s.index.isLeftOut(name) {
		return false
	}
	in := s.enclosing(path.Dir(name))
	return !in.nested && !in.internal && !s.isGit(in, path.Base(name)) && (in.ignored || in.rules.ignores(name, info.IsDir()))
}

func (t *Tree) newSurvey(ctx context.Context) (*survey, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &survey{t: t, ctx: ctx, report: &Report{}, entries: t.limits.Entries, hashed: t.limits.Hashed, rules: maxAllPatterns}
	if errors.Is(t.unreadable, ErrNoRepository) {
		return s, nil
	}
	var err error
	if s.index, err = t.readIndex(); err != nil {
		s.report.miss(err.Error())
		return s, nil
	}
	s.found = make([]bool, len(s.index.entries))
	if s.head, err = t.openHead(ctx, s.index); err != nil {
		s.report.miss(err.Error())
	}
	return s, nil
}

func (s *survey) close() { s.head.close() }

// readIndex reads the index of the work tree.
func (t *Tree) readIndex() (*index, error) {
	if t.unreadable != nil {
		return nil, t.unreadable
	}
	info, err := t.git.Lstat("index")
	if errors.Is(err, fs.ErrNotExist) {
		return &index{}, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := readFile(t.git, "index", maxIndexBytes)
	if err != nil {
		return nil, beneath.Explain(err)
	}
	x, err := parseIndex(data, t.hash)
	if err != nil {
		return nil, err
	}
	x.mtime = stamp(info.Mtime.Unix())
	return x, nil
}

// errElsewhere reports that a path does not lead to the tree.
var errElsewhere = errors.New("is not in the tree")

// Locate returns the name below the tree of a path that a command was given. As for the command,
// ".." is the folder above the one that was reached, which is the one before in the path only
// if no link leads there.
func (t *Tree) Locate(given string) (string, error) {
	if given == "" || strings.Contains(given, "\x00") {
		return "", errElsewhere
	}
	name := given
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.Root(), t.dir) + "/" + name
	}
	if below, ok := cutFolder(name, t.given); ok { // which may lead through links
		name = filepath.Join(t.Root(), t.dir) + "/" + below
	}
	name, ok := cutFolder(name, t.Root())
	if !ok {
		return "", errElsewhere
	}
	at := "."
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			if at == "." {
				return "", errElsewhere
			}
			if info, err := t.root.Lstat(at); err != nil || !info.IsDir() {
				return "", errElsewhere
			}
			at = path.Dir(at)
		default:
			at = path.Join(at, part)
		}
	}
	if info, err := t.root.Lstat(at); beneath.IsLinked(err) || err == nil && info.IsLink() && strings.HasSuffix(given, "/") {
		return "", errElsewhere
	}
	return at, nil
}

// cutFolder returns what follows the path of a folder in a path.
func cutFolder(name, dir string) (string, bool) {
	if name == dir {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// A folder is one to look into.
type folder struct {
	name     string
	rules    *rules
	ignored  bool
	nested   bool // in a repository of its own
	internal bool // below .git
}

// start looks at one of the given paths.
func (s *survey) start(name string) {
	info, err := s.t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.report.Missing = append(s.report.Missing, name)
		return
	case err != nil:
		s.report.miss(beneath.Explain(err).Error())
		return
	}
	in := folder{name: "."}
	if name != "." {
		in = s.enclosing(path.Dir(name))
	}
	if name == "." {
		s.report.Folders++
		s.walk(in, false)
		return
	}
	if s.isGit(in, path.Base(name)) {
		s.report.Repository = s.report.Repository || !errors.Is(s.t.unreadable, ErrNoRepository)
	}
	if info.IsDir() {
		s.report.Folders++
		s.walk(s.child(in, path.Base(name)), false)
		return
	}
	s.file(in, name, info, s.t.root, name)
}

// isGit reports whether a name in a folder is that of the repository of the tree.
func (s *survey) isGit(in folder, base string) bool { return in.name == "." && base == dotGit }

// enclosing returns a folder above one of the given paths, with the rules that hold in it.
func (s *survey) enclosing(name string) folder {
	at := folder{name: "."}
	if name != "." {
		at = s.child(s.enclosing(path.Dir(name)), path.Base(name))
	}
	dir, err := s.t.root.Dir(at.name)
	if err != nil {
		s.report.miss(beneath.Explain(err).Error())
		return at
	}
	defer dir.Close()
	has := func(name string) bool {
		_, err := dir.Lstat(name)
		return err == nil
	}
	s.enter(&at, dir, has)
	return at
}

// child returns a folder in another one, from what is known without opening it.
func (s *survey) child(in folder, base string) folder {
	at := folder{joinName(in.name, base), in.rules, in.ignored, in.nested, in.internal || s.isGit(in, base)}
	at.ignored = at.ignored || in.rules.ignores(at.name, true)
	return at
}

// enter completes a folder when it is open.
func (s *survey) enter(at *folder, dir *beneath.Dir, has func(string) bool) {
	none := errors.Is(s.t.unreadable, ErrNoRepository)
	if at.internal || at.nested || s.index == nil && !none {
		return
	}
	if at.name != "." && has(dotGit) && (none || !s.index.hasBelow(at.name)) {
		at.nested = true
		if len(s.report.Repositories) < s.t.limits.Names {
			s.report.Repositories = append(s.report.Repositories, at.name)
		}
		return
	}
	if none {
		return
	}
	if at.name == "." {
		at.rules = s.topRules()
	}
	if at.ignored && !s.index.hasBelow(at.name) {
		return
	}
	read, err := readRules(dir, at.name, at.rules, has)
	if err != nil {
		s.report.miss(beneath.Explain(err).Error())
	}
	if read == at.rules {
		return
	}
	if s.rules -= len(read.ignore) + len(read.attributes); s.rules < 0 {
		s.report.miss("there are more patterns of ignored files than are read")
		return
	}
	at.rules = read
}

// topRules reads the patterns that the repository has beside those in the tree. Those that a
// user has for all repositories are not read: what they ignore counts as Untracked.
func (s *survey) topRules() *rules {
	r := &rules{dir: ".", done: s.ctx.Done()}
	for name, list := range map[string]*[]rule{"exclude": &r.ignore, "attributes": &r.attributes} {
		text, err := readFile(s.t.common, "info/"+name, maxRulesBytes)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.report.miss(beneath.Explain(err).Error())
		case name == "exclude":
			*list = parseIgnore(text)
		default:
			*list = parseAttributes(text)
		}
	}
	return r
}

// walk looks at all that is in a folder. Only one folder is open at a time, and each is opened
// from the top, so that no depth needs many descriptors and no folder that is moved meanwhile
// leads elsewhere.
func (s *survey) walk(top folder, withoutGit bool) {
	for pending := []folder{top}; len(pending) > 0; {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		dir, err := s.t.root.Dir(at.name)
		if err != nil {
			s.report.miss(beneath.Explain(err).Error())
			continue
		}
		names, all, err := dir.Names(s.entries)
		if err != nil {
			s.report.miss(err.Error())
		}
		slices.Sort(names)
		s.enter(&at, dir, func(name string) bool {
			_, found := slices.BinarySearch(names, name)
			return found
		})
		var below []folder
		for _, base := range names {
			if s.isGit(at, base) {
				if withoutGit {
					continue
				}
				s.report.Repository = s.report.Repository || !errors.Is(s.t.unreadable, ErrNoRepository)
			}
			if !s.next() {
				dir.Close()
				return
			}
			info, err := dir.Lstat(base)
			if err != nil {
				continue // removed just now
			}
			if !info.IsDir() {
				s.file(at, joinName(at.name, base), info, dir, base)
				continue
			}
			if child := s.child(at, base); !s.tracked || s.index == nil || s.index.hasBelow(child.name) {
				s.report.Folders++
				below = append(below, child)
			}
		}
		dir.Close()
		if !all {
			s.entries = 0
			s.next()
			return
		}
		slices.Reverse(below) // in the order of names
		pending = append(pending, below...)
	}
}

// next reports whether another file may be looked at.
func (s *survey) next() bool {
	if s.isOver() {
		return false
	}
	if s.entries--; s.entries < 0 {
		s.report.miss("there are more files than are counted")
		return false
	}
	return true
}

// isOver reports whether the context has ended.
func (s *survey) isOver() bool {
	err := context.Cause(s.ctx)
	if err != nil {
		s.report.miss("the time was up: " + err.Error())
	}
	return err != nil
}

// countAbsent counts what is staged but has no file.
func (s *survey) countAbsent() {
	if s.index == nil || s.head == nil || !s.report.Complete() {
		return
	}
	for n := range s.index.entries {
		e := &s.index.entries[n]
		if s.found[n] || e.skipped || e.intended || e.stage > 0 || e.mode&modeKind == modeTree || e.mode&modeKind == modeGitlink {
			continue
		}
		has, err := s.head.has(s.ctx, e)
		if err != nil {
			s.report.miss(err.Error())
			return
		}
		if !has {
			s.report.count(Staged, e.name, int64(e.size), s.t.limits.Names)
		}
	}
}
