package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// here is the platform for which the tests create everything.
var here = platform{"linux", runtime.GOARCH}

func testRelease() *release {
	return &release{number: "1.2.3", date: time.Unix(1795000000, 0).UTC(), top: "../..", level: gzip.BestSpeed}
}

// madeIn is the parent of the folder that madeOnce returns, empty until then.
var madeIn string

// madeOnce returns the folder in which the complete program has created everything for here.
var madeOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "packages-test-")
	if err != nil {
		return "", err
	}
	madeIn = dir
	out := filepath.Join(dir, "dist")
	return out, testRelease().make(bg, []platform{here}, out)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if madeIn != "" {
		os.RemoveAll(madeIn)
	}
	os.Exit(code)
}

// made returns the path of the only created file with this suffix.
func made(t *testing.T, end string) string {
	t.Helper()
	dir, err := madeOnce()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(found) != 1 {
		t.Fatalf("made with the end %s: %v (%v), want one", end, found, err)
	}
	return found[0]
}

// tool skips a test if a program is not installed.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not here to look at packages with", name)
	}
}

// ran runs a program, which must succeed, and returns its output and error output.
func ran(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// expected returns the content of a package, with one line each for the pages of tgctl's
// commands and for the documentation.
func expected(t *testing.T, more ...string) []string {
	t.Helper()
	want := append(more,
		"-rwxr-xr-x /usr/bin/tgctl",
		"-rwxr-xr-x /usr/bin/thoughtgated",
		"-rw-r--r-- /usr/lib/systemd/user-preset/90-thoughtgate.preset",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/pathguard/README.md",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/pathguard/extension.yaml",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/pathguard/pathguard.py",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/quota/README.md",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/quota/extension.yaml",
		"-rwxr-xr-x /usr/libexec/thoughtgate/extensions/quota/quota",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/scrubber/README.md",
		"-rw-r--r-- /usr/libexec/thoughtgate/extensions/scrubber/extension.yaml",
		"-rwxr-xr-x /usr/libexec/thoughtgate/extensions/scrubber/scrubber",
		"-rwxr-xr-x /usr/libexec/thoughtgate/tg-fleet",
		"-rwxr-xr-x /usr/libexec/thoughtgate/tg-shim",
		"-rw-r--r-- /usr/share/bash-completion/completions/tgctl",
		"-rw-r--r-- /usr/share/doc/thoughtgate/CONTRIBUTING.md",
		"-rw-r--r-- /usr/share/doc/thoughtgate/README.md",
		"-rw-r--r-- /usr/share/doc/thoughtgate/SECURITY.md",
		"-rw-r--r-- /usr/share/doc/thoughtgate/BENCHMARKS.md",
		"-rw-r--r-- /usr/share/doc/thoughtgate/docs/*.md",
		"-rw-r--r-- /usr/share/doc/thoughtgate/docs/pictures/*",
		"-rw-r--r-- /usr/share/fish/vendor_completions.d/tgctl.fish",
		"-rw-r--r-- /usr/share/man/man1/tg-shim.1.gz",
		"-rw-r--r-- /usr/share/man/man1/tgctl-*.1.gz",
		"-rw-r--r-- /usr/share/man/man1/tgctl.1.gz",
		"-rw-r--r-- /usr/share/man/man5/thoughtgate.yaml.5.gz",
		"-rw-r--r-- /usr/share/man/man8/thoughtgated.8.gz",
	)
	for _, pattern := range []string{"*.service", "*.socket"} {
		units, err := filepath.Glob("../../contrib/systemd/" + pattern)
		if err != nil || len(units) == 0 {
			t.Fatalf("units: %v, %v", units, err)
		}
		for _, unit := range units {
			want = append(want, "-rw-r--r-- /usr/lib/systemd/user/"+filepath.Base(unit))
		}
	}
	slices.Sort(want)
	return want
}

// summedUp returns a sorted list with one line for the many pages.
func summedUp(lines []string) []string {
	for i, line := range lines {
		dir, name := filepath.Split(line)
		switch {
		case strings.HasPrefix(name, "tgctl-") && strings.HasSuffix(name, ".1.gz"):
			lines[i] = dir + "tgctl-*.1.gz"
		case strings.HasSuffix(dir, "/docs/") && strings.HasSuffix(name, ".md"):
			lines[i] = dir + "*.md"
		case strings.HasSuffix(dir, "/docs/pictures/"):
			lines[i] = dir + "*"
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func differ(t *testing.T, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("holds, and should not: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lacks: %s", line)
		}
	}
}

// entries returns the entries of the archive at path.
func entries(t *testing.T, path string) []*tar.Header {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var found []*tar.Header
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, h)
	}
}

// tree lists everything below dir, except what is below the folders except.
func tree(t *testing.T, dir string, except ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if !slices.ContainsFunc(except, func(e string) bool { return strings.HasPrefix(rel+"/", e+"/") }) {
			found = append(found, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
