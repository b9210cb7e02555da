package backend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/backend"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// The tests in this file share a real server, which is the test binary itself, under the real
// clock.

const (
	isServer = "BACKEND_TEST_IS_SERVER"
	// patience allows for busy machines.
	patience = 5 * time.Minute
)

// leftBehind is in the command line of each process that must not outlive the tests. It differs
// between test runs.
var leftBehind = fmt.Sprintf("backend-test-program-%d-", os.Getpid())

func TestMain(m *testing.M) {
	if os.Getenv(isServer) != "" {
		err := fake.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, fake.ServerOptions{})
		if err != nil {
			os.Exit(9)
		}
		return
	}
	stop, _ := child.AdoptOrphans() // without this, orphans go unnoticed, as they do on macOS
	code := m.Run()
	stop()
	if left, _ := exec.Command("pgrep", "-f", leftBehind).Output(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes are left: %s", left)
		code = 1
	}
	os.Exit(code)
}

// program returns the server, which starts another process that ignores pipes.
func program(t *testing.T) backend.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return backend.Spec{
		Server: "fake", Launch: "x", Cwd: t.TempDir(),
		Command: []string{"sh", "-c", `sh -c ": ` + leftBehind + `; sleep 1000; :" & exec "$0"`, self},
		Env:     append(os.Environ(), isServer+"=1", "THOUGHTGATE_SESSION=s-1", "TERM=dumb"),
	}
}

// keep runs a pool until the test ends.
func keep(t *testing.T, o backend.Options) *backend.Pool {
	t.Helper()
	p := backend.New(o)
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
		case <-time.After(patience):
			t.Error("Run does not end")
		}
		if left := p.List(); len(left) > 0 && left[0].Status.State != supervise.Stopped {
			t.Errorf("after the end: %+v", left)
		}
	})
	return p
}

// session is a client that makes one request after another.
type session struct {
	*backend.Queue
	*backend.Member
	t *testing.T
}

