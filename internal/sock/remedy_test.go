package sock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemedy(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	for _, test := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: missing, Err: unix.ENOSPC}, "free space for " + dir},
		{fmt.Errorf("lock: %w", &fs.PathError{Op: "write", Path: missing, Err: unix.EDQUOT}), "free space for " + dir},
		{&fs.PathError{Op: "mkdir", Path: missing, Err: unix.EROFS}, "make " + dir + " writable: it is on a read-only file system"},
		{&os.LinkError{Op: "rename", Old: "/a/b", New: missing, Err: unix.EROFS}, "make " + dir + " writable: it is on a read-only file system"},
		{&fs.PathError{Op: "open", Path: missing, Err: unix.EACCES}, ""}, // the folder is writable
		{&fs.PathError{Op: "open", Path: "/", Err: unix.EACCES}, ""},     // it exists and can't be read
		{&fs.PathError{Op: "open", Path: missing, Err: unix.ENOENT}, ""},
		{&fs.PathError{Op: "write", Path: "named", Err: unix.ENOSPC}, ""}, // no folder that could be named
		{errors.New("no space left on device"), ""},
		{nil, ""},
	} {
		if got := FixForDiskError(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
	if os.Geteuid() == 0 {
		return // root may write everywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if got, want := FixForDiskError(&fs.PathError{Op: "open", Path: missing, Err: unix.EACCES}), "make "+dir+" writable for its owner"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
