package agentconf

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// An agent may read what is written twice, or wrongly, in another way than we do, or
// not at all. Where that is a part of one server's entry, it concerns that server.
// Anywhere else it may decide which servers there are, what they are called or
// whether they are started: then nothing in the file can be relied on.

// doubt marks the entries that hold something doubtful as such that can't be
// rewritten, and refuses a file that has it elsewhere.
func (f *Found) doubt() error {
	for _, s := range f.Sources {
		for _, d := range s.doc.Doubts() {
			found := false
			for other, e := range each(f.Sources) {
				if other.file.path == s.file.path && e.holds(d.Path) && e.ours == nil && !mentionsUs(s.doc.At(e.Path)) {
					e.fixed, e.Ungoverned, found = cmp.Or(e.fixed, d.Err.Error()), "", true
				}
			}
			if !found {
				return fmt.Errorf("%s: %w", s.Path, d.Err)
			}
		}
	}
	return nil
}

// holds reports whether what is at path is an entry, or in it.
func (e *Entry) holds(path []string) bool {
	at := e.Path
	if e.inner {
		at = at[:len(at)-1]
	}
	return isBelow(path, at)
}

// isBelow reports whether path is above, or leads on from there.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// doubt refuses a document in which it can't be told what of ours stands in it.
func (t *taker) doubt() error {
	for _, d := range t.doc.Doubts() {
		rewritten := slices.ContainsFunc(t.before, func(w entryWas) bool { return isBelow(d.Path, w.Path) || isBelow(w.Path, d.Path) })
		if rewritten || mentionsUs(d.Node) {
			return d.Err
		}
	}
	return nil
}

// mentionsUs reports whether our variables or our program are named anywhere in n.
func mentionsUs(n edit.Node) bool {
	for step, kid := range n.Children() {
		if step == envSocket || step == envSession || mentionsUs(kid) {
			return true
		}
	}
	return n.Kind() == edit.String && filepath.Base(n.Text()) == shimName
}