func open(t *testing.T, p *backend.Pool, s backend.Spec) *session {
	t.Helper()
	q := &backend.Queue{}
	m, err := p.Join(t.Context(), s, q)
	if err != nil {
		t.Fatal(err)
	}
	c := &session{q, m, t}
	c.call(`0`, `"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *session) write(line string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Write(ctx, []byte(line)); err != nil {
		c.t.Error(err)
	}
}

func (c *session) next() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line, err := c.Next(ctx)
	if err != nil {
		c.t.Error(err)
	}
	return string(line)
}

// call makes a request and returns its answer, skipping notifications.
func (c *session) call(id, rest string) string {
	c.write(`{"jsonrpc":"2.0","id":` + id + `,` + rest + `}`)
	return c.answer(id)
}

func (c *session) answer(id string) string {
	for {
		line := c.next()
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			c.t.Errorf("%q: %v", line, err)
			return ""
		}
		if m.Method == "" {
			if string(m.ID) != id {
				c.t.Errorf("an answer to %s: %s", id, line)
			}
			return line
		}
	}
}

func (c *session) tool(id, name, arguments string) string {
	return c.call(id, fmt.Sprintf(`"method":"tools/call","params":{"name":%q,"arguments":%s}`, name, arguments))
}

func TestManySessionsOnOneProcess(t *testing.T) {
	p := keep(t, backend.Options{})
	spec := program(t)
	var sessions sync.WaitGroup
	for n := range 20 {
		sessions.Go(func() {
			c := open(t, p, spec)
			defer c.Leave()
			for i := range 20 {
				mark := fmt.Sprintf(`{"said":"%d of %d"}`, i, n)
				if got := c.tool(fmt.Sprint(i+1), "echo", mark); !strings.Contains(got, fmt.Sprintf("%d of %d", i, n)) {
					t.Errorf("session %d asked for %s and got %s", n, mark, got)
				}
			}
		})
	}
	sessions.Wait()
	list := p.List()
	if len(list) != 1 || list[0].Status.State != supervise.Running || list[0].Name != "fake" || list[0].Began.IsZero() || list[0].Clients != 0 {
		t.Errorf("processes %+v, want one that runs", list)
	}
	c := open(t, p, spec)
	if got := c.tool("1", "environment", `{}`); strings.Contains(got, "THOUGHTGATE_SESSION") || strings.Contains(got, `TERM\n`) || !strings.Contains(got, isServer) {
		t.Errorf("its environment: %s", got)
	}
}

func TestKilledUnderLoad(t *testing.T) {
	ends := make(chan string, 16)
	p := keep(t, backend.Options{
		Policy: supervise.Policy{Restarts: 3, First: 10 * time.Millisecond},
		Ended:  func(server string, how *child.State) { ends <- server + " " + how.String() },
	})
	spec := program(t)
	var all []*session
	for range 5 {
		c := open(t, p, spec)
		all = append(all, c)
		c.write(`{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"slow","arguments":{"milliseconds":100000000}}}`)
		c.tool(`1`, "echo", `{}`) // so the previous one has arrived
	}
	pid := p.List()[0].Status.PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if got := c.answer(`"slow"`); !strings.Contains(got, "-31012") {
			t.Errorf("after a kill: %s", got)
		}
	}
	for i, c := range all {
		if got := c.tool("2", "echo", fmt.Sprintf(`{"n":%d}`, i)); !strings.Contains(got, fmt.Sprintf(`{\"n\":%d}`, i)) {
			t.Errorf("the next life answers %s", got)
		}
	}
	if end := <-ends; end != "fake killed by SIGKILL" || len(ends) > 0 {
		t.Errorf("told of its end: %q", end)
	}
	if s := p.List()[0].Status; s.Restarts != 1 || s.PID == pid {
		t.Errorf("status %+v", s)
	}
	if ok, err := p.Restart(t.Context(), supervise.KindBackend, "fake", ""); !ok || err != nil {
		t.Errorf("Restart: %v, %v", ok, err)
	}
	if got := all[0].tool("3", "echo", `{"again":1}`); !strings.Contains(got, "again") {
		t.Errorf("after a restart: %s", got)
	}
	if ok, _ := p.Restart(t.Context(), supervise.KindBackend, "fake", "7"); ok {
		t.Error("a process that isn't there was restarted")
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	p := keep(t, backend.Options{})
	q := &backend.Queue{}
	m, err := p.Join(t.Context(), backend.Spec{Server: "x", Command: []string{"no-such-program-anywhere"}, Cwd: t.TempDir()}, q)
	if err != nil {
		t.Fatal(err)
	}
	c := &session{q, m, t}
	got := c.call("1", `"method":"initialize","params":{"protocolVersion":"2025-11-25"}`)
	if !strings.Contains(got, "-31011") || !strings.Contains(got, "not found") || !strings.Contains(got, "tgctl restart x") {
		t.Errorf("answer %s", got)
	}
}

func TestStandardErrorIsKept(t *testing.T) {
	p := keep(t, backend.Options{})
	c := open(t, p, program(t))
	c.tool("1", "noise", `{"lines":1}`)
	tail, ok := p.Tail(supervise.KindBackend, "fake", "")
	if !ok {
		t.Fatal("there is no tail")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for line := range tail.Follow(ctx, 0) {
		if strings.Contains(line.Text, "noise 0") {
			return
		}
	}
	t.Error("what it said is not there")
}

func TestJoinAfterTheEnd(t *testing.T) {
	p := backend.New(backend.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	q := &backend.Queue{}
	if _, err := p.Join(ctx, program(t), q); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, err := q.Next(t.Context()); !errors.Is(err, backend.ErrStopped) {
		t.Errorf("who had joined learns %v", err)
	}
	if _, err := p.Join(t.Context(), program(t), q); !errors.Is(err, backend.ErrStopped) {
		t.Errorf("who comes learns %v", err)
	}
}
