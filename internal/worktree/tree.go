// Package worktree says what a command would destroy in a folder that may be a git work tree:
// how many files are in no commit, and which commits no other repository has.
//
// It only reads, and starts no program. git itself would run what the configuration of a
// repository names (filters, hooks, a file system monitor), so the index, references and objects
// are read here. Nothing is taken from a repository's configuration but its format. Every byte
// below the folder may be hostile: nothing outside of it is opened, reading is bounded by
// [Limits] and by the context, and what was not found out is said, never guessed. One bound is
// missing: a file system whose server does not answer blocks any call into it.
//
// It is larger than most packages, since the formats of git are a subject of their own.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// Limits bounds what is read. A zero field means its default.
type Limits struct {
	Entries int   // files and folders to look at; 1,000,000
	Hashed  int64 // bytes of files to compare by content; 256 MiB
	Objects int64 // bytes of objects to unpack; 256 MiB
	Commits int   // commits to look at; 100,000
	Names   int   // names of each kind to list; 10
}

func (l Limits) withDefaults() Limits {
	def := func(limit *int, value int) {
		if *limit <= 0 {
			*limit = value
		}
	}
	def(&l.Entries, 1_000_000)
	def(&l.Commits, 100_000)
	def(&l.Names, 10)
	if l.Hashed <= 0 {
		l.Hashed = 256 << 20
	}
	if l.Objects <= 0 {
		l.Objects = 256 << 20
	}
	return l
}

// ErrNoRepository reports that a folder is in no git work tree.
var ErrNoRepository = errors.New("no git work tree")

// Tree is a folder, and the git repository around it if there is one. It must be closed. Its
// methods must not be called at the same time.
type Tree struct {
	root   *beneath.Dir
	dir    string // what Find was given, below root
	given  string // what Find was given, as an absolute path
	limits Limits

	// Why the repository can't be read, ErrNoRepository if there is none.
	unreadable error
	git        *beneath.Dir // of this work tree: HEAD, index
	common     *beneath.Dir // of all work trees of the repository: objects, refs; git or another
	hash       int          // bytes in the name of an object
	noRefs     error        // why references can't be read
}

// Find returns the work tree around a folder, as git would find it. If there is none, the tree
// is the folder itself.
func Find(ctx context.Context, dir string, limits Limits) (*Tree, error) {
	if !filepath.IsAbs(dir) {
		return nil, &fs.PathError{Op: "find", Path: dir, Err: errors.New("is not an absolute path")}
	}
	full, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	root, err := beneath.Open(full)
	if err != nil {
		return nil, beneath.Explain(err)
	}
	t := &Tree{root: root, dir: ".", given: filepath.Clean(dir), limits: limits.withDefaults(), unreadable: ErrNoRepository}
	if err := t.findGit(ctx, full); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// findGit looks for .git in full and the folders above it.
func (t *Tree) findGit(ctx context.Context, full string) error {
	here, err := t.root.Stat()
	if err != nil {
		return err
	}
	for at := full; ctx.Err() == nil; at = filepath.Dir(at) {
		folder, err := beneath.Open(at)
		if err != nil {
			return nil // what can't be read can't be a repository either
		}
		// As git does, the search ends where another file system begins.
		if info, err := folder.Stat(); err != nil || info.Dev != here.Dev {
			return folder.Close()
		}
		info, err := folder.Lstat(dotGit)
		found := err == nil && (!info.IsDir() || isGitFolder(folder))
		if found {
			t.root.Close()
			t.root = folder
			t.dir, _ = filepath.Rel(at, full)
			t.unreadable = t.openGit(info)
			return nil
		}
		folder.Close()
		if at == "/" {
			return nil
		}
	}
	return ctx.Err()
}

const dotGit = ".git"

// isGitFolder reports whether git would take the .git in folder for a repository, and not go on
// above it.
func isGitFolder(folder *beneath.Dir) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := folder.Lstat(dotGit + "/" + name); err != nil {
			return false
		}
	}
	return true
}

// Close closes the tree.
func (t *Tree) Close() {
	if t.common != t.git {
		t.common.Close()
	}
	t.git.Close()
	t.root.Close()
}

// Root returns the top of the work tree, or the folder if there is no repository.
func (t *Tree) Root() string { return t.root.Path() }

// Repository returns nil if the repository can be read, ErrNoRepository if there is none, and
// otherwise why it can't be.
func (t *Tree) Repository() error { return t.unreadable }

