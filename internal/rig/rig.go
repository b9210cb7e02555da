// Package rig sets up the real programs for tests that look at every byte.
//
// A [House] is a user with folders of their own and perhaps a daemon. In it
// [House.Shim] starts a shim as an agent would. What the shim wraps is the test
// binary itself, in a role in which it does nothing of its own: what it reads
// goes to the test, what the test says is written. So one test holds both ends
// of the pipe and knows what crossed, in which order, and what did not.
//
// A test package that uses it builds the programs once and lends its binary:
//
//	func TestMain(m *testing.M) { rig.Main(m) }
package rig

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/tempdir"
)

// module is what the programs' import paths begin with.
const module = "github.com/thoughtgate/thoughtgated/"

// programs is what is built.
var programs = []string{"thoughtgated", "tg-shim"}

// HeedHangUps makes what the tests start heed hang-ups where this process was told
// to ignore them, as under nohup or by some that run tests: what is caught here is
// at its default there.
func HeedHangUps() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// EndAtOnce makes what the tests start, and gives the environment to, end when it
// ends: a program with the race detector in it stays a second otherwise.
func EndAtOnce() {
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
}

// Main runs the tests of a package, or plays the wrapped server or the copier
// when the binary was started as one. It does not return.
func Main(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case serverRole:
			os.Exit(relay(os.Args[2]))
		case copierRole:
			os.Exit(copyAll(os.Args[2], os.Args[3:]))
		}
	}
	EndAtOnce()
	code := m.Run()
	for _, remove := range built.removes {
		remove()
	}
	os.Exit(code)
}

// built are the folders to be removed at the end.
var built struct {
	sync.Mutex
	removes []func()
}

// shipped builds the programs as they are shipped, which is how memory must be
// measured; asTested builds them with the race detector when the tests have it.
var (
	shipped  = sync.OnceValues(func() (string, error) { return build(false) })
	asTested = sync.OnceValues(func() (string, error) {
		if UnderRace() {
			return build(true)
		}
		return shipped()
	})
)

func build(race bool) (string, error) {
	dir, remove, err := tempdir.Make("", "tg-bin-")
	if err != nil {
		return "", err
	}
	built.Lock()
	built.removes = append(built.removes, remove)
	built.Unlock()
	return dir, buildTo(dir, race, programs)
}

// RaceFlags make go build a program with the race detector, as `make test` builds the
// tests: with the same flags packages are compiled once for both. The detector does not
// look into SQLite, where it spent most of its time: that is C of others in Go's words,
// and stands behind one lock, that of its driver, which is looked into.
var RaceFlags = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=0 -d=checkptr=0"}

// buildTo builds programs into a folder.
func buildTo(dir string, race bool, programs []string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-tags", "grpcnotrace", "-o", dir + "/"}, flags...)
	cgo := "CGO_ENABLED=0"
	if race {
		args, cgo = append(args, RaceFlags...), "CGO_ENABLED=1"
	}
	for _, name := range programs {
		args = append(args, module+"cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// UnderRace reports whether the tests run under the race detector.
func UnderRace() bool {
	info, _ := debug.ReadBuildInfo()
	for i := 0; info != nil && i < len(info.Settings); i++ {
		if s := info.Settings[i]; s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// Program returns the path of a program that was built for the tests: thoughtgated or
// tg-shim.
func Program(tb testing.TB, name string) string { return program(tb, name, false) }

// program returns the path of a program.
func program(tb testing.TB, name string, asShipped bool) string {
	tb.Helper()
	if dir := os.Getenv(insideVar); dir != "" {
		return filepath.Join(dir, name)
	}
	from := asTested
	if asShipped {
		from = shipped
	}
	dir, err := from()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}
