// Package undo keeps copies of files that a command is about to destroy, and brings them back.
//
// A snapshot is a folder of a [Store], a folder of the user's own outside of any repository. It is
// made before the command runs, without git or another program. A copy exists once its manifest
// does; a folder without one was left by a process that died, and is removed.
//
// Files are read and written below one folder, the root, and nowhere else, also while somebody
// exchanges folders for links (see package beneath). Nothing is restored over something else:
// what changed since is renamed first. The repository itself, below any .git, is neither copied
// nor restored, since it has programs in it that git would run.
package undo

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// Limits bounds what is kept. A zero field means its default.
type Limits struct {
	Files int           // files and folders of a snapshot; 50,000
	Bytes int64         // of a snapshot; 512 MiB
	Count int           // of snapshots; 200
	Total int64         // bytes of all snapshots; 4 GiB
	Age   time.Duration // of a snapshot; 7 days
}

func (l Limits) withDefaults() Limits {
	l.Files = cmp.Or(l.Files, 50_000)
	l.Bytes = cmp.Or(l.Bytes, 512<<20)
	l.Count = cmp.Or(l.Count, 200)
	l.Total = cmp.Or(l.Total, 4<<30)
	l.Age = cmp.Or(l.Age, 7*24*time.Hour)
	return l
}

// minFree is what a snapshot leaves free on the disk.
const minFree = 256 << 20

var (
	// ErrTooLarge reports that the files do not fit in a snapshot.
	ErrTooLarge = errors.New("too large to be undone")
	// ErrNoSnapshot reports that there is no such snapshot, or no longer.
	ErrNoSnapshot = errors.New("no such snapshot: it may have expired")
	// ErrChanged reports that the files are not those that a plan was made for.
	ErrChanged = errors.New("the files changed after the plan was shown")
)

// A Store is the folder with all snapshots. Several processes may use one at the same time.
type Store struct {
	dir    *beneath.Dir
	self   beneath.Info
	limits Limits
	now    func() time.Time
	step   func(string) // called after each step that lasts; a test ends the process in it
}

// Open opens the store at a path, which is created if necessary, and removes what dead processes
// left there. It must be closed.
func Open(path string, limits Limits) (*Store, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	full, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	dir, err := beneath.Open(full)
	if err != nil {
		return nil, beneath.Explain(err)
	}
	s := &Store{dir: dir, limits: limits.withDefaults(), now: time.Now, step: func(string) {}}
	if s.self, err = dir.Stat(); err == nil {
		switch uid := os.Geteuid(); {
		case int(s.self.UID) != uid:
			err = fmt.Errorf("%s belongs to another user", full)
		case s.self.Perm()&0o077 != 0:
			err = dir.Chmod(0o700)
		}
	}
	if err == nil {
		err = s.removeUnfinished()
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() { s.dir.Close() }

// Info describes a snapshot.
type Info struct {
	ID     string
	Label  string    // as given to Snapshot
	Root   string    // the folder that the names are below
	Names  []string  // what was asked for
	Made   time.Time // when
	Digest string    // of the manifest: that of another snapshot, or an altered one, differs
	Contents
}

const (
	timeFormat = "20060102T150405"
	// maxNames bounds the names in the store's own folders.
	maxNames = 100_000
)

var idFormat = regexp.MustCompile(`^\d{8}T\d{6}-[0-9a-f]{8}$`)

func (s *Store) newID() string { return s.now().UTC().Format(timeFormat) + "-" + random(4) }

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ids returns the names of all snapshots, the oldest first, also of unfinished ones.
func (s *Store) ids() ([]string, error) {
	names, _, err := s.dir.Names(maxNames)
	names = slices.DeleteFunc(names, func(name string) bool { return !idFormat.MatchString(name) })
	slices.Sort(names)
	return names, err
}

// List returns all snapshots, the newest first. It leaves out those that can't be read.
func (s *Store) List() ([]Info, error) {
	ids, err := s.ids()
	var list []Info
	for _, id := range slices.Backward(ids) {
		dir, err := s.open(id, unix.LOCK_SH)
		if err != nil {
			continue
		}
		if m, err := readManifest(dir); err == nil {
			list = append(list, m.info())
		}
		dir.Close()
	}
	return list, err
}

// open opens the folder of a snapshot and locks it, so that nobody removes it, or with
// unix.LOCK_EX, so that nobody reads it.
func (s *Store) open(id string, how int) (*beneath.Dir, error) {
	if !idFormat.MatchString(id) {
		return nil, ErrNoSnapshot
	}
	dir, err := s.dir.Dir(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoSnapshot
	}
	if err != nil {
		return nil, err
	}
	if err := dir.Flock(how); err != nil {
		dir.Close()
		return nil, fmt.Errorf("the snapshot is in use: %w", err)
	}
	return dir, nil
}

// removeUnfinished removes snapshots without a manifest, but those that are being made.
func (s *Store) removeUnfinished() error {
	ids, err := s.ids()
	for _, id := range ids {
		if _, err := s.dir.Lstat(id + "/" + manifestName); errors.Is(err, fs.ErrNotExist) {
			_ = s.Remove(id)
		}
	}
	return err
}

// Remove removes a snapshot. It fails if the snapshot is being made or restored.
func (s *Store) Remove(id string) error {
	dir, err := s.open(id, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer dir.Close()
	// Without the manifest, what is left is removed by the next Open.
	if err := dir.Unlink(manifestName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.step("manifest removed")
	return os.RemoveAll(filepath.Join(s.dir.Path(), id))
}

// Expire removes the snapshots that are past the limits, the oldest first.
func (s *Store) Expire() error { return s.makeRoom(0, 0) }

// makeRoom is Expire with room for more snapshots of some bytes.
func (s *Store) makeRoom(count int, bytes int64) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	sizes := make([]int64, len(ids))
	total := bytes
	for n, id := range ids {
		sizes[n] = s.size(id)
		total += sizes[n]
	}
	oldest := s.now().Add(-s.limits.Age)
	var failed error
	for n, id := range ids {
		made, err := time.Parse(timeFormat, id[:len(timeFormat)])
		if left := len(ids) - n; err == nil && !made.Before(oldest) && left+count <= s.limits.Count && total <= s.limits.Total {
			break
		}
		if err := s.Remove(id); err != nil && !errors.Is(err, ErrNoSnapshot) {
			failed = err // in use: the next one may go
			continue
		}
		total -= sizes[n]
	}
	if total > s.limits.Total {
		return errors.Join(fmt.Errorf("%w: other snapshots are in use", ErrTooLarge), failed)
	}
	return nil
}

// size returns how many bytes a snapshot has.
func (s *Store) size(id string) (size int64) {
	dir, err := s.dir.Dir(id)
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _, _ := dir.Names(maxNames)
	for _, name := range names {
		if info, err := dir.Lstat(name); err == nil {
			size += info.Size
		}
	}
	return size
}
