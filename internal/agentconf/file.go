package agentconf

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// maxFile is the maximum size of a file in bytes, a hundred times that of the largest known
// configuration.
const maxFile = 64 << 20

// errChanged reports that a file has changed since it was last read.
var errChanged = errors.New("the file was changed meanwhile by another program")

// errNoSwap reports that the file system cannot swap two files in one step.
var errNoSwap = errors.New("no swap here")

// file is a regular file as it was read: its data, and the metadata that a rewrite keeps.
type file struct {
	path string
	data []byte
	mode uint32 // permission bits
	uid  int
	gid  int
	id   identity

	absent bool // it does not exist; data is what an agent takes for the same
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readFile reads a regular file of this user. It does not follow a link at path itself.
func readFile(path string) (*file, error) {
	return readAt(unix.AT_FDCWD, path, path)
}

// readFileOfAnyOwner reads a regular file of any owner. It follows links.
func readFileOfAnyOwner(path string) (*file, error) {
	return read(unix.AT_FDCWD, path, path, 0, regular)
}

// readAt is readFile for name in the folder that dir is open on. path becomes the path of the file
// and is used in errors.
func readAt(dir int, name, path string) (*file, error) {
	return read(dir, name, path, unix.O_NOFOLLOW, ownRegular)
}

// read reads a file that passes check.
func read(dir int, name, path string, nofollow int, check func(*unix.Stat_t) error) (*file, error) {
	// Without O_NONBLOCK, opening a planted pipe would block forever.
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|nofollow|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			err = errors.New("is a link, not a file")
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := check(&st); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d MiB", maxFile>>20)}
	}
	if err != nil {
		return nil, err
	}
	return &file{path, data, uint32(st.Mode) & 0o7777, int(st.Uid), int(st.Gid), identityOf(&st), false}, nil
}

func regular(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("is not a regular file")
	}
	return nil
}

// ownRegular returns an error unless the file is a regular file of this user. A file of another
// user could not be given back to its owner, except by the superuser.
func ownRegular(st *unix.Stat_t) error {
	if err := regular(st); err != nil {
		return err
	}
	if uid := os.Geteuid(); uid != 0 && int(st.Uid) != uid {
		return fmt.Errorf("belongs to another user (%d)", st.Uid)
	}
	return nil
}

// replace atomically replaces the content of f by next. It keeps the mode, owner and extended
// attributes of f. If the file no longer holds what f does, replace returns errChanged and
// leaves it as it is. A note in notes says what is written, so that it can be found if this
// process is killed. step is called with the name of each step done.
func (f *file) replace(next []byte, notes notebook, step func(string)) error {
	folder, base := filepath.Dir(f.path), filepath.Base(f.path)
	dir, err := openFolder(folder)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	n := &note{Kind: noteTemp, Target: f.path, Name: tempName(base), Before: digest(f.data), After: digest(next)}
	notes.put(n)
	step("temp noted")
	id, err := f.create(dir, n.Name, next)
	if err != nil {
		_, failed := n.resolveTemp(notes)
		return errors.Join(err, failed)
	}
	step("temp written")
	n.ID = id
	notes.put(n)
	step("temp identified")
	if err := f.exchange(dir, n.Name, base, next, step); err != nil {
		_, failed := n.resolveTemp(notes)
		return errors.Join(err, failed)
	}
	step("renamed")
	if err := syncOpen(dir, folder); err != nil {
		return err
	}
	step("folder synced")
	return notes.drop(n)
}

