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

// notebook is the path of the folder for notes on what we make in folders that others can write
// to. A note is written before what it describes. The folder is in the state folder, where
// neither a repository nor, through the gate, an agent writes. If it is empty, nothing found
// beside a configuration is taken for ours.
type notebook string

// noteKind is the subject of a note.
type noteKind string

const (
	noteTemp   noteKind = "temp"   // a file that will be swapped with the target
	noteBackup noteKind = "backup" // a copy of the target, which is rewritten until the note is removed
	noteLocks  noteKind = "locks"  // folders that we made because an agent uses them as locks
	noteCopies noteKind = "copies" // copies beside the target that the agent made while it was rewritten
)

// note describes one file or folder that we made.
type note struct {
	Kind   noteKind    `json:"kind"`
	Target string      `json:"target"`           // path without links of the file it was made for
	Path   string      `json:"path,omitempty"`   // of the target, as the agent knows it
	Name   string      `json:"name,omitempty"`   // in the target's folder
	Before string      `json:"before,omitempty"` // hex SHA-256 of the text to be replaced
	After  string      `json:"after,omitempty"`  // and of the complete file
	ID     identity    `json:"id,omitzero"`      // of the complete file
	Locks  []agentLock `json:"locks,omitempty"`
	Lasts  bool        `json:"lasts,omitempty"` // the rewrite is a protection

	file string // path of the note
}

// identity identifies a file and its last change.
type identity struct {
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	Changed int64  `json:"changed"` // change time in nanoseconds
}

func identityOf(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Ctim.Nano()}
}

func (id identity) sameFile(other identity) bool { return id.Dev == other.Dev && id.Ino == other.Ino }

const (
	noteSuffix = ".json"
	maxNotes   = 10000 // maximum number of notes that are read
)

// put writes a note, or overwrites it. A failure is ignored: without the note, what a killed
// process leaves is not taken for ours.
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
		return fmt.Errorf("remove the journal entry of a rewrite: %w", err)
	}
	return nil
}

// all returns all valid notes, sorted by target.
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

// made reports whether the file f is a backup of target that we made, with unchanged content.
func (b notebook) made(f *file, target string) bool {
	return slices.ContainsFunc(b.of(noteBackup, target), func(n *note) bool {
		return n.path() == f.path && n.After == digest(f.data)
	})
}

// forget removes the notes of a backup that was removed.
func (b notebook) forget(target, backup string) error {
	var failed []error
	for _, n := range b.of(noteBackup, target) {
		if n.path() == backup {
			failed = append(failed, b.drop(n))
		}
	}
	return errors.Join(failed...)
}

// Strays returns the configurations that a wrap has rewritten, or copied for that, and that no
// process holds any more, as their agents know them. It relies on the notes in the folder and
// not on a daemon.
func Strays(folder string) []string {
	var paths []string
	for _, n := range notebook(folder).all() {
		if n.Kind != noteBackup || n.Lasts || !filepath.IsAbs(n.Path) || slices.Contains(paths, n.Path) {
			continue
		}
		if isLocked(lockPath(n.Target), n.Path) == nil && NeedsUnwrap(n.Path) {
			paths = append(paths, n.Path)
		}
	}
	return paths
}
