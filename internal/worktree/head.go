package worktree

import (
	"context"
	"errors"
	"path"
)

// maxTreeNames bounds how many names of the last commit are kept.
const maxTreeNames = 1_000_000

// head answers whether the last commit has a file.
type head struct {
	objects *objects
	root    objectID
	unborn  bool // there is no commit yet
	index   *index

	names int                             // in all of trees
	trees map[string]map[string]treeEntry // by folder, nil for one that the commit does not have
	same  map[string]bool                 // whether a folder is in the index as in the commit
}

// openHead reads the last commit. It must be closed.
func (t *Tree) openHead(ctx context.Context, x *index) (*head, error) {
	r, err := t.openRefs()
	if err != nil {
		return nil, err
	}
	objects, err := t.openObjects()
	if err != nil {
		return nil, err
	}
	h := &head{objects: objects, index: x, trees: map[string]map[string]treeEntry{}, same: map[string]bool{}}
	id, err := r.resolve("HEAD")
	if errors.Is(err, ErrNoRef) {
		h.unborn = true
		return h, nil
	}
	var c commit
	if err == nil {
		var data []byte
		if data, err = objects.readKind(ctx, id, kindCommit); err == nil {
			c, err = parseCommit(data, t.hash)
		}
	}
	if err != nil {
		h.close()
		return nil, err
	}
	h.root = c.tree
	return h, nil
}

func (h *head) close() {
	if h != nil {
		h.objects.close()
	}
}

// has reports whether the commit has an entry of the index: a file of this name and content.
func (h *head) has(ctx context.Context, e *entry) (bool, error) {
	if h.unborn {
		return false, nil
	}
	dir := path.Dir(e.name)
	same, err := h.isSame(ctx, dir)
	if same || err != nil {
		return same, err
	}
	tree, err := h.tree(ctx, dir)
	if err != nil {
		return false, err
	}
	found, ok := tree[path.Base(e.name)]
	return ok && found.id == e.id && found.mode&modeKind == e.mode&modeKind, nil
}

// isSame reports whether the index knows that a folder is in it as in the commit, so that its
// trees need not be read.
func (h *head) isSame(ctx context.Context, dir string) (bool, error) {
	if same, known := h.same[dir]; known {
		return same, nil
	}
	same := false
	if dir == "." {
		id, ok := h.index.trees[""]
		same = ok && id == h.root
	} else {
		var err error
		if same, err = h.isSame(ctx, path.Dir(dir)); err != nil {
			return false, err
		}
		if id, ok := h.index.trees[dir]; ok && !same {
			above, err := h.tree(ctx, path.Dir(dir))
			if err != nil {
				return false, err
			}
			same = above[path.Base(dir)].id == id
		}
	}
	h.same[dir] = same
	return same, nil
}

// tree returns the names in a folder of the commit.
func (h *head) tree(ctx context.Context, dir string) (map[string]treeEntry, error) {
	if tree, known := h.trees[dir]; known {
		return tree, nil
	}
	id := h.root
	if dir != "." {
		above, err := h.tree(ctx, path.Dir(dir))
		if err != nil {
			return nil, err
		}
		e, ok := above[path.Base(dir)]
		if !ok || e.mode&modeKind != modeTree {
			h.trees[dir] = nil
			return nil, nil
		}
		id = e.id
	}
	data, err := h.objects.readKind(ctx, id, kindTree)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(data, h.objects.hash)
	if err != nil {
		return nil, err
	}
	if h.names += len(tree); h.names > maxTreeNames {
		return nil, errBudget
	}
	h.trees[dir] = tree
	return tree, nil
}
