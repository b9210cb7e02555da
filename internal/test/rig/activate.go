package rig

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
)

// sockets are the names of the daemon's sockets, in the order in which they are passed.
var sockets = []string{"control", "shim"}

// Activate makes the test act as the service manager: from now on it holds the daemon's sockets
// and passes them to every daemon that is started. Connections made while no daemon runs wait
// for the next.
func (h *Fixture) Activate() {
	h.tb.Helper()
	if err := os.MkdirAll(h.Path("run/thoughtgate"), 0o700); err != nil {
		h.tb.Fatal(err)
	}
	for _, name := range sockets {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.Path("run/thoughtgate", name+".sock"), Net: "unix"})
		if err != nil {
			h.tb.Fatal(err)
		}
		h.tb.Cleanup(func() { l.Close() })
		if err := os.Chmod(l.Addr().String(), 0o600); err != nil {
			h.tb.Fatal(err)
		}
		f, err := l.File()
		if err != nil {
			h.tb.Fatal(err)
		}
		h.tb.Cleanup(func() { f.Close() })
		h.held = append(h.held, f)
	}
}

// Release builds a program with that release name and returns its path.
func Release(tb testing.TB, name, release string) string {
	tb.Helper()
	return buildOne(tb, name, raced, "-ldflags", "-s -w -X main.release="+release)
}

// Shipped returns the path of a program built without the race detector, as it is shipped.
func Shipped(tb testing.TB, name string) string {
	tb.Helper()
	return program(tb, name, true)
}

// Build builds a program as it is shipped, with additional flags of go build, and returns its
// path.
func Build(tb testing.TB, name string, flags ...string) string {
	tb.Helper()
	return buildOne(tb, name, false, flags...)
}

func buildOne(tb testing.TB, name string, race bool, flags ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	if err := programs.Build(dir, race, []string{name}, flags...); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}
