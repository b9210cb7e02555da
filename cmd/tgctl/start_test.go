package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/daemon"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// instance returns a console with its own directories. The test binary plays thoughtgated
// beside its tgctl.
func instance(t *testing.T, play string) *console {
	t.Helper()
	root := consoletest.ShortDir(t)
	c := newConsole("").pipe()
	c.Env = map[string]string{
		"HOME": filepath.Join(root, "h"), "XDG_STATE_HOME": filepath.Join(root, "s"), "XDG_RUNTIME_DIR": filepath.Join(root, "r"),
		"XDG_CONFIG_HOME": filepath.Join(root, "c"), "PATH": os.Getenv("PATH"), "LANG": "C.UTF-8",
		"AWS_SECRET_ACCESS_KEY": "hunter2", "LD_PRELOAD": "", "THOUGHTGATE_CONFIG": "/elsewhere.yaml",
	}
	for _, dir := range []string{"h", "s/thoughtgate", "r", "c", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "s/thoughtgate/play"), []byte(play), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(root, "bin", connect.DaemonName)); err != nil {
		t.Fatal(err)
	}
	c.app.Executable = func() (string, error) { return filepath.Join(root, "bin", "tgctl"), nil }
	c.app.Environ = func() []string {
		var env []string
		for name, value := range c.Env {
			env = append(env, name+"="+value)
		}
		return env
	}
	t.Cleanup(func() { noChildLeft(t) })
	return c
}

// state returns the path of a file in the instance's state directory.
func (c *console) state(name string) string {
	return filepath.Join(c.Env["XDG_STATE_HOME"], "thoughtgate", name)
}

