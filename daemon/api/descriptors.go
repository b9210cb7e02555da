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

// The descriptors that a shim sends, in this order.
const (
	agentInput   = iota // carries what the agent writes
	agentOutput         // carries what the agent reads
	serverInput         // write end of the server's stdin
	serverOutput        // read end of the server's stdout
	drained             // write end of a pipe that is closed when the agent has read everything
	descriptors         // their number
)

// maxArrivals is how many connections of one process may wait for their first byte at a time.
// Further ones queue, at most for the timeout of a new connection.
const maxArrivals = 8

// arrivals limits the connections that wait for their first byte, per process. A process that opens
// many silent connections blocks only itself.
type arrivals struct {
	timeout time.Duration
	mu      sync.Mutex
	of      map[proc.Process]*turns
}

// turns limits the connections of one process.
type turns struct {
	taken chan struct{} // holds a value for each connection that is being received
	users int           // connections being received or waiting; guarded by arrivals.mu
}

func newArrivals(timeout time.Duration) *arrivals {
	return &arrivals{timeout: timeout, of: map[proc.Process]*turns{}}
}

// receive waits for the first byte of c and returns the descriptors that came with it, or nil.
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
		return nil, fmt.Errorf("process %d already has %d idle connections: %w", who.PID, maxArrivals, gate.ErrTooMany)
	}
}

// descriptors returns the descriptors that the shim sent. The caller must close them. It fails if
// there are none, or if they are not as required.
func (p peerInfo) descriptors() ([]int, error) {
	fds := p.passed.Take()
	if fds == nil {
		return nil, fmt.Errorf("this connection has sent no descriptors, or they were taken already: %w", gate.ErrInvalid)
	}
	if err := checkDescriptors(fds); err != nil {
		sock.CloseAll(fds)
		return nil, err
	}
	return fds, nil
}

// checkDescriptors checks that the descriptors of a shim are as required. Those from the agent may
// be any file that is read or written sequentially; the others are pipes made by the shim.
func checkDescriptors(fds []int) error {
	if len(fds) != descriptors {
		return fmt.Errorf("got %d descriptors, want %d: %w", len(fds), descriptors, gate.ErrInvalid)
	}
	for i, want := range [descriptors]struct {
		name   string
		access int // required access mode
		pipe   bool
	}{
		agentInput:   {"the agent's input", unix.O_RDONLY, false},
		agentOutput:  {"the agent's output", unix.O_WRONLY, false},
		serverInput:  {"the server's input", unix.O_WRONLY, true},
		serverOutput: {"the server's output", unix.O_RDONLY, true},
		drained:      {"the pipe that reports that the agent has received everything", unix.O_WRONLY, true},
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
		return fmt.Errorf("inspect it: %w", err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("inspect it: %w", err)
	}
	switch kind := stat.Mode & unix.S_IFMT; {
	case kind == unix.S_IFIFO:
	case pipe:
		return fmt.Errorf("it is not a pipe (mode %o)", stat.Mode)
	case kind != unix.S_IFSOCK && kind != unix.S_IFCHR && kind != unix.S_IFREG:
		return fmt.Errorf("a file of this type can't be read or written (mode %o)", stat.Mode)
	}
	if mode := flags & unix.O_ACCMODE; mode != access && mode != unix.O_RDWR || flags&pathOnly != 0 {
		return fmt.Errorf("it is open with the wrong access mode (flags %#o)", flags)
	}
	return nil
}
