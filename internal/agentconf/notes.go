package agentconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// notebook is the path of the folder in which we note what we make in folders
// that others can write to, before we make it: it lies in the state folder, where
// neither a repository nor, through the gate, an agent writes. Empty for none:
// then nothing that is found beside a configuration is taken for ours.
type notebook string

// noteKind is what a note is about.
type noteKind string

const (
	noteTemp   noteKind = "temp"   // a file that is to be swapped with the target
	noteBackup noteKind = "backup" // a copy of the target, which is rewritten until the note goes
	noteLocks  noteKind = "locks"  // folders that we made because an agent takes them for locks
	noteCopies noteKind = "copies" // beside the target, which the agent made while it was rewritten
)

// note is one file or folder that we made.
type note struct {
	Kind   noteKind    `json:"kind"`
	Target string      `json:"target"`           // links resolved: what it was made for
	Path   string      `json:"path,omitempty"`   // of the target, as the agent knows it
	Name   string      `json:"name,omitempty"`   // in the target's folder
	Before string      `json:"before,omitempty"` // hex SHA-256 of the text that is to be replaced
	After  string      `json:"after,omitempty"`  // and of what the file holds once it is whole
	ID     identity    `json:"id,omitzero"`      // of the file once it is whole
	Locks  []agentLock `json:"locks,omitempty"`
	Lasts  bool        `json:"lasts,omitempty"` // the rewrite is a protection

	file string // that holds the note
}

// identity tells a file from every other, and whether it was changed.
type identity struct {
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	Changed int64  `json:"changed"` // nanoseconds
}

func identityOf(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Ctim.Nano()}
}

func (id identity) sameFile(other identity) bool { return id.Dev == other.Dev && id.Ino == other.Ino }

const (
	noteSuffix = ".json"
	maxNotes   = 10000 // that are read
)

// put writes a note, anew where it was written before. One that can't be written
// is no reason to stop: without it what we leave behind is not taken for ours.
func (b notebook) put(n *note) {
	if b == "" || os.MkdirAll(string(b), 0o700) != nil {
		return
	}
	if n.file == "" {
		n.file = filepath.Join(string(b), NewID()+noteSuffix)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return
	}
	temp := n.file + "~"
	_ = os.Remove(temp)
	if writeCopy(temp, text) != nil || os.Rename(temp, n.file) != nil {
		_ = os.Remove(temp)
		return
	}
	_ = syncFolder(string(b))
}

// drop removes a note, if it was written.
func (b notebook) drop(n *note) error {
	if n.file == "" {
		return nil
	}
	if err := os.Remove(n.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the note of a rewrite: %w", err)
	}
	return nil
}

// all returns the notes that can be read, in the order of their targets.
func (b notebook) all() []*note {
	if b == "" {
		return nil
	}
	entries, _ := os.ReadDir(string(b))
	var notes []*note
	for _, entry := range entries[:min(len(entries), maxNotes)] {
		path := filepath.Join(string(b), entry.Name())
		if !strings.HasSuffix(path, noteSuffix) {
			continue
		}
		f, err := readFile(path)
		if err != nil {
			continue
		}
		n := &note{file: path}
		if json.Unmarshal(f.data, n) == nil && filepath.IsAbs(n.Target) && filepath.Base(n.Name) == cmp.Or(n.Name, ".") {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b *note) int { return strings.Compare(a.Target, b.Target) })
	return notes
}

// of returns the notes of one kind about target.
func (b notebook) of(kind noteKind, target string) []*note {
	return slices.DeleteFunc(b.all(), func(n *note) bool { return n.Kind != kind || n.Target != target })
}

// made reports whether the copy f of target is one that we made, and holds what
// it held then.
func (b notebook) made(f *file, target string) bool {
	return slices.ContainsFunc(b.of(noteBackup, target), func(n *note) bool {
		return n.path() == f.path && n.After == digest(f.data)
	})
}

// forget removes the note of a backup that is gone.
func (b notebook) forget(target, backup string) error {
	var failed []error
	for _, n := range b.of(noteBackup, target) {
		if n.path() == backup {
			failed = append(failed, b.drop(n))
		}
	}
	return errors.Join(failed...)
}

// Strays returns the configurations that a wrap has rewritten, or copied to do so,
// and that nobody holds any more, as their agents know them. They are found by the
// notes in the folder, whatever any daemon knows.
func Strays(folder string) []string {
	var paths []string
	for _, n := range notebook(folder).all() {
		if n.Kind != noteBackup || n.Lasts || !filepath.IsAbs(n.Path) || slices.Contains(paths, n.Path) {
			continue
		}
		if isLocked(lockPath(n.Target), n.Path) == nil && Concerned(n.Path) {
			paths = append(paths, n.Path)
		}
	}
	return paths
}