// noChildLeft fails if a started process is left, and kills it.
func noChildLeft(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return
		case pid > 0:
		case time.Now().After(deadline):
			t.Error("a process is left")
			return
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestDaemonStartAndStop(t *testing.T) {
	c := instance(t, "")
	if code := c.run(t, "daemon", "start"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	about, err := os.ReadFile(c.state("about"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(about)), "\n")
	if head := strings.Join(lines[:3], ", "); head != `dir /, leader true, args ["--keep" "--log-format" "text" "--config" "/elsewhere.yaml"]` {
		t.Errorf("the daemon was started with %s", head)
	}
	var names []string
	for _, entry := range lines[3:] {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := "HOME LANG PATH XDG_CONFIG_HOME XDG_RUNTIME_DIR XDG_STATE_HOME"; strings.Join(names, " ") != want {
		t.Errorf("the daemon was given %q, want %q", names, want)
	}

	if code := c.run(t, "daemon", "start"); code != 0 || !strings.Contains(c.Err.String(), "is already running") {
		t.Errorf("a second start: exit %d: %s", code, c.Err.String())
	}
	if code := c.run(t, "daemon", "stop"); code != 0 || !strings.Contains(c.Err.String(), "has stopped") {
		t.Errorf("stop: exit %d: %s", code, c.Err.String())
	}
	if code := c.run(t, "daemon", "stop"); code != ui.ExitNotRunning {
		t.Errorf("a second stop: exit %d: %s", code, c.Err.String())
	}
}

// TestStrayIsEnded checks that a daemon that tgctl started and its keeper make room for a
// service manager's daemon. The keeper does not remove a socket that replaced its own.
func TestStrayIsEnded(t *testing.T) {
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	c := instance(t, "")
	delete(c.Env, "THOUGHTGATE_CONFIG")
	c.app.Executable = func() (string, error) { return filepath.Join(bin, "tgctl"), nil }
	if code := c.run(t, "daemon", "start"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	paths, err := sock.DefaultPaths(c.app.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	managed, err := net.Listen("unix", paths.ControlSocket()+"~")
	if err != nil {
		t.Fatal(err)
	}
	defer managed.Close()
	if err := os.Rename(paths.ControlSocket()+"~", paths.ControlSocket()); err != nil {
		t.Fatal(err)
	}
	if err := daemon.StopUnmanaged(t.Context(), c.App, 0); err != nil {
		t.Fatal(err)
	}
	for _, lock := range []string{paths.KeeperLock(), paths.LockFile()} {
		if pid, err := sock.Holder(lock); pid != 0 || err != nil {
			t.Errorf("%s is held by %d, %v", lock, pid, err)
		}
	}
	if conn, err := net.Dial("unix", paths.ControlSocket()); err != nil {
		t.Errorf("the service manager's socket: %v", err)
	} else {
		conn.Close()
	}
	if _, err := os.Lstat(paths.ShimSocket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the keeper's own socket: %v, want none", err)
	}
}

// Commands that need a daemon start it; commands that only inspect do not.
func TestVerbsStartTheDaemon(t *testing.T) {
	for line, starts := range map[string]bool{
		"approvals": true, "ps": true, "status": false, "daemon reload": true, "--no-start ps": false, "__complete approvals show ": false,
	} {
		c := instance(t, "")
		c.run(t, strings.Split(line, " ")...)
		_, err := os.Stat(c.state("about"))
		if started := err == nil; started != starts {
			t.Errorf("tgctl %s: started a daemon: %v\n%s", line, started, c.Err.String())
		}
		c.run(t, "daemon", "stop")
	}
}

// The error contains the output of a daemon that cannot start.
func TestDaemonThatFails(t *testing.T) {
	for play, says := range map[string]string{
		"fail":  "thoughtgated exited at once, with exit code 1; its output:\nthoughtgate.yaml:3:1: error: unknown key \"x\"\\u{1b}[2J\nSee the log: ",
		"crash": "thoughtgated exited at once, by signal: killed",
	} {
		c := instance(t, play)
		// The output of an earlier daemon is not included.
		if err := os.WriteFile(c.state("thoughtgated.log"), []byte("old news\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := c.run(t, "ps"); code != 1 || !strings.Contains(c.Err.String(), says) || strings.Contains(c.Err.String(), "old news") {
			t.Errorf("%s: exit %d: %s", play, code, c.Err.String())
		}
	}
}

// Waiting for a daemon that does not reply ends with the context.
func TestDaemonThatHangs(t *testing.T) {
	c := instance(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(c.state("hangs")); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if code := c.app.run(ctx, []string{"daemon", "start"}); code == 0 || !strings.Contains(c.Err.String(), "does not answer") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	killChildren(t)
}

// killChildren kills what a test left hanging on purpose.
func killChildren(t *testing.T) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(tasks) == 0 {
		t.Skip("no /proc here to find the daemon by")
	}
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		for pid := range strings.FieldsSeq(string(list)) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
}

// If several processes start a daemon at the same time, one daemon wins and serves all of them.
func TestRacingStarts(t *testing.T) {
	first := instance(t, "")
	var wg sync.WaitGroup
	consoles := make([]*console, 4)
	codes := make([]int, len(consoles))
	for i := range consoles {
		consoles[i] = newConsole("").pipe()
		consoles[i].Env = first.Env
		consoles[i].app.Executable, consoles[i].app.Environ = first.app.Executable, first.app.Environ
		wg.Go(func() { codes[i] = consoles[i].app.run(t.Context(), []string{"daemon", "start"}) })
	}
	wg.Wait()
	for i, c := range consoles {
		if codes[i] != 0 {
			t.Errorf("exit %d: %s", codes[i], c.Err.String())
		}
	}
	if code := first.run(t, "daemon", "stop"); code != 0 {
		t.Errorf("stop: exit %d: %s", code, first.Err.String())
	}
}

func TestDaemonIsNotStarted(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*console)
		code int
		says string
	}{
		{"below a wrapped agent", func(c *console) { c.Env["THOUGHTGATE_ACTIVE"] = "1" }, ui.ExitNotRunning, "below a wrapped agent"},
		{"for another socket", func(c *console) { c.Env["THOUGHTGATE_CONTROL"] = filepath.Join(c.Env["HOME"], "x.sock") }, ui.ExitNotRunning, "THOUGHTGATE_CONTROL"},
		{"that is not installed", func(c *console) { c.app.Executable = func() (string, error) { return "/nowhere/tgctl", nil } }, 1, "there is no thoughtgated beside /nowhere/tgctl"},
		{"without a place for its log", func(c *console) { c.Env["XDG_STATE_HOME"] = "/dev/null" }, 1, "log"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := instance(t, "")
			test.set(c)
			if code := c.run(t, "daemon", "start"); code != test.code || !strings.Contains(c.Err.String(), test.says) {
				t.Errorf("exit %d, want %d: %s", code, test.code, c.Err.String())
			}
			if _, err := os.Stat(c.state("about")); err == nil {
				t.Error("a daemon was started")
			}
		})
	}
}

// The environment may name the default socket explicitly.
func TestDaemonForTheUsualSocketByName(t *testing.T) {
	c := instance(t, "")
	c.Env["THOUGHTGATE_CONTROL"] = filepath.Join(c.Env["XDG_RUNTIME_DIR"], "thoughtgate", "control.sock")
	if code := c.run(t, "daemon", "start"); code != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	c.run(t, "daemon", "stop")
}

// A socket of an untrusted owner is no reason to start a daemon.
func TestUntrustedSocketIsNotReplaced(t *testing.T) {
	c := instance(t, "")
	dir := filepath.Join(c.Env["XDG_RUNTIME_DIR"], "thoughtgate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "control.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := c.run(t, "ps"); code == 0 || code == ui.ExitNotRunning {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	if _, err := os.Stat(c.state("about")); err == nil {
		t.Error("a daemon was started")
	}
}

func TestSibling(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"opt/bin/tgctl", "opt/bin/thoughtgated", "opt/libexec/thoughtgate/tg-shim"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "opt/bin/tgctl"), filepath.Join(root, "tgctl")); err != nil {
		t.Fatal(err)
	}
	for _, self := range []string{"opt/bin/tgctl", "tgctl"} {
		a := &connect.App{Executable: func() (string, error) { return filepath.Join(root, self), nil }}
		for name, want := range map[string]string{"thoughtgated": "opt/bin/thoughtgated", "tg-shim": "opt/libexec/thoughtgate/tg-shim"} {
			if got, err := a.Sibling(name); err != nil || got != filepath.Join(root, want) {
				t.Errorf("from %s: %s is %s, %v", self, name, got, err)
			}
		}
	}
	a := &connect.App{Executable: func() (string, error) { return "", errors.New("no /proc") }}
	if _, err := a.Sibling("tg-shim"); err == nil {
		t.Error("found one without knowing where we are")
	}
}

// TestExitCodes checks that errors determine the exit code, also when wrapped.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{&ui.UsageError{Err: errors.New("x")}, 2},
		{client.ErrNotRunning, 3},
		{&ui.HintError{Err: client.NewError(client.ReasonNotRunning, "x")}, 3},
		{client.NewError(client.ReasonNotFound, "x"), 1},
		{client.NewError(client.ReasonForbidden, "x"), 1},
		{context.DeadlineExceeded, 1},
		{&ui.ExitError{Code: 126}, 126},
	} {
		if got := ui.ExitCode(test.err); got != test.code {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.code)
		}
	}
}

func TestFoldersOfAnInstance(t *testing.T) {
	c := instance(t, "")
	paths, err := sock.DefaultPaths(c.app.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Join(paths.State, "x"), c.state("x"); got != want {
		t.Errorf("the state folder is %s, want %s", got, want)
	}
}
