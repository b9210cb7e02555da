package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	maxRefs        = 200_000
	maxPackedBytes = 64 << 20
	maxSymbolic    = 5 // references that name another one, as in git
)

// ErrNoRef reports that there is no such branch, or one without a commit.
var ErrNoRef = errors.New("no such branch")

// refs reads the references of a repository.
type refs struct {
	t      *Tree
	packed map[string]objectID
}

func (t *Tree) openRefs() (*refs, error) {
	switch {
	case t.unreadable != nil:
		return nil, t.unreadable
	case t.noRefs != nil:
		return nil, t.noRefs
	}
	text, err := readFile(t.common, "packed-refs", maxPackedBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, beneath.Explain(err)
	}
	packed, err := parsePackedRefs(text, t.hash)
	return &refs{t, packed}, err
}

// parsePackedRefs reads the file of references that have no file of their own.
func parsePackedRefs(text []byte, hash int) (map[string]objectID, error) {
	packed := map[string]objectID{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' || line[0] == '^' {
			continue
		}
		digits, name, ok := strings.Cut(line, " ")
		id, isID := parseID(digits, hash)
		if !ok || !isID || !isRefName(name) {
			return nil, errors.New("packed-refs is corrupt")
		}
		if packed[name] = id; len(packed) > maxRefs {
			return nil, errors.New("the repository has more references than are read")
		}
	}
	return packed, nil
}

// isRefName reports whether name can be that of a reference, which is a file below the repository.
func isRefName(name string) bool {
	return beneath.IsValid(name) && strings.HasPrefix(name, "refs/") && len(name) < maxNameBytes
}

// resolve returns the commit or tag that a reference names.
func (r *refs) resolve(name string) (objectID, error) {
	for range maxSymbolic + 1 {
		dir := r.t.common
		if name == "HEAD" || isPerTree(name) {
			dir = r.t.git
		} else if !isRefName(name) {
			return objectID{}, ErrNoRef
		}
		text, err := readSmall(dir, name)
		switch {
		case errors.Is(err, fs.ErrNotExist), isFolder(dir, name):
			if id, ok := r.packed[name]; ok {
				return id, nil
			}
			return objectID{}, ErrNoRef
		case err != nil:
			return objectID{}, beneath.Explain(err)
		}
		next, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			if id, ok := parseID(strings.TrimSpace(text), r.t.hash); ok {
				return id, nil
			}
			return objectID{}, fmt.Errorf("the reference %.100s is corrupt", name)
		}
		name = strings.TrimSpace(next)
	}
	return objectID{}, errors.New("references name each other in a circle")
}

// revision returns the commit or tag that a word names by its whole name or by that of a reference.
func (r *refs) revision(word string) (objectID, bool) {
	if id, ok := parseID(word, r.t.hash); ok {
		return id, true
	}
	if word == "@" {
		word = "HEAD"
	}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if id, err := r.resolve(prefix + word); err == nil {
			return id, true
		}
	}
	return objectID{}, false
}

// isPerTree reports whether each work tree of a repository has a reference of its own.
func isPerTree(name string) bool {
	return strings.HasPrefix(name, "refs/bisect/") || strings.HasPrefix(name, "refs/worktree/") || strings.HasPrefix(name, "refs/rewritten/")
}

// isFolder reports whether a name is only the beginning of others.
func isFolder(dir *beneath.Dir, name string) bool {
	info, err := dir.Lstat(name)
	return err == nil && info.IsDir()
}

// below returns all references whose names begin with a folder such as "refs/remotes", by name.
func (r *refs) below(top string) (map[string]objectID, error) {
	found := map[string]objectID{}
	for name, id := range r.packed {
		if strings.HasPrefix(name, top+"/") {
			found[name] = id
		}
	}
	left := maxRefs
	for pending := []string{top}; len(pending) > 0; {
		at := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		folder, err := r.t.common.Dir(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, beneath.Explain(err)
		}
		names, _, err := folder.Names(left)
		if left -= len(names); err == nil && left <= 0 {
			err = errors.New("the repository has more references than are read")
		}
		for _, base := range names {
			name := at + "/" + base
			info, err2 := folder.Lstat(base)
			switch {
			case err2 != nil || strings.HasSuffix(base, ".lock"):
			case info.IsDir():
				pending = append(pending, name)
			default:
				id, err2 := r.resolve(name)
				if err2 != nil && !errors.Is(err2, ErrNoRef) {
					err = err2
				} else if err2 == nil {
					found[name] = id
				}
			}
		}
		folder.Close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Branch returns the name of the branch that HEAD is on, or "" if it is on none.
func (t *Tree) Branch() string {
	if t.unreadable != nil {
		return ""
	}
	text, err := readSmall(t.git, "HEAD")
	name, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(text, "ref:")), "refs/heads/")
	if err != nil || !ok || !isRefName("refs/heads/"+name) {
		return ""
	}
	return name
}

// Stashes returns how many entries the stash has.
func (t *Tree) Stashes() (int, error) {
	r, err := t.openRefs()
	if err != nil {
		return 0, err
	}
	if _, err := r.resolve("refs/stash"); err != nil {
		if errors.Is(err, ErrNoRef) {
			err = nil
		}
		return 0, err
	}
	log, err := readFile(t.common, "logs/refs/stash", maxPackedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return 1, nil
	}
	return max(1, strings.Count(string(log), "\n")), err
}
