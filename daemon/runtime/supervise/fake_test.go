package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// fakeProgram is a program for tests with a fake clock: it runs in this process, on io pipes.
type fakeProgram struct {
	pid            int
	in             *io.PipeReader // what it reads
	out, errs      *io.PipeWriter
	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader

	once  sync.Once
	done  chan struct{}
	state child.State
	leave time.Duration // how long it takes to exit once its stdin is closed
	stops []child.Grace
}

func newFakeProgram(pid int) *fakeProgram {
	f := &fakeProgram{pid: pid, done: make(chan struct{})}
	f.in, f.stdin = io.Pipe()
	f.stdout, f.out = io.Pipe()
	f.stderr, f.errs = io.Pipe()
	return f
}

func (f *fakeProgram) PID() int              { return f.pid }
func (f *fakeProgram) Stdin() io.WriteCloser { return f.stdin }
func (f *fakeProgram) Stdout() io.ReadCloser { return f.stdout }
func (f *fakeProgram) Stderr() io.ReadCloser { return f.stderr }
func (f *fakeProgram) Done() <-chan struct{} { return f.done }
func (f *fakeProgram) Wait() child.State     { <-f.done; return f.state }

// exit ends the program.
func (f *fakeProgram) exit(s child.State) {
	f.once.Do(func() {
		f.state = s
		f.out.Close()
		f.errs.Close()
		f.in.Close()
		close(f.done)
	})
}

func (f *fakeProgram) Stop(ctx context.Context, g child.Grace) child.State {
	f.stops = append(f.stops, g)
	f.stdin.Close()
	select {
	case <-f.done:
	case <-time.After(f.leave):
		f.exit(child.State{})
	case <-ctx.Done():
		f.exit(child.State{Signal: syscall.SIGKILL})
	}
	return f.state
}

// talk is a connection that carries lines.
type talk struct {
	w       io.WriteCloser
	r       io.ReadCloser
	answers chan string
}

func (c *talk) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.r.Close() })
	defer stop()
	defer close(c.answers)
	lines := bufio.NewScanner(c.r)
	for lines.Scan() {
		select {
		case c.answers <- lines.Text():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}

var errHungUp = errors.New("hung up")

func (c *talk) ask(ctx context.Context, what string) (string, error) {
	if _, err := fmt.Fprintln(c.w, what); err != nil {
		return "", errHungUp
	}
	select {
	case answer, ok := <-c.answers:
		if !ok {
			return "", errHungUp
		}
		return answer, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// script is what each life of the program does: it is called for each line that the program reads.
type script func(f *fakeProgram, line string)

// answering echoes each line.
func answering(f *fakeProgram, line string) { fmt.Fprintln(f.out, line) }

// fixture is a test fixture: a process over fake programs, with a log of what happened to it.
type fixture struct {
	*Process[*talk]
	t       *testing.T
	mu      sync.Mutex
	lives   []*fakeProgram
	born    []time.Time
	seen    []string
	begin   func(life int, f *fakeProgram) // called at the start of a life; may be nil
	script  script
	failing error // the error of the next starts
	cancel  context.CancelFunc
	ended   chan error
}

// keep returns a running fixture in a synctest bubble.
func keep(t *testing.T, change func(*Options[*talk], *fixture)) *fixture {
	h := &fixture{t: t, script: answering, ended: make(chan error, 1)}
	o := Options[*talk]{
		Name: "extension \"x\"",
		Spec: func() (child.Spec, error) { return child.Spec{Command: "x"}, nil },
		Open: func(in io.WriteCloser, out io.ReadCloser) *talk {
			return &talk{w: in, r: out, answers: make(chan string)}
		},
		Run: func(ctx context.Context, c *talk) error { return c.run(ctx) },
		Handshake: func(ctx context.Context, c *talk) error {
			answer, err := c.ask(ctx, "hello")
			if err == nil && answer != "hello" {
				err = Permanent(fmt.Errorf("it says %q", answer))
			}
			return err
		},
		Lost:   func(err error) bool { return errors.Is(err, errHungUp) },
		Policy: Policy{Restarts: 3, First: time.Second, Most: 4 * time.Second, Stable: time.Minute},
		Changed: func(s Status) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if text := s.State.String(); len(h.seen) == 0 || h.seen[len(h.seen)-1] != text {
				h.seen = append(h.seen, text)
			}
		},
	}
	if change != nil {
		change(&o, h)
	}
	h.Process = New(o)
	h.Process.start = h.startFake
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.ended <- h.Run(ctx) }()
	return h
}

func (h *fixture) startFake(child.Spec) (program, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.born = append(h.born, time.Now())
	if h.failing != nil {
		return nil, h.failing
	}
	f := newFakeProgram(100 + len(h.lives))
	h.lives = append(h.lives, f)
	if h.begin != nil {
		h.begin(len(h.lives), f)
	}
	go func() {
		lines := bufio.NewScanner(f.in)
		for lines.Scan() {
			h.script(f, lines.Text())
		}
	}()
	return f, nil
}

func (h *fixture) life(n int) *fakeProgram {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lives[n-1]
}

func (h *fixture) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lives)
}

func (h *fixture) states() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.seen, " ")
}

// close ends the fixture and with it every fake and goroutine: synctest fails the test if one is
// left.
func (h *fixture) close() {
	h.t.Helper()
	h.cancel()
	if err := <-h.ended; err != nil {
		h.t.Errorf("Run: %v", err)
	}
	for _, f := range h.lives {
		select {
		case <-f.done:
		default:
			h.t.Errorf("program %d was not stopped", f.pid)
		}
	}
}

// bubble runs a test with a fake clock.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
