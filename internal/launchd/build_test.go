package launchd

import (
	"debug/macho"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A program for macOS that is built here, without cgo, links launchd's function from where
// macOS has it.
func TestBuiltForMacOS(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		program := filepath.Join(t.TempDir(), "launchd.test")
		build := exec.Command("go", "test", "-c", "-trimpath", "-o", program, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, out)
		}
		f, err := macho.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.ImportedSymbols()
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := f.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(symbols, "_launch_activate_socket") || !slices.Contains(libraries, "/usr/lib/libSystem.B.dylib") {
			t.Errorf("%s: launch_activate_socket is not imported; libraries %q", arch, libraries)
		}
	}
}
