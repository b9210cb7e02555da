package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Two children run; each leaves a daemon behind.
func TestOrphansOfTwo(t *testing.T) {
	needsOrphans(t)
	noneLeft(t)
	short := Grace{100 * time.Millisecond, 100 * time.Millisecond}
	daemon := func(t *testing.T, mark string, extra ...string) (*Child, int) {
		spec := role(t, "daemonize", extra...)
		spec.Mark = mark
		c := start(t, spec)
		pid := readyPID(t, bufio.NewReader(c.Stdout()))
		eventually(t, "adopted", func() string { p, _ := readProc(pid); return fmt.Sprint(p.PPID) }, fmt.Sprint(os.Getpid()))
		return c, pid
	}
	t.Run("marked: each its own", func(t *testing.T) {
		a, orphanA := daemon(t, "CHILD=a")
		b, orphanB := daemon(t, "CHILD=b")
		a.Stop(t.Context(), short)
		if lives(orphanA) || !lives(orphanB) {
			t.Errorf("after the first Stop: its own lives %v, the other's %v", lives(orphanA), lives(orphanB))
		}
		b.Stop(t.Context(), short)
		if lives(orphanB) {
			t.Error("after the second Stop its orphan lives")
		}
	})
	t.Run("unmarked: with the last", func(t *testing.T) {
		a, orphanA := daemon(t, "")
		b, orphanB := daemon(t, "")
		b.Stop(t.Context(), short)
		if !lives(orphanA) {
			t.Error("a Stop took an orphan that may be another's")
		}
		a.Stop(t.Context(), short)
		if lives(orphanA) || lives(orphanB) {
			t.Error("the last Stop left orphans")
		}
	})
	t.Run("marked and scrubbed, both stopped at once", func(t *testing.T) {
		a, _ := daemon(t, "CHILD=a", "CHILD_TEST_SCRUB=1")
		b, _ := daemon(t, "CHILD=b", "CHILD_TEST_SCRUB=1")
		var wait sync.WaitGroup
		wait.Go(func() { a.Stop(t.Context(), short) })
		wait.Go(func() { b.Stop(t.Context(), short) })
		wait.Wait()
		if left := tagged(t); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("a program of os/exec is not taken for an orphan", func(t *testing.T) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		c, _ := daemon(t, "")
		c.Stop(t.Context(), short)
		if !lives(cmd.Process.Pid) {
			t.Error("Stop ended a program that it did not start")
		}
	})
}

// plain is a program that is no subreaper. Its child leaves a daemon that holds the pipes; the
// mark determines whether the daemon is found.
func plain() {
	spec := Spec{Command: os.Args[0], Env: ComposeEnv(os.Environ(), map[string]string{roleEnv: "daemonize"}, nil), Mark: os.Getenv("CHILD_TEST_MARK")}
	c, err := Start(spec)
	if err != nil {
		fmt.Println("start:", err)
		return
	}
	in := bufio.NewReader(c.Stdout())
	ready, _ := in.ReadString('\n')
	var pid int
	fmt.Sscanf(ready, "ready %d", &pid)
	for p, ok := readProc(pid); ok; p, ok = readProc(pid) {
		// The creator of the session has ended and was reaped: while it is in the process
		// table, even dead, it shows whose the session is.
		if _, there := readProc(int(p.Session)); !there {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.Stop(context.Background(), Grace{100 * time.Millisecond, 100 * time.Millisecond})
	_, err = io.ReadAll(in)
	fmt.Println("read to the end:", err == nil, "daemon lives:", lives(pid))
}

func TestWithoutSubreaper(t *testing.T) {
	needsOrphans(t)
	noneLeft(t)
	for _, test := range []struct{ name, env, want string }{
		{"marked", "CHILD_TEST_MARK=CHILD=x", "read to the end: true daemon lives: false"},
		// The daemon is not found, and even so the reader doesn't hang.
		{"scrubbed", "CHILD_TEST_SCRUB=1", "read to the end: true daemon lives: true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, role(t, "plain", test.env))
			in := bufio.NewReader(c.Stdout())
			if got := line(t, in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// deserted is a program that is killed before it could stop its child.
func deserted() {
	c, err := Start(Spec{Command: os.Args[0], Env: ComposeEnv(os.Environ(), map[string]string{roleEnv: "obedient"}, nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	io.CopyN(os.Stdout, c.Stdout(), int64(len("ready ")))
	fmt.Println(c.PID())
	select {}
}

func TestDeathSignal(t *testing.T) {
	needsOrphans(t)
	noneLeft(t)
	c := start(t, role(t, "deserted"))
	pid := readyPID(t, bufio.NewReader(c.Stdout()))
	if !lives(pid) {
		t.Fatal("the child did not outlive the thread that started it")
	}
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "lives", func() string { return fmt.Sprint(lives(pid)) }, "false")
}
