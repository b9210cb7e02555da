package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// patient is longer than any test takes: no test may wait out such a step.
const patient = time.Minute

func TestStopLadder(t *testing.T) {
	noneLeft(t)
	const short = 100 * time.Millisecond
	for _, test := range []struct {
		name   string
		script string
		grace  Grace
		want   State
		least  time.Duration // minimum duration of Stop
	}{
		{"leaves at the end of input", "echo ready; cat >/dev/null; exit 4", Grace{patient, patient}, State{Code: 4}, 0},
		{"leaves at SIGTERM", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done", Grace{short, patient}, State{Code: 5}, short},
		{"SIGTERM without a handler", "echo ready; exec sleep 1000", Grace{short, patient}, State{Signal: syscall.SIGTERM}, short},
		{"does not leave", "trap '' TERM; echo ready; while :; do sleep 0.01; done", Grace{short, short}, State{Signal: syscall.SIGKILL}, 2 * short},
		{"no grace at all", "trap '' TERM; echo ready; while :; do sleep 0.01; done", Grace{}, State{Signal: syscall.SIGKILL}, 0},
		{"stopped, and so deaf", "trap 'exit 6' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done", Grace{short, patient}, State{Code: 6}, short},
		{"already gone", "echo ready; exit 7", Grace{patient, patient}, State{Code: 7}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, script(t, test.script))
			in := bufio.NewReader(c.Stdout())
			if got := line(t, in); got != "ready" {
				t.Fatalf("got %q", got)
			}
			began := time.Now()
			got := c.Stop(t.Context(), test.grace)
			if took := time.Since(began); took < test.least || took > patient/2 {
				t.Errorf("Stop took %v, want %v or little more", took, test.least)
			}
			if got != test.want {
				t.Errorf("state %v, want %v", got, test.want)
			}
		})
	}
}

func TestStopIsHastened(t *testing.T) {
	noneLeft(t)
	t.Run("by a second call", func(t *testing.T) {
		c := start(t, role(t, "stubborn"))
		readyPID(t, bufio.NewReader(c.Stdout()))
		first := make(chan State)
		go func() { first <- c.Stop(t.Context(), Grace{patient, patient}) }()
		eventually(t, "stdin closed", func() string {
			_, err := c.Stdin().Write([]byte("x"))
			return fmt.Sprint(err != nil)
		}, "true")
		began := time.Now()
		if got := c.Stop(t.Context(), Grace{Term: 50 * time.Millisecond}); got.Signal != syscall.SIGKILL {
			t.Errorf("state %v", got)
		}
		if got := <-first; got.Signal != syscall.SIGKILL {
			t.Errorf("first caller: state %v", got)
		}
		if took := time.Since(began); took < 50*time.Millisecond || took > patient/2 {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("by its context", func(t *testing.T) {
		c := start(t, role(t, "stubborn"))
		readyPID(t, bufio.NewReader(c.Stdout()))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		c.Stop(ctx, Grace{patient, patient})
		if took := time.Since(began); took < 50*time.Millisecond || took > patient/2 {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("by many", func(t *testing.T) {
		c := start(t, role(t, "stubborn"))
		readyPID(t, bufio.NewReader(c.Stdout()))
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				if got := c.Stop(t.Context(), Grace{time.Duration(i) * 20 * time.Millisecond, patient / time.Duration(i*i*i+1)}); got.Signal != syscall.SIGKILL {
					t.Errorf("state %v", got)
				}
				if lives(c.PID()) {
					t.Error("Stop returned and the program lives")
				}
			})
		}
		c.Stop(t.Context(), Grace{Term: 200 * time.Millisecond})
		wait.Wait()
	})
}

func TestLadderDeadlinesOnlyMoveCloser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		isDue := func(d *deadline) bool {
			synctest.Wait()
			select {
			case <-d.due:
				return true
			default:
				return false
			}
		}
		var l stopDeadlines
		if !l.ask(Grace{5 * time.Second, 2 * time.Second}) {
			t.Fatal("the first call is not the first")
		}
		for _, step := range []struct {
			now             int
			do              func() bool
			stdinBy, killBy int
		}{
			{1, func() bool { return l.ask(Grace{9 * time.Second, 9 * time.Second}) }, 5, 7},
			{1, func() bool { return l.ask(Grace{3 * time.Second, 5 * time.Second}) }, 4, 7},
			{2, func() bool { l.terminating(); return false }, 4, 4},
			{3, func() bool { return l.ask(Grace{}) }, 3, 3},
		} {
			time.Sleep(time.Until(at(step.now)))
			if step.do() {
				t.Error("a later call is taken for the first")
			}
			if !l.stdin.at.Equal(at(step.stdinBy)) || !l.kill.at.Equal(at(step.killBy)) {
				t.Errorf("deadlines %v and %v, want %d s and %d s", l.stdin.at.Sub(began), l.kill.at.Sub(began), step.stdinBy, step.killBy)
			}
			if isDue(l.stdin) != (step.stdinBy <= step.now) || isDue(l.kill) != (step.killBy <= step.now) {
				t.Errorf("after %d s: due %v and %v, want deadlines %d s and %d s", step.now, isDue(l.stdin), isDue(l.kill), step.stdinBy, step.killBy)
			}
		}
	})
}

