// Package rig runs the real programs for tests that check every byte.
//
// A [Fixture] is a user with folders of their own and perhaps a daemon. [Fixture.Shim] starts a
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
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
)

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

// MainRaced is Main for tests of concurrency: in `make test` their programs have the race detector
// even where they don't, which costs less than to have it in both.
func MainRaced(m *testing.M) {
	raced = programs.Raced()
	Main(m)
}

// raced reports whether the programs have the race detector.
var raced = programs.UnderRace()

// built holds functions that remove the folders at the end.
var built struct {
	sync.Mutex
	removes []func()
}

// shipped are the programs as they are shipped, which is what memory is measured with; asTested
// have the race detector if raced.
var (
	shipped  = sync.OnceValues(func() (string, error) { return build(false) })
	asTested = sync.OnceValues(func() (string, error) {
		if raced {
			return build(true)
		}
		return shipped()
	})
)

func build(race bool) (string, error) {
	dir, remove, err := programs.Dir(race)
	if err != nil {
		return "", err
	}
	built.Lock()
	defer built.Unlock()
	built.removes = append(built.removes, remove)
	return dir, nil
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
