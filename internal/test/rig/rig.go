// Package rig runs the real programs for tests that check every byte.
//
// A [Fixture] is a user with folders of their own and perhaps a daemon. [House.Shim] starts a
// tg-shim there as an agent would. The server behind it is the test binary itself, in a role
// without behavior of its own: it sends what it reads to the test and writes what the test
// tells it to. So one test controls both ends of the pipe and knows what crossed, in which
// order, and what did not.
//
// A test package that uses it must call Main, which also runs the test binary's other roles:
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

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// module is the prefix of the programs' import paths.
const module = "github.com/thoughtgate/thoughtgated/"

// programs are the programs that are built.
var programs = []string{"thoughtgated", "tg-shim"}

// ResetSIGHUP makes programs that the tests start end on SIGHUP even if this process inherited
// that it is ignored, as under nohup and some test runners: a signal with a handler here has
// its default action there.
func ResetSIGHUP() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// EndAtOnce makes programs with the race detector, if they get this environment, exit at once:
// by default they sleep for a second first.
func EndAtOnce() {
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
}

// Main runs the tests of a package, or the wrapped server or the copier if the binary was
// started as one. It does not return.
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

// built holds functions that remove the folders at the end.
var built struct {
	sync.Mutex
	removes []func()
}

// shipped builds the programs as they are shipped, which is what memory is measured with;
// asTested builds them with the race detector if the tests have it.
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

// RaceFlags are the flags with which go build builds a program with the race detector. `make
// test` builds the tests with the same flags, so that packages are compiled once for both.
// SQLite is excluded, since the detector spent most of its time there: it is C code translated
// to Go, and its driver, which is included, serializes access with a lock.
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

// Program returns the path of a program that was built for the tests: thoughtgated or tg-shim.
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