// openGit opens the repository that .git is or names.
func (t *Tree) openGit(info beneath.Info) (err error) {
	switch {
	case info.IsDir():
		t.git, err = t.root.Dir(dotGit)
		t.common = t.git
	case info.IsRegular():
		err = t.openLinked()
	default:
		return fmt.Errorf(".git is a %s, which is not followed", info.Kind())
	}
	if err != nil {
		return beneath.Explain(err)
	}
	for _, dir := range []*beneath.Dir{t.git, t.common} {
		if err := isOwn(dir); err != nil {
			return err
		}
	}
	return t.readFormat()
}

// isOwn returns an error unless a folder belongs to this user. Otherwise somebody else's .git
// in a folder for everybody, such as /tmp, would say what is in a commit.
func isOwn(dir *beneath.Dir) error {
	info, err := dir.Stat()
	if uid := os.Geteuid(); err == nil && uid != 0 && int(info.UID) != uid {
		err = fmt.Errorf("%s belongs to another user", dir.Path())
	}
	return err
}

// openLinked opens the repository that a .git file names. Such a file could name any folder, so
// only two kinds are followed, which git makes: the folder of a further work tree, which names
// this one in return, and that of a submodule, which is in the .git of a folder around it. No
// other file system is entered on the way, and the folders must be the user's own.
func (t *Tree) openLinked() error {
	text, err := readSmall(t.root, dotGit)
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok || name == "" {
		return errors.New("the file .git names no repository")
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.Root(), name)
	}
	name = filepath.Clean(name)
	shared := commonParent(t.Root(), name)
	top, err := beneath.Open(shared)
	if err != nil {
		return err
	}
	defer top.Close()
	rel, err := filepath.Rel(shared, name)
	if err != nil {
		return err
	}
	if t.git, err = top.Dir(rel); err != nil {
		return err
	}
	t.common = t.git
	common, err := readSmall(t.git, "commondir")
	if errors.Is(err, fs.ErrNotExist) {
		return t.checkSubmodule(name)
	}
	if err != nil {
		return err
	}
	return t.openCommon(top, rel, common)
}

// openCommon opens the repository of a further work tree, whose own folder is rel below top.
func (t *Tree) openCommon(top *beneath.Dir, rel, common string) error {
	at := filepath.Join(top.Path(), rel)
	if !filepath.IsAbs(common) {
		common = filepath.Join(at, common)
	}
	back, err := readSmall(t.git, "gitdir")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(back) {
		back = filepath.Join(at, back)
	}
	worktrees := filepath.Dir(at)
	if filepath.Base(worktrees) != "worktrees" || filepath.Clean(common) != filepath.Dir(worktrees) ||
		filepath.Clean(back) != filepath.Join(t.Root(), dotGit) {
		return errors.New("the file .git names a repository that does not have this work tree")
	}
	folder, err := top.Dir(path.Dir(path.Dir(rel)))
	if err != nil {
		return err
	}
	t.common = folder
	return nil
}

// checkSubmodule returns an error unless the folder of the repository is where git keeps those of
// submodules.
func (t *Tree) checkSubmodule(name string) error {
	for above := filepath.Dir(t.Root()); ; above = filepath.Dir(above) {
		if strings.HasPrefix(name, filepath.Join(above, dotGit, "modules")+"/") {
			return nil
		}
		if above == "/" {
			return errors.New("the file .git names a repository elsewhere, which is not followed")
		}
	}
}

// commonParent returns the folder that two clean absolute paths share.
func commonParent(a, b string) string {
	for !strings.HasPrefix(b+"/", strings.TrimSuffix(a, "/")+"/") {
		a = filepath.Dir(a)
	}
	return a
}

// readSmall reads a file of one line, as git writes them.
func readSmall(dir *beneath.Dir, name string) (string, error) {
	text, err := readFile(dir, name, 8<<10)
	return strings.TrimRight(string(text), "\r\n"), err
}

// readFile reads a regular file of up to max bytes.
func readFile(dir *beneath.Dir, name string, max int64) ([]byte, error) {
	f, info, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size > max {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("is larger than %d bytes", max)}
	}
	text := make([]byte, 0, info.Size+1)
	for { // up to info.Size and one more byte, whatever is appended meanwhile
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case err == io.EOF:
			return text, nil
		case err != nil:
			return nil, err
		case len(text) == cap(text):
			return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("changes while it is read")}
		}
	}
}
