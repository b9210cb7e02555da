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
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// roleVar makes the test binary play somebody else.
const roleVar = "E2E_ROLE"

// parentsVar names a file in which the fake server notes who started it.
const parentsVar = "E2E_PARENTS"

// binVar names a folder with programs to test, instead of those that are built.
const binVar = "E2E_BIN"

// bin is the folder of the programs under test.
var bin string

func TestMain(m *testing.M) {
	if code, played := fake.PlayExtension(os.Args[1:]); played {
		os.Exit(code)
	}
	switch role := os.Getenv(roleVar); role {
	case "":
	case "client", "claude":
		os.Exit(runClient(role))
	case "speaker":
		os.Exit(runSpeaker())
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
	if bin = os.Getenv(binVar); bin != "" {
		return m.Run()
	}
	dir, remove, err := programs.Dir(programs.UnderRace())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	bin = dir
	return m.Run()
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
	return npmFile(t, "node_modules", "@modelcontextprotocol", name, "dist", "index.js")
}

// npmFile returns the path of a file of the folder npm, and skips the test where
// the packages of that folder aren't installed.
func npmFile(t *testing.T, elem ...string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed: this test runs real MCP servers")
	}
	path, err := filepath.Abs(filepath.Join(append([]string{"npm"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed: `make test` installs it, or npm ci --prefix internal/test/e2e/npm", path)
	}
	return path
}
