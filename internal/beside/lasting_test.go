package beside

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLasting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	make := func(path string) string {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(path, to string) {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
			t.Fatal(err)
		}
	}
	// One version of a package, and the links that every version has.
	self, shim := make("Cellar/thoughtgate/0.1.0/bin/tgctl"), make("Cellar/thoughtgate/0.1.0/libexec/thoughtgate/tg-shim")
	link("opt/thoughtgate", filepath.Join(dir, "Cellar/thoughtgate/0.1.0"))
	link("bin/tgctl", self)
	link("libexec/thoughtgate/tg-shim", shim)
	link("here/tgctl", self)
	link("here/tg-shim", shim)
	// The test's own directory is temporary, so only the part below it is checked.
	below := func(path string) string { return whyUnstable(strings.TrimPrefix(path, dir)) }
	for _, test := range []struct {
		name, path, want, why string
		gone                  string
	}{
		{name: "a link in PATH", path: "bin", want: "libexec/thoughtgate/tg-shim"},
		{name: "both linked", path: "here", want: "here/tg-shim"},
		{name: "not in PATH", want: "opt/thoughtgate/libexec/thoughtgate/tg-shim"},
		{name: "no link", want: "Cellar/thoughtgate/0.1.0/libexec/thoughtgate/tg-shim", why: "one version (0.1.0)", gone: "opt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.gone != "" {
				if err := os.RemoveAll(filepath.Join(dir, test.gone)); err != nil {
					t.Fatal(err)
				}
			}
			dirs := filepath.Join(dir, test.path)
			got, why := firstStable(pathsTo(self, dirs, "tg-shim", shim), below)
			if got != filepath.Join(dir, test.want) || !strings.Contains(why, test.why) || test.why == "" && why != "" {
				t.Errorf("got %s (%s), want %s (%s)", got, why, test.want, test.why)
			}
			if path, why, err := Lasting(self, dirs, "tg-shim"); path == "" || !strings.Contains(why, "temporary") || err != nil {
				t.Errorf("%s, %q, %v", path, why, err)
			}
		})
	}
}

// A program that only has the name of ours is not written into other files, wherever it is.
func TestOtherProgramOfTheName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"own/tgctl", "own/tg-shim", "other/tgctl", "other/tg-shim"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	// A folder with our tgctl and another tg-shim.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "mixed"), 0o755), os.Symlink("../own/tgctl", filepath.Join(dir, "mixed/tgctl")),
		os.Symlink("../other/tg-shim", filepath.Join(dir, "mixed/tg-shim"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "other") + ":" + filepath.Join(dir, "mixed")
	self, first := filepath.Join(dir, "own/tgctl"), filepath.Join(dir, "own/tg-shim")
	for _, got := range pathsTo(self, path, "tg-shim", first) {
		if got != first {
			t.Errorf("%s is taken for %s", got, first)
		}
	}
}

// Only a program that can be started is found.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "bin/tgctl")
	for _, name := range []string{"bin/folder", "libexec/thoughtgate"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"bin/text": 0o644, "libexec/thoughtgate/text": 0o755, "bin/near": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"near": "bin/near", "text": "libexec/thoughtgate/text", "folder": "", "nothing": ""} {
		got, err := Find(self, name)
		if want == "" && err == nil || want != "" && got != filepath.Join(dir, want) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestFleeting(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/libexec/thoughtgate/tg-shim":                            "",
		"/home/ana/.local/libexec/thoughtgate/tg-shim":                "",
		"/opt/homebrew/opt/thoughtgate/libexec/tg-shim":               "",
		"/home/ana/python3.12/bin/tg-shim":                            "",
		"/opt/homebrew/Cellar/thoughtgate/0.1.0/libexec/tg-shim":      "one version (0.1.0)",
		"/home/ana/thoughtgate-v1.2.3/tg-shim":                        "one version (thoughtgate-v1.2.3)",
		"/home/ana/.asdf/installs/thoughtgate/1.2.3-rc.1/bin/tg-shim": "one version (1.2.3-rc.1)",
		"/nix/store/5k2l-thoughtgate/libexec/tg-shim":                 "one version of a package",
		"/tmp/go-build123/b001/exe/tg-shim":                           "temporary",
		"/private/var/folders/xx/T/thoughtgate/tg-shim":               "temporary",
		"/run/user/1000/thoughtgate/tg-shim":                          "temporary",
		"/dev/shm/tg-shim":                                            "temporary",
	} {
		got := whyUnstable(path)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := whyUnstable(filepath.Join(here, "tg-shim")); got == "" {
		t.Error("where it is built it would stay")
	}
}
