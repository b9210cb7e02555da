package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// Contents says what a snapshot has, or would have.
type Contents struct {
	Files, Folders, Links int
	Bytes                 int64
	Left                  []Left // what is not in it, of which some may be left out
}

// Left is something that is not in a snapshot, so that it can't be brought back.
type Left struct {
	Name fileName `json:"name"`
	Why  string   `json:"why"`
}

const maxLeft = 1000

func (c *Contents) leave(name, why string) {
	if len(c.Left) < maxLeft {
		c.Left = append(c.Left, Left{fileName(name), why})
	}
}

// isGit reports whether a part of a path names a repository, on any file system: some ignore
// case, or characters that are not seen.
func isGit(part string) bool {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, part)
	return strings.EqualFold(plain, ".git") || strings.EqualFold(plain, "git~1")
}

// isAllowed reports whether a name may be restored.
func isAllowed(name string) bool {
	return beneath.IsValid(name) && !slices.ContainsFunc(strings.Split(name, "/"), isGit)
}

// openRoot opens the folder that names are below.
func openRoot(path string) (*beneath.Dir, error) {
	if slices.ContainsFunc(strings.Split(path, "/"), isGit) {
		return nil, fmt.Errorf("%s is in a repository, which is never restored", path)
	}
	dir, err := beneath.Open(path)
	return dir, beneath.Explain(err)
}

// collector walks through what a snapshot is to have.
type collector struct {
	ctx      context.Context
	store    *Store
	root     *beneath.Dir
	contents Contents
	// add is called for each file, folder and link: base in dir, a folder before what is in it.
	add func(dir *beneath.Dir, base, name string, info beneath.Info) error
}

// collect walks through some names below the root, in order. What contains them is added too, so
// that it can be restored.
func (c *collector) collect(names []string) error {
	names = slices.Clone(names)
	slices.Sort(names)
	added := map[string]bool{}
	last := ""
	for _, name := range names {
		switch {
		case !beneath.IsValid(name):
			return &fs.PathError{Op: "snapshot", Path: name, Err: fs.ErrInvalid}
		case last == "." || last != "" && (name == last || strings.HasPrefix(name, last+"/")):
			continue
		}
		if slices.ContainsFunc(strings.Split(name, "/"), isGit) {
			c.contents.leave(name, "it is a repository, which is never restored")
			continue
		}
		last = name
		if err := c.collectOne(name, added); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) collectOne(name string, added map[string]bool) error {
	if name == "." {
		return c.walk(".")
	}
	if err := c.addAbove(path.Dir(name), added); err != nil {
		return err
	}
	dir, err := c.root.Dir(path.Dir(name))
	if err != nil {
		return c.skip(path.Dir(name), err)
	}
	isDir, err := c.visit(dir, name)
	dir.Close()
	if isDir && err == nil {
		return c.walk(name)
	}
	return err
}

// addAbove adds the folders around a name.
func (c *collector) addAbove(name string, added map[string]bool) error {
	if name == "." || added[name] {
		return nil
	}
	added[name] = true
	if err := c.addAbove(path.Dir(name), added); err != nil {
		return err
	}
	dir, err := c.root.Dir(path.Dir(name))
	if err != nil {
		return c.skip(name, err)
	}
	defer dir.Close()
	_, err = c.visit(dir, name)
	return err
}

// skip notes what can't be reached. What is not there needs no copy.
func (c *collector) skip(name string, err error) error {
	var failed storeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	var cause *fs.PathError
	if err = beneath.Explain(err); errors.As(err, &cause) {
		err = cause.Err
	}
	c.contents.leave(name, err.Error())
	return nil
}

// walk adds what is in a folder. Only one folder is open at a time, and each is opened from the
// root.
func (c *collector) walk(top string) error {
	for pending := []string{top}; len(pending) > 0; {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		dir, err := c.root.Dir(at)
		if err != nil {
			if err := c.skip(at, err); err != nil {
				return err
			}
			continue
		}
		below, err := c.folder(dir, at)
		dir.Close()
		if err != nil {
			return err
		}
		slices.Reverse(below)
		pending = append(pending, below...)
	}
	return nil
}

// folder adds what is in one folder, and returns the folders in it.
func (c *collector) folder(dir *beneath.Dir, at string) (below []string, err error) {
	names, all, err := dir.Names(c.store.limits.Files)
	if err == nil && !all {
		err = c.tooMany()
	}
	if err != nil {
		return nil, c.skip(at, err)
	}
	slices.Sort(names)
	for _, base := range names {
		name := path.Join(at, base)
		isDir, err := c.visit(dir, name)
		if err != nil {
			return nil, err
		}
		if isDir {
			below = append(below, name)
		}
	}
	return below, nil
}

// visit adds one file, and reports whether it is a folder to look into.
func (c *collector) visit(dir *beneath.Dir, name string) (isDir bool, err error) {
	if err := context.Cause(c.ctx); err != nil {
		return false, err
	}
	base := path.Base(name)
	info, err := dir.Lstat(base)
	if err != nil {
		return false, c.skip(name, err)
	}
	switch self := c.store.self; {
	case isGit(base):
		c.contents.leave(name, "it is a repository, which is never restored")
		return false, nil
	case info.IsDir() && info.Dev == self.Dev && info.Ino == self.Ino:
		c.contents.leave(name, "it has the snapshots")
		return false, nil
	case info.IsDir():
		c.contents.Folders++
	case info.IsLink():
		c.contents.Links++
	case info.IsRegular():
		c.contents.Files++
		if c.contents.Bytes += info.Size; c.contents.Bytes > c.store.limits.Bytes || info.Size < 0 {
			return false, fmt.Errorf("%w: more than %d MiB", ErrTooLarge, c.store.limits.Bytes>>20)
		}
	default:
		c.contents.leave(name, "it is a "+info.Kind())
		return false, nil
	}
	if c.contents.Files+c.contents.Folders+c.contents.Links > c.store.limits.Files {
		return false, c.tooMany()
	}
	return info.IsDir(), c.skip(name, c.add(dir, base, name, info))
}

func (c *collector) tooMany() error {
	return fmt.Errorf("%w: more than %d files", ErrTooLarge, c.store.limits.Files)
}

// Check says what a snapshot of some names below root would have. The error says why there can
// be none, so that a person knows before approving.
func (s *Store) Check(ctx context.Context, root string, names ...string) (Contents, error) {
	dir, err := openRoot(root)
	if err != nil {
		return Contents{}, err
	}
	defer dir.Close()
	c := collector{ctx: ctx, store: s, root: dir, add: func(*beneath.Dir, string, string, beneath.Info) error { return nil }}
	if err := c.collect(names); err != nil {
		return c.contents, err
	}
	free, err := s.dir.Free()
	if err == nil && free-c.contents.Bytes < minFree {
		err = fmt.Errorf("%w: the disk is nearly full", ErrTooLarge)
	}
	return c.contents, err
}
