package folder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/folder"
)

// tree creates a folder with these files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestListAndCopy(t *testing.T) {
	files := map[string]string{"extension.yaml": "schema: 1\n", "run": "#!/bin/sh\n", "lib/a.py": "a = 1\n", "lib/deep/b.py": "", ".hidden": "x"}
	dir := tree(t, files)
	listed, err := folder.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	// As sha256sum prints them.
	for name := range files {
		out, err := exec.Command("sha256sum", filepath.Join(dir, name)).Output()
		if err != nil {
			t.Skip("there is no sha256sum:", err)
		}
		mark := "-"
		if name == "run" {
			mark = "x"
		}
		if line := fmt.Sprintf("%.64s %s %s\n", out, mark, name); !strings.Contains(string(listed.Text), line) {
			t.Errorf("%q is not in\n%s", line, listed.Text)
		}
	}
	if listed.Files != 5 || listed.Bytes != 27 || !listed.Runs("./run") || listed.Runs("lib/a.py") || listed.Runs("none") {
		t.Errorf("%+v", listed)
	}
	to := filepath.Join(t.TempDir(), "copy")
	copied, err := folder.Copy(dir, to)
	if err != nil || copied.Digest() != listed.Digest() {
		t.Fatalf("copied: %+v, %v", copied, err)
	}
	again, err := folder.List(to)
	if err != nil || again.Digest() != listed.Digest() {
		t.Errorf("listed again: %v", err)
	}
	for name, mode := range map[string]os.FileMode{"run": 0o500, "lib/a.py": 0o400, "lib": 0o700} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := folder.Copy(dir, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("over what is there: %v", err)
	}
}

func TestDifference(t *testing.T) {
	list := func(files map[string]string) []byte {
		l, err := folder.List(tree(t, files))
		if err != nil {
			t.Fatal(err)
		}
		return l.Text
	}
	before := list(map[string]string{"a": "1", "b c": "2"})
	for _, test := range []struct {
		now  map[string]string
		want string
	}{
		{map[string]string{"a": "1", "b c": "2"}, ""},
		{map[string]string{"a": "1", "b c": "3"}, "b c was altered"},
		{map[string]string{"a": "1"}, "b c is missing"},
		{map[string]string{"a": "1", "b c": "2", "d": ""}, "d is new"},
		{map[string]string{"a": "#!", "b c": "2"}, "a was altered"},
	} {
		if got := folder.Difference(before, list(test.now)); got != test.want {
			t.Errorf("%v: %q, want %q", test.now, got, test.want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	link := func(dir string) error { return os.Symlink("extension.yaml", filepath.Join(dir, "link")) }
	deep := func(dir string) error {
		return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", folder.MaxDepth+1)), 0o700)
	}
	for _, test := range []struct {
		name string
		make func(dir string) error
		want error
		says string
	}{
		{"a link", link, gate.ErrInvalid, "link: invalid: it is a link"},
		{"too deep", deep, gate.ErrTooLarge, "nested deeper"},
	} {
		dir := tree(t, map[string]string{"extension.yaml": "schema: 1\n"})
		if err := test.make(dir); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "copy")
		_, listing := folder.List(dir)
		_, copying := folder.Copy(dir, to)
		for _, err := range []error{listing, copying} {
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v; want %q", test.name, err, test.says)
			}
		}
		if _, err := os.Lstat(to); !os.IsNotExist(err) {
			t.Errorf("%s: half a copy is left: %v", test.name, err)
		}
	}
	// The folder itself must exist and must not be a link.
	at := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), at); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.List(at); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("a folder that is a link: %v", err)
	}
	if _, err := folder.List(filepath.Join(at, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
