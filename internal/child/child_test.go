package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestStart(t *testing.T) {
	noneLeft(t)
	t.Run("streams", func(t *testing.T) {
		c := start(t, script(t, "echo to-out; echo to-err >&2; cat"))
		io.WriteString(c.Stdin(), "and back\n")
		c.Stdin().Close()
		out, _ := io.ReadAll(c.Stdout())
		errs, _ := io.ReadAll(c.Stderr())
		if got, want := string(out)+string(errs), "to-out\nand back\nto-err\n"; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
		if got := c.Wait(); got != (State{}) {
			t.Errorf("state %v, want exit status 0", got)
		}
	})
	t.Run("streams of somebody else's", func(t *testing.T) {
		spec := script(t, "cat; echo to-err >&2; exit 3")
		in, inWrite, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		outRead, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer inWrite.Close()
		defer outRead.Close()
		spec.Stdin, spec.Stdout = in, out
		c := start(t, spec)
		in.Close()
		out.Close()
		io.WriteString(inWrite, "there and back\n")
		inWrite.Close()
		got, _ := io.ReadAll(outRead)
		errs, _ := io.ReadAll(c.Stderr())
		if got, want := string(got)+string(errs), "there and back\nto-err\n"; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
		if n, err := c.Stdout().Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("of its own standard output %d bytes were read, %v", n, err)
		}
		if _, err := c.Stdin().Write([]byte("x")); err == nil {
			t.Error("its own standard input was written to")
		}
		if got := c.Stop(t.Context(), OurGrace); got.Code != 3 {
			t.Errorf("state %v, want exit status 3", got)
		}
	})
	t.Run("environment, directory, name and group are what was said", func(t *testing.T) {
		needsProc(t)
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("CHILD_TEST_OURS", "must not be passed on")
		spec := Spec{Command: "sh", Dir: dir, Mark: "MARK=7", Env: []string{"PATH=/usr/bin:/bin", "A=b c"},
			Args: []string{"-c", `cat /proc/$$/environ | tr '\0' '\n'; tr '\0' ' ' < /proc/$$/cmdline; echo; pwd; cut -d' ' -f5 /proc/$$/stat`}}
		c := start(t, spec)
		out, _ := io.ReadAll(c.Stdout())
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 6 {
			t.Fatalf("got %q", lines)
		}
		if got, want := fmt.Sprint(sorted(lines[:3])), "[A=b c MARK=7 PATH=/usr/bin:/bin]"; got != want {
			t.Errorf("environment %s, want %s", got, want)
		}
		if !strings.HasPrefix(lines[3], "sh -c cat") {
			t.Errorf("command line %q does not begin with the name as given", lines[3])
		}
		if lines[4] != dir {
			t.Errorf("directory %q, want %q", lines[4], dir)
		}
		if want := fmt.Sprint(c.PID()); lines[5] != want {
			t.Errorf("group %s, want its own, %s", lines[5], want)
		}
	})
	t.Run("no environment is none", func(t *testing.T) {
		c := start(t, Spec{Command: "/usr/bin/env"})
		if out, _ := io.ReadAll(c.Stdout()); len(out) > 0 {
			t.Errorf("the child has %q", out)
		}
	})
	t.Run("no other descriptor", func(t *testing.T) {
		needsProc(t)
		other := start(t, script(t, "cat")) // its pipes must not leak into the next
		c := start(t, script(t, "ls /proc/self/fd"))
		out, _ := io.ReadAll(c.Stdout())
		if got := strings.Fields(string(out)); len(got) != 4 { // three, and that of ls
			t.Errorf("descriptors %v, want 0 1 2 and one of ls", got)
		}
		other.Stdin().Close()
	})
}

func TestExitStates(t *testing.T) {
	noneLeft(t)
	for _, test := range []struct {
		script string
		want   State
		status int
		text   string
	}{
		{"exit 0", State{}, 0, "exit status 0"},
		{"exit 3", State{Code: 3}, 3, "exit status 3"},
		{"exit 255", State{Code: 255}, 255, "exit status 255"},
		{"kill -TERM $$", State{Signal: syscall.SIGTERM}, 143, "killed by SIGTERM"},
		{"kill -KILL $$", State{Signal: syscall.SIGKILL}, 137, "killed by SIGKILL"},
		{"ulimit -c 0; kill -SEGV $$", State{Signal: syscall.SIGSEGV}, 139, "killed by SIGSEGV"},
	} {
		c := start(t, script(t, test.script))
		got := c.Wait()
		if got != test.want || got.ExitStatus() != test.status || got.String() != test.text {
			t.Errorf("%s: %+v, %d, %q; want %+v, %d, %q", test.script, got, got.ExitStatus(), got, test.want, test.status, test.text)
		}
		if again := c.Wait(); again != got {
			t.Errorf("%s: Wait said %v, then %v", test.script, got, again)
		}
		if stopped := c.Stop(t.Context(), OurGrace); stopped != got {
			t.Errorf("%s: Wait said %v, Stop %v", test.script, got, stopped)
		}
		if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: signal after the end: %v, want os.ErrProcessDone", test.script, err)
		}
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	noneLeft(t)
	c := start(t, script(t, `trap 'echo outer; exit 5' HUP; sh -c 'trap "echo inner; exit" HUP; echo ready; while :; do sleep 0.01; done' & wait; wait`))
	in := bufio.NewReader(c.Stdout())
	if got := line(t, in); got != "ready" {
		t.Fatalf("got %q", got)
	}
	if err := c.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(in)
	if got := strings.Join(sorted(strings.Fields(string(rest))), " "); got != "inner outer" {
		t.Errorf("heard by %q", got)
	}
	if got := c.Wait(); got.Code != 5 {
		t.Errorf("state %v, want exit status 5", got)
	}
}

// A child that os/exec started is left to os/exec, even if it ended long before it is waited
// for.
func TestReaperLeavesOthersAlone(t *testing.T) {
	needsOrphans(t)
	noneLeft(t)
	for range 20 {
		cmd := exec.Command("sh", "-c", "exit 7")
		cmd.Env = testEnv(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a zombie", func() string { p, _ := readProc(cmd.Process.Pid); return fmt.Sprint(p.Zombie) }, "true")
		reapOrphans()
		if err := cmd.Wait(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
			t.Fatalf("os/exec's child was taken away: %v", err)
		}
	}
}

func TestReaperTakesOrphans(t *testing.T) {
	needsOrphans(t)
	noneLeft(t)
	cmd := exec.Command("sh", "-c", "setsid sh -c 'sleep 0.05 & exec >&-; true' & wait; sleep 0.2 & exit 0")
	cmd.Env = testEnv(t)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	// noneLeft looks for its zombies among our children.
}
