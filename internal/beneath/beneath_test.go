package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// newDir makes a folder with everything that is to be opened or not.
func newDir(t *testing.T) *Dir {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(base, "top")
	if err := errors.Join(os.MkdirAll(top+"/a/b", 0o755), os.Mkdir(base+"/outside", 0o755), os.WriteFile(base+"/outside/x", nil, 0o644),
		os.WriteFile(top+"/a/file", []byte("text"), 0o644), os.WriteFile(top+"/a/b/odd\xffname", nil, 0o644),
		os.Symlink("a", top+"/inner"), os.Symlink("../outside", top+"/outer"), os.Symlink("file", top+"/a/link"),
		unix.Mkfifo(top+"/pipe", 0o644)); err != nil {
		t.Fatal(err)
	}
	d, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestOpen opens names in both ways: with openat2 where there is one, and part by part.
func TestOpen(t *testing.T) {
	d := newDir(t)
	for name, want := range map[string]bool{
		".": true, "a": true, "a/b": true, "a/file": true, "a/b/odd\xffname": true,
		"inner": false, "inner/b": false, "inner/file": false, "outer": false, "outer/x": false, "a/link": false, "a/none": false, "a/file/x": false,
	} {
		for way, open := range map[string]func(int, string, int, bool) (int, error){"system": openat, "walking": openWalking} {
			fd, err := open(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK, true)
			if (err == nil) != want {
				t.Errorf("%s, %q: %v", way, name, err)
			}
			if err == nil {
				unix.Close(fd)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		".": true, "a": true, "a/b": true, "...": true, "a/\xff": true,
		"": false, "/": false, "/a": false, "a/": false, "..": false, "a/../b": false, "./a": false, "a//b": false, "a\x00": false,
	} {
		if got := IsValid(name); got != want {
			t.Errorf("IsValid(%q): %v", name, got)
		}
	}
	d := newDir(t)
	for _, name := range []string{"../outside/x", "..", "/etc/passwd", "a/../../outside"} {
		if _, _, err := d.Open(name); err == nil {
			t.Errorf("%q was opened", name)
		}
		if _, err := d.Lstat(name); err == nil {
			t.Errorf("%q was looked at", name)
		}
		if _, err := d.Dir(name); err == nil {
			t.Errorf("%q was opened as a folder", name)
		}
	}
	for _, name := range []string{"a/new", "..", ".", "", "../new"} {
		if f, err := d.Create(name, 0o600); err == nil {
			f.Close()
			t.Errorf("%q was created", name)
		}
		if d.Mkdir(name, 0o700) == nil || d.Symlink("x", name) == nil || d.Unlink(name) == nil || d.RenameNew(name, "new") == nil || d.RenameNew("pipe", name) == nil {
			t.Errorf("%q was changed", name)
		}
	}
	names, all, err := d.Names(100)
	slices.Sort(names)
	if want := []string{"a", "inner", "outer", "pipe"}; err != nil || !all || !slices.Equal(names, want) {
		t.Errorf("got %q, %v, %v", names, all, err)
	}
	if names, all, _ := d.Names(2); len(names) != 2 || all {
		t.Errorf("got %q, %v, want two of more", names, all)
	}
}

func TestKinds(t *testing.T) {
	d := newDir(t)
	if _, _, err := d.Open("pipe"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a pipe: %v", err)
	}
	if _, _, err := d.Open("a"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
	if info, err := d.Lstat("outer"); err != nil || !info.IsLink() {
		t.Errorf("a link: %v, %v", info.Kind(), err)
	}
	if target, err := d.Readlink("outer"); target != "../outside" || err != nil {
		t.Errorf("a link to %q, %v", target, err)
	}
	if _, err := Open(d.Path() + "/inner"); !IsLinked(err) {
		t.Errorf("a path with a link: %v", err)
	}
	if err := d.RenameNew("pipe", "a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := d.RenameNew("inner", "renamed"); err != nil {
		t.Error(err)
	}
}

// TestOtherFileSystem has a file system below the folder.
func TestOtherFileSystem(t *testing.T) {
	d := newDir(t)
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux")
	}
	at := filepath.Join(d.Path(), "a/b")
	if err := mountTemporary(at); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	}()
	for way, open := range map[string]func(int, string, int, bool) (int, error){"system": openat, "walking": openWalking} {
		if fd, err := open(d.fd, "a/b", unix.O_RDONLY, true); !errors.Is(err, unix.EXDEV) {
			unix.Close(fd)
			t.Errorf("%s: %v", way, err)
		}
	}
}
