// Package exttest builds the folders of the included extensions, as `make extensions` does, for
// tests that install them.
package exttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Folder builds the extension with that name, from beside the folder in which the test runs, and
// returns its folder, ready for installation. It is removed at the end of the test.
func Folder(tb testing.TB, name string) string {
	tb.Helper()
	from, to := filepath.Join("..", name), tb.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		tb.Fatal(err)
	}
	for _, entry := range entries {
		switch file := entry.Name(); {
		case file == "main.go":
			build(tb, from, filepath.Join(to, name))
		case file == "extension.yaml", file == "README.md", strings.HasSuffix(file, ".py") && !strings.HasPrefix(file, "test_"):
			text, err := os.ReadFile(filepath.Join(from, file))
			if err != nil {
				tb.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(to, file), text, 0o644); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return to
}

// build builds the program in dir, which may be a separate module.
func build(tb testing.TB, dir, program string) {
	tb.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", dir, err, out)
	}
}
