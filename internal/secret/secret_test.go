package secret

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced whole, is its owner's alone, and nothing is left beside it. What an earlier write
// left there is neither used nor followed.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	for _, text := range []string{"a long first text", "second"} {
		if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o644), os.Symlink(other, path+".new")); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFile(path); got != text || err != nil { // which refuses a file that others can read
			t.Errorf("read %q, %v", got, err)
		}
	}
	if theirs, err := os.ReadFile(other); string(theirs) != "theirs" || err != nil {
		t.Errorf("the file behind a link: %q, %v", theirs, err)
	}
	if _, err := os.Lstat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left beside it: %v", err)
	}
	if err := WriteFile(filepath.Join(dir, "no", "folder"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// A lock is one process's alone until it is closed, and a link in its place is not followed.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	first.Close()
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	again.Close()
	if err := os.Symlink(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path + "2"); err == nil {
		t.Error("followed a link")
	}
}
