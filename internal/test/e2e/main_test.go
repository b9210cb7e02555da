// Package e2e runs the real programs: thoughtgated, tg-shim and tgctl wrap,
// between a client that uses the official SDK and MCP servers, some of them
// real ones from npm. Tests that need those say so and are skipped where they
// are missing; `make test` installs them.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// roleVar makes the test binary play somebody else.
const roleVar = "E2E_ROLE"

// parentsVar names a file in which the fake server notes who started it.
const parentsVar = "E2E_PARENTS"

// binVar names a folder with programs to test, instead of those that are built.
const binVar = "E2E_BIN"

// programs is where the programs under test are, built once for all tests.
var programs string

func TestMain(m *testing.M) {
	if code, played := fake.PlayExtension(os.Args[1:]); played {
		os.Exit(code)
	}
	switch role := os.Getenv(roleVar); role {
	case "":
	case "client", "claude":
		os.Exit(runClient(role))
	case "server":
		os.Exit(runServer())
	case "caller":
		os.Exit(runCaller())
	case "leaker":
		os.Exit(runLeaker())
	case "files":
		os.Exit(runFiles())
	case "reader":
		os.Exit(runReader())
	case "typist":
		os.Exit(runTypist())
	default:
		fmt.Fprintln(os.Stderr, "unknown role", role)
		os.Exit(2)
	}
	rig.LeaveTerminal()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// Tests here wait for others far more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if programs = os.Getenv(binVar); programs != "" {
		return m.Run()
	}
	dir, remove, err := tempdir.Make("", "tg-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	programs = dir
	if err := build(dir, underRace()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds what ships, as it ships but for the race detector.
func build(dir string, race bool) error {
	args := []string{"build", "-buildvcs=false", "-tags", "grpcnotrace", "-o", dir + "/"}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if race {
		args = append(args, rig.RaceFlags...)
		env = os.Environ()
	}
	args = append(args, "../../../cmd/thoughtgated", "../../../cmd/tg-shim", "../../../cmd/tgctl")
	cmd := exec.Command("go", args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// runServer is the server of fake, for tests that want to know exactly what it
// executed.
func runServer() int {
	if log := os.Getenv(parentsVar); log != "" {
		if err := noteParent(log); err != nil {
			fmt.Fprintln(os.Stderr, "fake server:", err)
			return 1
		}
	}
	o := fake.ServerOptions{Name: os.Getenv("E2E_NAME"), Log: os.Getenv("E2E_LOG"), Legacy: os.Getenv("E2E_LEGACY") != ""}
	if err := fake.Serve(background(), os.Stdin, os.Stdout, os.Stderr, o); errors.Is(err, fake.ErrCrash) {
		return 70
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "fake server:", err)
		return 1
	}
	return 0
}

// noteParent appends the program that started this one to a file.
func noteParent(log string) error {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", os.Getppid()))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, program)
	return errors.Join(err, f.Close())
}

// npmServer returns the program of a server from npm, and skips the test where
// it isn't installed.
func npmServer(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed: this test runs real MCP servers")
	}
	path, err := filepath.Abs(filepath.Join("npm", "node_modules", "@modelcontextprotocol", name, "dist", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed: `make test` installs it, or npm ci --prefix internal/test/e2e/npm", name)
	}
	return path
}
