package api

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// What a shim passes on, in this order.
const (
	agentInput   = iota // what the agent writes
	agentOutput         // what it reads
	serverInput         // the write end of the server's input
	serverOutput        // the read end of what the server writes
	drained             // the write end of a pipe that is closed when the agent has all
	descriptors         // how many they are
)

// maxArrivals is how many connections of one process are looked at together until
// their first byte has come. Others wait, as long as a connection may.
const maxArrivals = 8

// arrivals lets connections have their turn. A process that makes many and says
// nothing is in its own way alone.
type arrivals struct {
	timeout time.Duration
	mu      sync.Mutex
	of      map[proc.Process]*turns
}

// turns are those of one process.
type turns struct {
	taken chan struct{} // holds a value for each
	users int           // who has one, or waits; guarded by the mu of arrivals
}

func newArrivals(timeout time.Duration) *arrivals {
	return &arrivals{timeout: timeout, of: map[proc.Process]*turns{}}
}

// receive waits for the first byte of c and takes in the descriptors that came with
// it, nil for none.
func (a *arrivals) receive(c *sock.Conn) (*sock.Passed, error) {
	who := c.Peer().Process
	a.mu.Lock()
	t := a.of[who]
	if t == nil {
		t = &turns{taken: make(chan struct{}, maxArrivals)}
		a.of[who] = t
	}
	t.users++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(a.of, who)
		}
	}()
	limit := time.NewTimer(a.timeout)
	defer limit.Stop()
	select {
	case t.taken <- struct{}{}:
		defer func() { <-t.taken }()
		return c.Receive(descriptors)
	case <-limit.C:
		return nil, fmt.Errorf("process %d has %d connections already that say nothing: %w", who.PID, maxArrivals, gate.ErrTooMany)
	}
}

// descriptors returns what the shim has passed on, which is the caller's from then on
// to close. It is an error when there is nothing, or something else than should be.
func (p peerInfo) descriptors() ([]int, error) {
	fds := p.passed.Take()
	if fds == nil {
		return nil, fmt.Errorf("no descriptors came with this connection, or they were taken: %w", gate.ErrInvalid)
	}
	if err := checkDescriptors(fds); err != nil {
		sock.CloseAll(fds)
		return nil, err
	}
	return fds, nil
}

// checkDescriptors checks that what a shim has passed on is what it should be. What
// the agent gave it may be anything that bytes are read from or written to one after
// the other; the rest are pipes, which the shim has made.
func checkDescriptors(fds []int) error {
	if len(fds) != descriptors {
		return fmt.Errorf("%d descriptors came and not %d: %w", len(fds), descriptors, gate.ErrInvalid)
	}
	for i, want := range [descriptors]struct {
		name   string
		access int // it must be open for this
		pipe   bool
	}{
		agentInput:   {"the agent's input", unix.O_RDONLY, false},
		agentOutput:  {"the agent's output", unix.O_WRONLY, false},
		serverInput:  {"the server's input", unix.O_WRONLY, true},
		serverOutput: {"the server's output", unix.O_RDONLY, true},
		drained:      {"the pipe that says that the agent has all", unix.O_WRONLY, true},
	} {
		if err := checkDescriptor(fds[i], want.access, want.pipe); err != nil {
			return fmt.Errorf("%s: %w: %w", want.name, err, gate.ErrInvalid)
		}
	}
	return nil
}

func checkDescriptor(fd, access int, pipe bool) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	switch kind := stat.Mode & unix.S_IFMT; {
	case kind == unix.S_IFIFO:
	case pipe:
		return fmt.Errorf("it is no pipe (mode %o)", stat.Mode)
	case kind != unix.S_IFSOCK && kind != unix.S_IFCHR && kind != unix.S_IFREG:
		return fmt.Errorf("nothing can be read from or written to such a thing (mode %o)", stat.Mode)
	}
	if mode := flags & unix.O_ACCMODE; mode != access && mode != unix.O_RDWR || flags&pathOnly != 0 {
		return fmt.Errorf("it is open for something else (flags %#o)", flags)
	}
	return nil
}
