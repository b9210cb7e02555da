package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// The tests in this file run real programs under the real clock.

func TestMain(m *testing.M) {
	stop, _ := child.AdoptOrphans() // without this, orphans go unnoticed, as they do on macOS
	code := m.Run()
	stop()
	if left, _ := exec.Command("pgrep", "-f", leftBehind).Output(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes are left: %s", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind is in the command line of each program that must not outlive the tests. It differs
// between test runs.
var leftBehind = fmt.Sprintf("supervise-test-program-%d-", os.Getpid())

// server is a program that echoes every line. So each request comes back as a request, and the
// answer to it comes back as the answer.
func server(command string, args ...string) supervise.Options[*rpc.Conn] {
	echo := rpc.HandlerFunc(func(_ context.Context, method string, params []byte) ([]byte, error) {
		if method == "unknown" {
			return nil, &rpc.Fault{Code: -32601, Message: "no such method"}
		}
		return params, nil
	})
	return supervise.Options[*rpc.Conn]{
		Name: `server "echo"`,
		Spec: func() (child.Spec, error) {
			return child.Spec{Command: command, Args: args, Env: []string{"PATH=" + os.Getenv("PATH")}}, nil
		},
		Open: func(in io.WriteCloser, out io.ReadCloser) *rpc.Conn {
			return rpc.NewConn(out, in, rpc.Options{Handler: echo})
		},
		Run: func(ctx context.Context, c *rpc.Conn) error { return c.Run(ctx) },
		Handshake: func(ctx context.Context, c *rpc.Conn) error {
			answer, err := c.Call(ctx, "initialize", []byte(`{"protocol":1}`))
			if err == nil && string(answer) != `{"protocol":1}` {
				err = supervise.Permanent(fmt.Errorf("it speaks %s", answer))
			}
			return err
		},
		Lost:   func(err error) bool { return errors.Is(err, rpc.ErrClosed) },
		Policy: supervise.Policy{Restarts: 3, First: 10 * time.Millisecond},
		Grace:  child.Grace{Stdin: 5 * time.Second, Term: time.Second},
	}
}

// keep runs p until the test ends.
func keep[T any](t *testing.T, p *supervise.Process[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run does not end")
		}
	})
}

func ping(ctx context.Context, c *rpc.Conn) error {
	answer, err := c.Call(ctx, "ping", []byte(`{"n":1}`))
	if err == nil && string(answer) != `{"n":1}` {
		err = fmt.Errorf("answer %s", answer)
	}
	return err
}

func TestRealProgramIsKilledAgainAndAgain(t *testing.T) {
	o := server("sh", "-c", ": "+leftBehind+"; sleep 1000 & cat; wait")
	o.Policy.Restarts = 10
	o.Grace = child.Grace{Stdin: 50 * time.Millisecond, Term: time.Second}
	p := supervise.New(o)
	keep(t, p)
	for range 5 {
		if err := p.Do(t.Context(), "ping", time.Minute, ping); err != nil {
			t.Fatal(err)
		}
		before := p.Status()
		if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// A call hides the end of a life.
		if err := p.Do(t.Context(), "ping", time.Minute, ping); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Minute)
		for p.Status().Restarts == before.Restarts {
			if time.Now().After(deadline) {
				t.Fatalf("it was not started again: %+v", p.Status())
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := p.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := p.Status(); s.State != supervise.Degraded || !strings.Contains(fmt.Sprint(s.Err), "killed by SIGKILL") {
			t.Errorf("status %+v", s)
		}
	}
}

func TestRealProgramThatIsNotThere(t *testing.T) {
	p := supervise.New(server("no-such-program-" + leftBehind))
	keep(t, p)
	if _, err := p.Conn(t.Context()); !errors.Is(err, supervise.ErrFailed) || child.StartExit(err) != child.ExitNotFound {
		t.Errorf("error %v, want ErrFailed and child.ErrNotFound", err)
	}
}

func TestRealProgramThatComplains(t *testing.T) {
	p := supervise.New(server("sh", "-c", "echo 'starting' >&2; printf 'cannot find \\033[31mlibx\\n' >&2; exit 4"))
	keep(t, p)
	_, err := p.Conn(t.Context())
	var exit *supervise.ExitError
	if want := `cannot find \x1b[31mlibx`; !errors.As(err, &exit) || exit.State.Code != 4 || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %q, want exit status 4 and %q", err, want)
	}
	if lines := p.Tail().Lines(); len(lines) != 8 || lines[0].Text != "starting" {
		t.Errorf("tail %+v, want two lines of each of four lives", lines)
	}
}

func TestRealProgramThatDoesNotLeave(t *testing.T) {
	o := server("sh", "-c", "trap '' TERM; : "+leftBehind+"; cat; while :; do sleep 0.05; done")
	o.Grace = child.Grace{Stdin: 100 * time.Millisecond, Term: 100 * time.Millisecond}
	p := supervise.New(o)
	keep(t, p)
	if _, err := p.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// One program, many concurrent calls.
func Example() {
	p := supervise.New(server("cat"))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })

	var calls sync.WaitGroup
	answers := make([]string, 100)
	for i := range answers {
		calls.Go(func() {
			err := p.Do(ctx, "square", time.Minute, func(ctx context.Context, conn *rpc.Conn) error {
				answer, err := conn.Call(ctx, "square", fmt.Appendf(nil, `{"of":%d}`, i*i))
				answers[i] = string(answer)
				return err
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	calls.Wait()
	fmt.Println(answers[0], answers[7], answers[99])
	fmt.Println(p.Status().State)

	stop()
	running.Wait()
	fmt.Println(p.Status().State)
	// Output:
	// {"of":0} {"of":49} {"of":9801}
	// running
	// stopped
}
