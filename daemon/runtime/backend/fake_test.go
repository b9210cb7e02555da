package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

// lives is a process for tests with a fake clock: its server runs in the test, on io pipes. It is
// restarted as by supervise, with a fixed delay.
type lives struct {
	o     supervise.Options[*talk]
	again chan struct{}
	begun func(*server, *instance)

	mu     sync.Mutex
	status supervise.Status
	now    *server
}

const pause = 250 * time.Millisecond

func (p *lives) Status() supervise.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *lives) Tail() *supervise.Tail { return nil }

func (p *lives) Restart(context.Context) error {
	p.present().exit()
	return nil
}

func (p *lives) present() *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *lives) set(s supervise.State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.State, p.status.Err = s, err
	p.o.Changed(p.status)
}

func (p *lives) Run(ctx context.Context) error {
	for budget := p.o.Policy.Restarts; ctx.Err() == nil; budget-- {
		err := p.live(ctx)
		if ctx.Err() != nil {
			break
		}
		if budget == 0 || errors.Is(err, ErrDisagrees) {
			p.set(supervise.Failed, err)
			select {
			case <-ctx.Done():
			case <-p.again:
			}
			continue
		}
		p.set(supervise.Restarting, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	p.set(supervise.Stopped, nil)
	return nil
}

func (p *lives) live(ctx context.Context) error {
	s := newServer()
	t := p.o.Open(s.stdin, s.stdout)
	p.mu.Lock()
	p.now = s
	p.status.PID++
	p.mu.Unlock()
	if p.begun != nil {
		p.begun(s, t.in)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var talking sync.WaitGroup
	talking.Go(func() { _ = p.o.Run(ctx, t) })
	defer func() {
		s.exit()
		talking.Wait()
	}()
	greeting, stop := context.WithCancel(ctx)
	defer stop()
	talking.Go(func() {
		select {
		case <-s.done:
		case <-greeting.Done():
		}
		stop()
	})
	if err := p.o.Handshake(greeting, t); errors.Is(err, ErrDisagrees) {
		return err
	}
	stop()
	p.set(supervise.Running, nil)
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return errors.New("exit status 9")
}

// server is one life of a fake server. It keeps what it reads.
type server struct {
	in     *io.PipeReader
	out    *io.PipeWriter
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	once   sync.Once
	done   chan struct{}
	mu     sync.Mutex
	lines  []string
	read   func(line string) // called for each line instead of keeping it
}

func newServer() *server {
	s := &server{done: make(chan struct{})}
	s.in, s.stdin = io.Pipe()
	s.stdout, s.out = io.Pipe()
	go func() {
		lines := bufio.NewReader(s.in)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			s.got(line[:len(line)-1])
		}
	}()
	return s
}

func (s *server) got(line string) {
	s.mu.Lock()
	read := s.read
	if read == nil {
		s.lines = append(s.lines, line)
	}
	s.mu.Unlock()
	if read != nil {
		read(line)
	}
}

func (s *server) say(line string) error {
	_, err := fmt.Fprintln(s.out, line)
	return err
}

func (s *server) exit() {
	s.once.Do(func() {
		s.out.Close()
		s.in.Close()
		close(s.done)
	})
}

// shelf is a client that keeps the lines that it gets.
type shelf struct {
	mu    sync.Mutex
	lines []string
	room  int // how many more lines it accepts; negative for any number
	gone  error
}

func (c *shelf) Deliver(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room == 0 {
		return false
	}
	c.room--
	c.lines = append(c.lines, string(line))
	return true
}

func (c *shelf) Gone(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		panic("Gone was called twice")
	}
	c.gone = err
}

func (c *shelf) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// fixture is a test fixture: a pool over fakes.
type fixture struct {
	*Pool
	t     *testing.T
	procs []*lives
}

// keep runs a pool in a synctest bubble until the test has returned.
func keep(t *testing.T, o Options, test func(h *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t}
		h.Pool = New(o)
		h.make = func(o supervise.Options[*talk]) process {
			p := &lives{o: o, again: make(chan struct{}, 1)}
			h.procs = append(h.procs, p)
			return p
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = h.Run(ctx)
		}()
		test(h)
		cancel()
		<-ended
	})
}

// server returns the current life of the nth process, from 1.
func (h *fixture) server(n int) *server {
	synctest.Wait()
	if n > len(h.procs) {
		h.t.Fatalf("there are %d processes, want %d", len(h.procs), n)
	}
	return h.procs[n-1].present()
}

func (h *fixture) join(c Client) *Member {
	h.t.Helper()
	m, err := h.Join(h.t.Context(), Spec{Server: "fake", Launch: "x", Command: []string{"fake"}, Cwd: "/"}, c)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}
