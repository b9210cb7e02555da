package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