// exchange swaps temp, which holds next, with base, which should hold f.data. If base held
// something else, both are swapped back: a plain rename would have lost what another writer
// wrote. After an error, temp remains and may hold such a writer's text.
func (f *file) exchange(dir int, temp, base string, next []byte, step func(string)) error {
	if f.absent {
		err := unix.Linkat(dir, temp, dir, base, 0) // never replaces a file
		if errors.Is(err, unix.EEXIST) {
			return errChanged
		}
		if err != nil {
			return &fs.PathError{Op: "create", Path: f.path, Err: err}
		}
		step("swapped")
		return unix.Unlinkat(dir, temp, 0)
	}
	if err := f.unchanged(dir, base); err != nil {
		return err
	}
	step("compared")
	err := swap(dir, temp, base)
	swapped := !errors.Is(err, errNoSwap)
	if !swapped {
		err = unix.Renameat(dir, temp, dir, base)
	}
	switch {
	case swapped && errors.Is(err, unix.ENOENT):
		return errChanged
	case err != nil:
		return &fs.PathError{Op: "rename to", Path: f.path, Err: err}
	case !swapped:
		return nil
	}
	step("swapped")
	if f.unchanged(dir, temp) == nil {
		return unix.Unlinkat(dir, temp, 0)
	}
	if err := swap(dir, temp, base); err != nil {
		return &fs.PathError{Op: "rename to", Path: f.path, Err: err}
	}
	step("swapped back")
	// A writer in between saw our text or meant to replace it, so the latest text stays.
	if late, err := readAt(dir, temp, temp); err == nil && !bytes.Equal(late.data, next) {
		swap(dir, temp, base)
	}
	return errChanged
}

// remove removes a file, unless it no longer holds what f does; then it returns errChanged. What
// another writer has written in between is not lost.
func (f *file) remove(notes notebook, step func(string)) error {
	folder, base := filepath.Dir(f.path), filepath.Base(f.path)
	dir, err := openFolder(folder)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := f.unchanged(dir, base); err != nil {
		return err
	}
	n := &note{Kind: noteTemp, Target: f.path, Name: tempName(base), Before: digest(f.data), After: digest(f.data), ID: f.id}
	notes.put(n)
	step("temp noted")
	if err := unix.Renameat(dir, base, dir, n.Name); err != nil {
		return &fs.PathError{Op: "remove", Path: f.path, Err: err}
	}
	step("moved away")
	if err := f.unchanged(dir, n.Name); err != nil {
		if failed := unix.Linkat(dir, n.Name, dir, base, 0); failed != nil {
			_, failed = n.resolveTemp(notes)
			return errors.Join(err, failed)
		}
		return errors.Join(err, n.remove(notes))
	}
	if err := n.remove(notes); err != nil {
		return err
	}
	return syncOpen(dir, folder)
}

