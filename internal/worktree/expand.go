package worktree

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// Expand returns the paths that a shell's pattern stands for, as absolute paths. A pattern may be
// absolute or relative to the folder that Find was given; what is quoted in it has to be escaped
// by backslashes. As in shells, * and ? don't match a dot at the beginning of a name. A part ** is
// any number of folders, which not every shell takes it for. Links are not followed. The error
// says why some paths may be missing.
func (t *Tree) Expand(ctx context.Context, pattern string) ([]string, error) {
	parts := strings.Split(pattern, "/")
	first := slices.IndexFunc(parts, func(part string) bool {
		_, is := literal(part)
		return !is
	})
	if first < 0 {
		name, _ := literal(pattern)
		return []string{name}, nil
	}
	for n := range first {
		parts[n], _ = literal(parts[n])
	}
	start := strings.Join(parts[:first], "/")
	if start == "" && strings.HasPrefix(pattern, "/") {
		start = "/"
	}
	if start == "" {
		start = "."
	}
	name, err := t.Locate(start)
	if err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(parts[first:], func(part string) bool { return part == "" || part == "." })
	if slices.Contains(parts, "..") {
		return nil, errors.New("the pattern leads through .. to folders that are not known")
	}
	e := expansion{t: t, ctx: ctx, entries: t.limits.Entries, onlyFolders: strings.HasSuffix(pattern, "/")}
	e.walk(name, parts)
	slices.Sort(e.found)
	found := slices.Compact(e.found)
	for n := range found {
		found[n] = path.Join(t.Root(), found[n])
	}
	return found, e.err
}

// expansion collects what a pattern matches.
type expansion struct {
	t           *Tree
	ctx         context.Context
	entries     int
	onlyFolders bool
	found       []string
	err         error
}

// walk matches the parts of a pattern with what is below a folder.
func (e *expansion) walk(top string, parts []string) {
	type task struct {
		dir   string
		parts []string
	}
	for pending := []task{{top, parts}}; len(pending) > 0 && !e.isOver(); {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		part, rest := at.parts[0], at.parts[1:]
		anyDepth := part == "**"
		if anyDepth && len(rest) > 0 {
			pending = append(pending, task{at.dir, rest})
		}
		dir, err := e.t.root.Dir(at.dir)
		if err != nil {
			e.err = beneath.Explain(err)
			continue
		}
		names, all, err := dir.Names(e.entries)
		if e.entries -= len(names); !all && err == nil {
			err = errors.New("there are more files than are looked at")
		}
		if err != nil {
			e.err = err
		}
		for _, base := range names {
			name := joinName(at.dir, base)
			if base[0] == '.' && part[0] != '.' && !strings.HasPrefix(part, `\.`) || !anyDepth && !matchPart(part, base) {
				continue
			}
			if len(rest) == 0 && !e.onlyFolders {
				e.found = append(e.found, name)
			}
			if len(rest) == 0 && !anyDepth && !e.onlyFolders {
				continue
			}
			info, err := dir.Lstat(base)
			if err == nil && len(rest) == 0 && e.onlyFolders && info.IsDir() {
				e.found = append(e.found, name)
			}
			if len(rest) == 0 && !anyDepth {
				continue
			}
			switch {
			case err != nil:
			case info.IsLink() && !anyDepth:
				e.err = errors.New("the pattern leads through a symbolic link, which is not followed")
			case info.IsDir() && anyDepth:
				pending = append(pending, task{name, at.parts})
			case info.IsDir():
				pending = append(pending, task{name, rest})
			}
		}
		dir.Close()
	}
}

func (e *expansion) isOver() bool {
	if err := context.Cause(e.ctx); err != nil {
		e.err = err
		return true
	}
	return e.entries <= 0
}
