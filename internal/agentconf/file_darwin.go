package agentconf

import (
	"errors"

	"golang.org/x/sys/unix"
)

// swap exchanges two files in a folder in one step.
func swap(dir int, a, b string) error {
	err := unix.RenameatxNp(dir, a, dir, b, unix.RENAME_SWAP)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return errNoSwap
	}
	return err
}

// keepAccessList does nothing: macOS has access lists too, but only its own library can read
// them. The mode is kept.
func keepAccessList(int, string) error { return nil }