// unchanged returns errChanged unless name has the content, mode and owner of f.
func (f *file) unchanged(dir int, name string) error {
	now, err := readAt(dir, name, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(now.data, f.data) || now.mode != f.mode || now.uid != f.uid || now.gid != f.gid {
		return errChanged
	}
	return nil
}

// create writes a new file beside f with the mode, owner and attributes of f, and syncs it. It
// never opens an existing file.
func (f *file) create(dir int, name string, data []byte) (id identity, err error) {
	path := filepath.Join(filepath.Dir(f.path), name)
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return id, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	out := os.NewFile(uintptr(fd), path)
	defer func() {
		if closing := out.Close(); err == nil {
			err = closing
		}
		if err != nil {
			unix.Unlinkat(dir, name, 0)
		}
	}()
	if _, err := out.Write(data); err != nil {
		return id, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return id, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if int(st.Uid) != f.uid || int(st.Gid) != f.gid {
		if err := unix.Fchown(fd, f.uid, f.gid); err != nil {
			return id, &fs.PathError{Op: "keep the owner and group of", Path: f.path, Err: err}
		}
	}
	if err := keepAccessList(fd, f.path); err != nil {
		return id, &fs.PathError{Op: "keep the access list of", Path: f.path, Err: err}
	}
	if err := unix.Fchmod(fd, f.mode); err != nil {
		return id, &fs.PathError{Op: "keep the mode of", Path: f.path, Err: err}
	}
	copyAttributes(fd, f.path)
	if err := out.Sync(); err != nil {
		return id, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return id, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return identityOf(&st), nil
}

// copyAttributes copies extended attributes, such as labels, as far as possible. Not every file
// system has them, and some belong to the kernel.
func copyAttributes(to int, from string) {
	fd, err := unix.Open(from, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, names)
	if err != nil {
		return
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if n, err := unix.Fgetxattr(fd, name, value); name != "" && err == nil {
			_ = unix.Fsetxattr(to, name, value[:n], 0) // best effort
		}
	}
}

// escapeGlob returns the pattern that matches exactly path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// syncFolder makes changes to the entries of a folder durable.
func syncFolder(path string) error {
	dir, err := openFolder(path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return syncOpen(dir, path)
}

// NewID returns a unique id for a session, a protection or a file.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const (
	// A file may be incomplete for a moment while somebody writes it. That is worth a longer
	// wait if the alternative is to set such a file aside, and a shorter one if it is an error
	// message.
	settleTimeout      = time.Second
	shortSettleTimeout = 100 * time.Millisecond
	settleInterval     = 20 * time.Millisecond
)

// parseSettled parses a file. If it does not parse, it rereads it for up to patience, in case
// somebody is writing it; now becomes what was read last. Doubts in the document are left to
// the caller.
func parseSettled(now *file, syntax edit.Syntax, patience time.Duration) (*edit.Document, error) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(settleInterval)
	defer tick.Stop()
	for {
		doc, err := syntax.Read(now.data)
		if err == nil || time.Now().After(deadline) {
			return doc, err
		}
		<-tick.C
		again, failed := readFile(now.path)
		if failed != nil {
			return nil, err
		}
		*now = *again
	}
}

// A new version of a configuration is written beside it first, and then swapped with it. If
// somebody writes the configuration at the moment of the swap, their text is only in the
// temporary file.
//
// Anyone who can write to the folder can create a file of any name there, so a name proves
// nothing. What is written is noted in a [notebook], and a file without a note is left alone.
const (
	tempSuffix = Infix + "new-"  // followed by a random id
	swapSuffix = Infix + "swap-" // of older versions; left alone, and reported
)

// Infix follows the configuration's path in the paths of all files that ThoughtGate makes
// beside it.
const Infix = ".thoughtgate-"

func tempName(base string) string { return base + tempSuffix + NewID() }

// sweepTemps removes what a killed writer left beside path, and returns messages for the
// person. The lock of path must be held.
func sweepTemps(path string, notes notebook) (said []string) {
	for _, n := range notes.of(noteTemp, path) {
		note, err := n.resolveTemp(notes)
		if err != nil {
			note = fmt.Sprintf("can't remove %s, which a rewrite left: %v", n.path(), err)
		}
		if note != "" {
			said = append(said, note)
		}
	}
	return said
}

// path returns the path of the noted file.
func (n *note) path() string { return filepath.Join(filepath.Dir(n.Target), n.Name) }

// resolveTemp removes a temporary file that was noted before it was made. If it holds what somebody
// wrote at the moment of a swap, that text is swapped back: this is the case if the
// configuration is the very file that we wrote, and the temporary file was not touched after
// the swap. Otherwise text that is not ours is kept beside the configuration.
func (n *note) resolveTemp(notes notebook) (said string, err error) {
	left, err := readFile(n.path())
	if errors.Is(err, fs.ErrNotExist) {
		return "", notes.drop(n)
	}
	if err != nil {
		return "", err
	}
	holds := digest(left.data)
	if n.ID == (identity{}) || holds == n.Before || holds == n.After { // nothing that somebody else wrote
		return "", n.remove(notes)
	}
	now, err := readFile(n.Target)
	if err == nil && digest(now.data) == n.After && now.id.sameFile(n.ID) && !left.id.sameFile(n.ID) && left.id.Changed <= now.id.Changed {
		if err := now.bringIn(n.Name, left.data); err != nil {
			return "", err
		}
		return "", notes.drop(n)
	}
	kept, err := left.copyFor(n.Target, alteredSuffix, notes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("what another program wrote during the rewrite was saved as %s", kept), n.remove(notes)
}

// remove removes the noted file, and then the note.
func (n *note) remove(notes notebook) error {
	if err := os.Remove(n.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return notes.drop(n)
}

// bringIn swaps the file called name, which holds next, with f.
func (f *file) bringIn(name string, next []byte) error {
	dir, err := openFolder(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := f.exchange(dir, name, filepath.Base(f.path), next, func(string) {}); err != nil {
		return err
	}
	return syncOpen(dir, filepath.Dir(f.path))
}

// syncOpen makes changes to the entries of an open folder durable. Some file systems don't
// support that.
func syncOpen(dir int, path string) error {
	if err := fsync(dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

var fsync = unix.Fsync // replaced in tests

// openFolder opens a folder for calls that take names relative to it.
func openFolder(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}
