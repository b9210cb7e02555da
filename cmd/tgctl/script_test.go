package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	testprograms "github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// removeBuilt removes the directory that builtPrograms created. It is nil before. TestMain calls it.
var removeBuilt func()

// builtPrograms builds the programs once as for a release, adds a fake agent and a fake server, and
// returns the directory.
var builtPrograms = sync.OnceValues(func() (string, error) {
	dir, remove, err := tempdir.Make("", "programs")
	if err != nil {
		return "", err
	}
	removeBuilt = remove
	if err := testprograms.PlaceIn(dir); err != nil {
		return dir, err
	}
	self, err := os.Executable()
	if err != nil {
		return dir, err
	}
	for _, role := range []string{"fake-agent", "fake-server", "fake-remote", "fake-outsider", "fake-extension", "fake-acp", "fake-typed", "fake-window", "eventually"} { // TestMain plays them
		if err := os.Symlink(self, filepath.Join(dir, role)); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// TestScripts runs the programs like a person does. Each script in testdata/script is an
// instance of its own, with its own home.
//
// Besides the usual commands, `exits CODE PROGRAM...` expects that exit code, and `eventually
// PATTERN PROGRAM...` repeats a program until it exits 0 and its output matches.
func TestScripts(t *testing.T) {
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := t.Deadline()
	testscript.RunT(scriptT{t}, testscript.Params{
		Deadline:            deadline,
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for name, dir := range map[string]string{"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"} {
				path := filepath.Join(env.WorkDir, dir)
				if err := os.MkdirAll(path, 0o700); err != nil {
					return err
				}
				env.Setenv(name, path)
			}
			env.Setenv("PROGRAMS", bin)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Defer(func() { nothingLeft(t, env.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      scriptExits,
			"eventually": scriptEventually,
			"slack":      scriptSlack,
		},
	})
}

// scriptExits runs a program that must exit with a given code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit %d, want %d", got, want)
	}
}

// scriptEventually repeats a program until it exits 0 and its output matches. Another program
// does the repeating, so that the script's log has only the last run.
func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM [ARGUMENT...]")
	}
	ts.Check(ts.Exec("eventually", args...))
}

// playEventually is that other program.
func playEventually() int {
	pattern, err := regexp.Compile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "eventually:", err)
		return 2
	}
	wait := 20 * time.Millisecond // between two runs, which take as much of the processor
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(wait) {
		wait = min(2*wait, 200*time.Millisecond)
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(os.Args[2], os.Args[3:]...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		good := err == nil && (pattern.Match(stdout.Bytes()) || pattern.Match(stderr.Bytes()))
		if !good && time.Now().Before(deadline) {
			continue
		}
		os.Stdout.Write(stdout.Bytes())
		os.Stderr.Write(stderr.Bytes())
		if !good {
			fmt.Fprintf(os.Stderr, "eventually: %q never came: %v\n", pattern, err)
			return 1
		}
		return 0
	}
}

// scriptT limits the output of a failing script to its beginning and its end.
type scriptT struct{ *testing.T }

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}

// Verbose reports only -v: with -json, the output of passing scripts is not wanted either.
func (t scriptT) Verbose() bool { return flag.Lookup("test.v").Value.String() == "true" }

func (t scriptT) Log(args ...any) {
	t.Helper()
	t.T.Log(shortened(fmt.Sprint(args...)))
}

// shortened cuts the middle out of a long log.
func shortened(log string) string {
	const head, tail = 4 << 10, 12 << 10
	if len(log) <= head+tail {
		return log
	}
	left := log[head : len(log)-tail]
	return fmt.Sprintf("%s\n[%d lines are left out here]\n%s", log[:head], strings.Count(left, "\n"), log[len(log)-tail:])
}

func TestShortened(t *testing.T) {
	long := "first\n" + strings.Repeat("again and again\n", 6600) + "last\n"
	got := shortened(long)
	if len(got) > 17<<10 || !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "last\n") || !strings.Contains(got, "lines are left out here") {
		t.Errorf("%d bytes of %d: %.100q", len(got), len(long), got)
	}
	if got := shortened("a\nb\n"); got != "a\nb\n" {
		t.Errorf("a short one became %q", got)
	}
}

// nothingLeft fails if processes of the instance in dir are left, and kills them. It finds them
// by their environment.
func nothingLeft(t *testing.T, dir string) {
	deadline := time.Now().Add(time.Minute)
	for {
		left := processesOf(dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for pid, name := range left {
				t.Errorf("process %d (%s) is left", pid, name)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processesOf returns the processes whose environment names the runtime directory in dir, with
// their names. Only root can read the environment of the daemon and its keeper, so these are
// found by their lock files.
func processesOf(dir string) map[int]string {
	found := map[int]string{}
	for _, name := range []string{"keeper.lock", "thoughtgated.lock"} {
		lock, _ := os.ReadFile(filepath.Join(dir, "run", "thoughtgate", name))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(lock)))
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), "(thoughtgated) ") && !strings.Contains(string(stat), ") Z ") {
			found[pid] = "thoughtgated"
		}
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range entries {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte("XDG_RUNTIME_DIR="+filepath.Join(dir, "run")+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		found[pid] = strings.TrimSpace(string(name))
	}
	return found
}
