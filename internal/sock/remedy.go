package sock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FixForDiskError returns what to do about a file system error from a full disk or a folder without
// write access, and names the folder. It returns an empty string for any other error.
func FixForDiskError(err error) string {
	path := ""
	var one *fs.PathError
	var two *os.LinkError // from a rename
	switch {
	case errors.As(err, &one):
		path = one.Path
	case errors.As(err, &two):
		path = two.New
	}
	if !filepath.IsAbs(path) {
		return ""
	}
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "free space for " + dir
	case errors.Is(err, unix.EROFS):
		return "make " + dir + " writable: it is on a read-only file system"
	case !errors.Is(err, unix.EACCES), unix.Access(dir, unix.W_OK) == nil:
		return ""
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // it was to be created
		return "make " + dir + " writable for its owner"
	}
	return ""
}