func TestGrandchildren(t *testing.T) {
	noneLeft(t)
	short := Grace{100 * time.Millisecond, 100 * time.Millisecond}
	t.Run("in the group, holding the pipes, leader long gone", func(t *testing.T) {
		c := start(t, script(t, "(trap '' TERM; echo ready; exec sleep 1000) & exit 3"))
		in := bufio.NewReader(c.Stdout())
		line(t, in)
		<-c.Done()
		read := make(chan string)
		go func() {
			rest, err := io.ReadAll(in)
			read <- fmt.Sprintf("%q %v", rest, err)
		}()
		if got := c.Stop(t.Context(), short); got.Code != 3 {
			t.Errorf("state %v, want exit status 3", got)
		}
		if got := <-read; got != `"" <nil>` {
			t.Errorf("read %s", got)
		}
	})
	t.Run("double fork with setsid", func(t *testing.T) {
		needsOrphans(t)
		c := start(t, role(t, "daemonize"))
		pid := readyPID(t, bufio.NewReader(c.Stdout()))
		eventually(t, "adopted", func() string { p, _ := readProc(pid); return fmt.Sprint(p.PPID) }, fmt.Sprint(os.Getpid()))
		if p, _ := readProc(pid); int(p.Group) == c.PID() || p.Session == c.leader.Session {
			t.Fatalf("the daemon is still in the group or session: %+v", p)
		}
		c.Stop(t.Context(), short)
		if lives(pid) {
			t.Errorf("daemon %d lives", pid)
		}
	})
	t.Run("leader that went to another group", func(t *testing.T) {
		c := start(t, role(t, "wander"))
		readyPID(t, bufio.NewReader(c.Stdout()))
		if got := c.Stop(t.Context(), short); got.Signal != syscall.SIGKILL {
			t.Errorf("state %v", got)
		}
	})
	t.Run("a helper that needs SIGTERM gets it, and time", func(t *testing.T) {
		c := start(t, script(t, `sh -c 'trap "sleep 0.2; echo flushed; exit" TERM; echo ready; while :; do sleep 0.01; done' & exit 0`))
		in := bufio.NewReader(c.Stdout())
		line(t, in)
		c.Stop(t.Context(), Grace{patient, patient})
		if got := line(t, in); got != "flushed" {
			t.Errorf("the helper said %q", got)
		}
	})
	t.Run("one that the leader's end of input also ends is not terminated", func(t *testing.T) {
		c := start(t, script(t, `sh -c 'trap "echo terminated; exit" TERM; cat; sleep 0.1; echo flushed' <&0 & echo ready; exit 0`))
		c.settle = patient // a busy machine may take longer than settle to run these programs
		in := bufio.NewReader(c.Stdout())
		line(t, in)
		c.Stop(t.Context(), Grace{patient, patient})
		if rest, _ := io.ReadAll(in); strings.TrimSpace(string(rest)) != "flushed" {
			t.Errorf("the helper said %q", rest)
		}
	})
	t.Run("one that forks without end", func(t *testing.T) {
		needsOrphans(t)
		c := start(t, script(t, `trap '' TERM; echo ready; while :; do (trap '' TERM; setsid sleep 1000 & sleep 0.001); done`))
		in := bufio.NewReader(c.Stdout())
		line(t, in)
		c.Stop(t.Context(), Grace{Stdin: 50 * time.Millisecond, Term: 50 * time.Millisecond})
		if left := tagged(t); len(left) > 0 {
			t.Errorf("%d processes are left", len(left))
		}
	})
}

func TestHundredCycles(t *testing.T) {
	noneLeft(t)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 25 {
				spec := script(t, "cat & sleep 1000 & cat; kill $!; wait")
				if i%2 == 0 {
					spec = script(t, "exec cat")
				}
				c, err := Start(spec)
				if err != nil {
					t.Error(err)
					return
				}
				go io.Copy(io.Discard, c.Stderr())
				fmt.Fprintf(c.Stdin(), "worker %d, cycle %d\n", worker, i)
				if i%3 == 0 {
					c.Signal(syscall.SIGKILL)
				}
				c.Stop(t.Context(), Grace{time.Duration(i) * time.Millisecond, time.Second})
				if _, err := io.Copy(io.Discard, c.Stdout()); err != nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
	wait.Wait()
}
