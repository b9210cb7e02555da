package session

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// foreignSession is set in a test whose session is from outside its container.
const foreignSession = "TG_TEST_FOREIGN_SESSION"

// wrapOf starts a process in the role of a wrap: it has started what script says, in a terminal
// session of its own. dir is the working directory. kill kills the wrap.
func wrapOf(t *testing.T, script string) (wrap Process, dir string, kill func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+"; read line")
	cmd.Env = append(os.Environ(), "THOUGHTGATE_SESSION="+anID)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: os.Getenv(foreignSession) == ""}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Look(int32(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"inside", "outside", "other"} {
		pid := awaitPID(t, cmd.Dir+"/"+name)
		t.Cleanup(func() {
			if p, ok := statOf(pid); ok && p.Alive() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
	return p.Process, cmd.Dir, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
	}
}

func awaitPID(t *testing.T, path string) int {
	t.Helper()
	for over := time.Now().Add(time.Minute); time.Now().Before(over); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if pid, bad := strconv.Atoi(string(text[:max(0, len(text)-1)])); err == nil && bad == nil {
			return pid
		}
	}
	t.Fatalf("%s never came", path)
	return 0
}

// What an agent runs in its own terminal gets SIGHUP when its wrap is killed. These do not: a
// process that left the terminal, one without the mark, and one that outlives a wrap that closed
// its session.
func TestHangUp(t *testing.T) {
	const script = `
		sh -c 'echo $$ > inside; exec sleep 1000' &
		setsid sh -c 'echo $$ > outside; exec sleep 1000' &
		env -u THOUGHTGATE_SESSION sh -c 'echo $$ > other; exec sleep 1000' &
		while ! [ -s inside -a -s outside -a -s other ]; do sleep 0.01; done`
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	rig.ResetSIGHUP()
	for _, closed := range []bool{false, true} {
		w := newWorld()
		r := w.registry(t)
		wrap, dir, kill := wrapOf(t, script)
		s := open(t, r, wrap)
		if closed {
			if _, _, err := r.Drain(context.Background(), anID, true); err != nil {
				t.Fatal(err)
			}
		}
		kill()
		r.Leave(s)
		w.eventually(t, "the files are restored", func() bool { return len(w.saved) == 0 })
		r.hangUps.Wait()
		lives := func(name string) bool {
			p, ok := statOf(awaitPID(t, dir+"/"+name))
			return ok && p.Alive()
		}
		for over := time.Now().Add(time.Minute); !closed && lives("inside"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(over) {
				t.Fatal("what the agent left runs on")
			}
		}
		if closed != lives("inside") || !lives("outside") || !lives("other") {
			t.Errorf("closed %v: inside lives %v, outside %v, other %v", closed, lives("inside"), lives("outside"), lives("other"))
		}
		r.Close()
	}
}

// In a container the session may be from outside and have no number there.
func TestHangUpInAContainer(t *testing.T) {
	args := []string{"--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command("unshare", append(args, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces to be had: %v %s", err, out)
	}
	cmd := exec.Command("unshare", append(args, os.Args[0], "-test.run=^TestHangUp$", "-test.v")...)
	cmd.Env = append(os.Environ(), foreignSession+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestHangUp") {
		t.Errorf("%v\n%s", err, out)
	}
}
