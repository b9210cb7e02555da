package agentconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What is to take the place of a configuration is written beside it, under a
// name that says how far it has come. Under the first name it may be half a file
// and is worth nothing. Under the second it is whole, and may be swapped with the
// configuration at any moment; if somebody wrote that at the same moment, then
// what they wrote is here and nowhere else. So the second name says what may be
// in it, and anything else is kept.
const (
	tempSuffix = ".thoughtgate-new-"  // and a random number
	swapSuffix = ".thoughtgate-swap-" // and the digests of the text before and after, and a random number

	randomPattern = "????????"
	shortDigest   = 16 // hex digits of a digest that are put into a name
)

func tempName(base string) string { return base + tempSuffix + randomName() }

func swapName(base string, before, after []byte) string {
	return base + swapSuffix + digest(before)[:shortDigest] + digest(after)[:shortDigest] + randomName()
}

// sweepTemps removes what a killed writer left beside path, and returns what a
// person should know of. Only who holds the lock of path writes such files.
func sweepTemps(path string) (notes []string) {
	pattern := escapeGlob(path)
	half, _ := filepath.Glob(pattern + tempSuffix + randomPattern)
	for _, name := range half {
		if _, err := readFile(name); err == nil { // ours, and no link
			_ = os.Remove(name)
		}
	}
	whole, _ := filepath.Glob(pattern + swapSuffix + strings.Repeat("?", 2*shortDigest) + randomPattern)
	for _, name := range whole {
		if note, err := settleSwap(path, name); err == nil && note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// settleSwap does away with a file that was to be swapped with the one at path,
// or was. If it holds what somebody wrote at the moment of the swap, that takes
// its place again, or is kept where somebody wrote once more after it.
func settleSwap(path, name string) (note string, err error) {
	left, err := readFile(name)
	if err != nil {
		return "", err
	}
	digests := strings.TrimPrefix(name, path+swapSuffix)
	before, after := digests[:shortDigest], digests[shortDigest:2*shortDigest]
	if holds := digest(left.data)[:shortDigest]; holds == before || holds == after {
		return "", os.Remove(name)
	}
	if now, err := readFile(path); err == nil && digest(now.data)[:shortDigest] == after {
		return "", now.bringIn(filepath.Base(name), left.data)
	}
	kept, err := left.copyFor(path, alteredSuffix)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("what somebody wrote while the file was being rewritten is kept as %s", kept), os.Remove(name)
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
	if err := unix.Fsync(dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// openFolder opens a folder for the calls that take names relative to it.
func openFolder(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}
