package worktree

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"
)

// A Commit is one commit that would be lost. Its texts are as the repository has them, so they
// must be made safe before they are shown.
type Commit struct {
	ID      string
	Author  string
	Subject string // at most 200 bytes
	When    time.Time
}

// Commits are the commits that would be lost.
type Commits struct {
	Count int
	First []Commit // the newest, up to Limits.Names
}

// Unpushed returns the commits of a branch, or of HEAD if it is empty, that no remote-tracking
// reference has.
func (t *Tree) Unpushed(ctx context.Context, branch string) (Commits, error) {
	return t.notOn(ctx, refOf(branch), "refs/remotes")
}

// OnlyOn returns the commits of a reference such as "refs/heads/main" that no other reference has,
// nor one of some revisions, and that are therefore lost with it. A revision that only git could
// tell has none.
func (t *Tree) OnlyOn(ctx context.Context, ref string, revisions ...string) (Commits, error) {
	if branch := t.Branch(); ref == "HEAD" && branch != "" {
		ref = refOf(branch)
	}
	return t.notOn(ctx, ref, "refs", revisions...)
}

// notOn returns the commits of a reference that no other one below a folder has, nor one of some
// revisions.
func (t *Tree) notOn(ctx context.Context, own, top string, revisions ...string) (Commits, error) {
	r, err := t.openRefs()
	if err != nil {
		return Commits{}, err
	}
	from, err := r.resolve(own)
	if err != nil {
		return Commits{}, err
	}
	found, err := r.below(top)
	if err != nil {
		return Commits{}, err
	}
	delete(found, own)
	others := slices.Collect(maps.Values(found))
	for _, revision := range revisions {
		if id, ok := r.revision(revision); ok {
			others = append(others, id)
		}
	}
	if slices.Contains(others, from) {
		return Commits{}, nil
	}
	return t.difference(ctx, from, others)
}

// Overwritten returns the commits that a remote's branch had when it was last fetched or pushed
// to, and that a branch, or HEAD if it is empty, does not have: what a forced push drops.
func (t *Tree) Overwritten(ctx context.Context, remote, remoteBranch, branch string) (Commits, error) {
	r, err := t.openRefs()
	if err != nil {
		return Commits{}, err
	}
	from, err := r.resolve("refs/remotes/" + remote + "/" + remoteBranch)
	if err != nil {
		return Commits{}, err
	}
	with, err := r.resolve(refOf(branch))
	if err != nil {
		return Commits{}, err
	}
	return t.difference(ctx, from, []objectID{with})
}

func refOf(branch string) string {
	if branch == "" || branch == "HEAD" {
		return "HEAD"
	}
	return "refs/heads/" + branch
}

// difference returns the commits that are reachable from one and from none of the others.
func (t *Tree) difference(ctx context.Context, from objectID, others []objectID) (Commits, error) {
	if err := t.isShallow(); err != nil {
		return Commits{}, err
	}
	objects, err := t.openObjects()
	if err != nil {
		return Commits{}, err
	}
	defer objects.close()
	w := walk{objects: objects, limit: t.limits.Commits, seen: map[objectID]*visit{}}
	if err := w.add(ctx, from, false); err != nil {
		return Commits{}, err
	}
	for _, id := range others {
		if err := w.add(ctx, id, true); err != nil {
			return Commits{}, err
		}
	}
	if err := w.run(ctx); err != nil {
		return Commits{}, err
	}
	return w.result(t.limits.Names), nil
}

// isShallow returns an error if the history is cut off.
func (t *Tree) isShallow() error {
	info, err := t.common.Lstat("shallow")
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Size == 0:
		return nil
	case err != nil:
		return err
	}
	return errors.New("the repository is shallow: its history is cut off")
}

// walk finds the commits that are reachable from some commits and not from others, newest first.
type walk struct {
	objects *objects
	limit   int
	seen    map[objectID]*visit
	queue   queue
	wanted  int // in queue, and not excluded
	oldest  int64
}

// A visit is a commit that was reached.
type visit struct {
	commit
	id       objectID
	excluded bool
	queued   bool
}

// overlap is how many more commits are looked at when only excluded ones are left. Clocks that
// were wrong make a commit look older than its parents, so that it is found to be excluded late.
const overlap = 1000

func (w *walk) add(ctx context.Context, id objectID, excluded bool) error {
	if v := w.seen[id]; v != nil {
		if excluded {
			w.exclude(v)
		}
		return nil
	}
	if len(w.seen) >= w.limit {
		return fmt.Errorf("the history has more than the %d commits that are read", w.limit)
	}
	data, err := w.readCommit(ctx, id, excluded)
	if err != nil || data == nil {
		return err
	}
	c, err := parseCommit(data, w.objects.hash)
	if err != nil {
		return err
	}
	v := &visit{commit: c, id: id, excluded: excluded, queued: true}
	w.seen[id] = v
	heap.Push(&w.queue, v)
	if !excluded {
		w.wanted++
	}
	return nil
}

// readCommit reads a commit, or that of a tag. It returns nil for references to something else.
func (w *walk) readCommit(ctx context.Context, id objectID, excluded bool) ([]byte, error) {
	for range maxSymbolic {
		obj, err := w.objects.read(ctx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case obj.kind == kindCommit:
			return obj.data, nil
		case obj.kind != kindTag && excluded:
			return nil, nil
		case obj.kind != kindTag || len(obj.data) < 7+2*w.objects.hash:
			return nil, errObject
		}
		next, ok := parseID(string(obj.data[7:7+2*w.objects.hash]), w.objects.hash)
		if !ok || string(obj.data[:7]) != "object " {
			return nil, errObject
		}
		id = next
	}
	return nil, errObject
}

// exclude marks a commit and those of its ancestors that were reached.
func (w *walk) exclude(v *visit) {
	for pending := []*visit{v}; len(pending) > 0; {
		v := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if v.excluded {
			continue
		}
		if v.excluded = true; v.queued {
			w.wanted--
		}
		for _, id := range v.parents {
			if parent := w.seen[id]; parent != nil {
				pending = append(pending, parent)
			}
		}
	}
}

func (w *walk) run(ctx context.Context) error {
	w.oldest = math.MaxInt64
	more := overlap
	for len(w.queue) > 0 {
		if w.wanted == 0 && w.queue[0].when < w.oldest {
			if more--; more < 0 {
				return nil
			}
		}
		v := heap.Pop(&w.queue).(*visit)
		v.queued = false
		if !v.excluded {
			w.wanted--
			w.oldest = min(w.oldest, v.when)
		}
		for _, id := range v.parents {
			if err := w.add(ctx, id, v.excluded); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) result(max int) Commits {
	var left []*visit
	for _, v := range w.seen {
		if !v.excluded {
			left = append(left, v)
		}
	}
	slices.SortFunc(left, func(a, b *visit) int {
		return cmp.Or(cmp.Compare(b.when, a.when), slices.Compare(a.id[:], b.id[:]))
	})
	c := Commits{Count: len(left)}
	for _, v := range left[:min(max, len(left))] {
		c.First = append(c.First, Commit{w.objects.format(v.id), v.author, v.subject, time.Unix(v.when, 0).UTC()})
	}
	return c
}

// queue is a heap of commits, the newest first.
type queue []*visit

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].when > q[j].when }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for container/heap.
func (q *queue) Push(x any) { *q = append(*q, x.(*visit)) }

// Pop is for container/heap.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
