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

// maxFile is in bytes; the largest configuration seen was a hundredth of it.
const maxFile = 64 << 20

// errChanged says that a file is not what it was when it was read last.
var errChanged = errors.New("the file was changed by someone else meanwhile")

// errNoSwap says that the file system cannot swap two files in one step.
var errNoSwap = errors.New("no swap here")

// file is a configuration as it was read: no link, what it held, and what is to
// be kept of it.
type file struct {
	path string
	data []byte
	mode uint32 // permission bits
	uid  int
	gid  int
	id   identity
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readFile reads a regular file of this user. It follows no link at path itself.
func readFile(path string) (*file, error) {
	return readAt(unix.AT_FDCWD, path, path)
}

// readAt reads name in the folder that dir is open on; path is for messages and
// for later.
func readAt(dir int, name, path string) (*file, error) {
	// Without O_NONBLOCK a pipe planted here would hold us for ever.
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			err = errors.New("is a link where a file was expected")
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := ownRegular(&st); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	data, err := readAll(f, path)
	if err != nil {
		return nil, err
	}
	return &file{path, data, uint32(st.Mode) & 0o7777, int(st.Uid), int(st.Gid), identityOf(&st)}, nil
}

// readAll reads an open file that is not too large.
func readAll(f *os.File, path string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d MiB", maxFile>>20)}
	}
	return data, err
}

// ownRegular refuses what is no regular file, and what belongs to another user:
// it could not be given back to its owner. The superuser can.
func ownRegular(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("is not a regular file")
	}
	if uid := os.Geteuid(); uid != 0 && int(st.Uid) != uid {
		return fmt.Errorf("belongs to another user (%d)", st.Uid)
	}
	return nil
}

// replace puts next in the place of what f holds, in one step, with the mode,
// owner and extended attributes of f. It returns errChanged, and leaves the
// file as it is, when that no longer holds what f does. What is written is noted
// in notes, for whoever finds it should we be killed. step is told what was just
// done.
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
		_, failed := n.settle(notes)
		return errors.Join(err, failed)
	}
	step("temp written")
	n.ID = id
	notes.put(n)
	step("temp identified")
	if err := f.exchange(dir, n.Name, base, next, step); err != nil {
		_, failed := n.settle(notes)
		return errors.Join(err, failed)
	}
	step("renamed")
	if err := syncOpen(dir, folder); err != nil {
		return err
	}
	step("folder synced")
	return notes.drop(n)
}

// exchange swaps temp, which holds next, with base, which should hold f.data.
// When it held something else both are put back: a plain rename would have lost
// what a faster writer wrote. With an error temp is left, and may hold what such
// a writer wrote.
func (f *file) exchange(dir int, temp, base string, next []byte, step func(string)) error {
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
	// Whoever wrote in between saw our text or meant to replace it: the latest stays.
	if late, err := readAt(dir, temp, temp); err == nil && !bytes.Equal(late.data, next) {
		swap(dir, temp, base)
	}
	return errChanged
}

// unchanged looks whether name holds what f does.
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

// create writes a new file beside f, as f in all but its content, and syncs it.
// It never opens what is there already.
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

// copyAttributes copies what extended attributes it may, labels among them. Not
// every file system has them, and some are the kernel's own.
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
			_ = unix.Fsetxattr(to, name, value[:n], 0) // as far as it goes
		}
	}
}

// escapeGlob is the pattern that matches exactly path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// syncFolder makes sure that what was created or removed in a folder stays so.
func syncFolder(path string) error {
	dir, err := openFolder(path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return syncOpen(dir, path)
}

// NewID returns an id that nothing else has: of a session, a protection or a file.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const (
	// A writer that is in the middle of its work leaves half a file for a moment.
	// That is worth waiting for where the alternative is to put such a file aside,
	// and less so where it is an error message.
	settleFor     = time.Second
	settleShortly = 100 * time.Millisecond
	settleEvery   = 20 * time.Millisecond
)

// parseSettled parses a file, giving a writer who is at it a moment to finish: then
// now becomes what was read last. What is doubtful in it is left to the caller.
func parseSettled(now *file, syntax edit.Syntax, patience time.Duration) (*edit.Document, error) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(settleEvery)
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

// What is to take the place of a configuration is written beside it first, and
// is then swapped with it. If somebody wrote the configuration at the moment of
// the swap, then what they wrote is in the temporary file and nowhere else.
//
// Whoever can write to the folder can make a file of any name there, so a name
// says nothing: what was written is noted in a [notebook], and a file that is not
// noted is left alone.
const (
	tempSuffix = Infix + "new-"  // and a random name
	swapSuffix = Infix + "swap-" // of older versions; left alone, and reported
)

// Infix stands behind a configuration's path in the path of everything that we
// make beside it.
const Infix = ".thoughtgate-"

func tempName(base string) string { return base + tempSuffix + NewID() }

// sweepTemps removes what a killed writer left beside path, and returns what a
// person should know of. The caller holds the lock of path.
func sweepTemps(path string, notes notebook) (said []string) {
	for _, n := range notes.of(noteTemp, path) {
		note, err := n.settle(notes)
		if err != nil {
			note = fmt.Sprintf("what is left of a rewrite, %s, stays: %v", n.path(), err)
		}
		if note != "" {
			said = append(said, note)
		}
	}
	return said
}

// path returns where the noted file lies.
func (n *note) path() string { return filepath.Join(filepath.Dir(n.Target), n.Name) }

// settle does away with a temporary file that we noted before we made it. What
// somebody wrote at the moment of a swap takes its place again: that is so where
// the configuration is the very file that we wrote, and the temporary file was
// not touched after the two were swapped. Else what is not ours is kept beside
// the configuration.
func (n *note) settle(notes notebook) (said string, err error) {
	left, err := readFile(n.path())
	if errors.Is(err, fs.ErrNotExist) {
		return "", notes.drop(n)
	}
	if err != nil {
		return "", err
	}
	holds := digest(left.data)
	if n.ID == (identity{}) || holds == n.Before || holds == n.After { // half of what we wrote, or all of it
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
	return fmt.Sprintf("what somebody wrote while the file was being rewritten is kept as %s", kept), n.remove(notes)
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

// syncOpen makes sure that what was created, renamed or removed in a folder stays
// so. Some file systems can't be asked for that.
func syncOpen(dir int, path string) error {
	if err := fsync(dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

var fsync = unix.Fsync // tests watch it, and let it fail

// openFolder opens a folder for the calls that take names relative to it.
func openFolder(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}
