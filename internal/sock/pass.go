package sock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDescriptors reports that the first byte of a connection did not come with the expected
// descriptors.
var ErrDescriptors = errors.New("not the expected descriptors")

// Pass sends descriptors with a zero byte, the first byte of a connection. If too many of the
// user's descriptors are in flight, it retries until ctx ends. The caller keeps its
// descriptors.
func Pass(ctx context.Context, c *net.UnixConn, fds ...int) error {
	return pass(ctx, func() error {
		_, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
		return err
	})
}

func pass(ctx context.Context, send func() error) error {
	const first, last = time.Millisecond, 100 * time.Millisecond
	for pause := first; ; pause = min(2*pause, last) {
		err := send()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ETOOMANYREFS) {
			return fmt.Errorf("pass descriptors: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("pass descriptors: too many are in transit between your processes (the limit is that of ulimit -n): %w", err)
		}
	}
}

// Passed holds descriptors that came over a connection. Those that nobody takes are closed with
// it.
type Passed struct {
	mu  sync.Mutex
	fds []int
}

// Take returns the descriptors, which the caller owns then, or nil if they were taken before or
// the connection is closed.
func (p *Passed) Take() []int {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fds := p.fds
	p.fds = nil
	return fds
}

func (p *Passed) close() { CloseAll(p.Take()) }

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // an error is of no use to the owner
	}
}

// Receive waits until the peer's first byte can be read, up to the deadline of the connection.
// If it is the zero byte of [Pass], Receive reads it, and exactly n descriptors must have come
// with it. Receive leaves any other byte unread and returns nil: no descriptors came. It must
// be called once, before anything is read.
func (c *Conn) Receive(n int) (*Passed, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var first [1]byte
	read, err := receive(raw, func(fd int) (int, error) {
		n, _, err := unix.Recvfrom(fd, first[:], unix.MSG_PEEK)
		return n, err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the first byte: %w", err)
	case read == 0:
		return nil, io.EOF
	case first[0] != 0:
		return nil, nil
	}
	var fds []int
	_, err = receive(raw, func(fd int) (read int, err error) {
		read, fds, err = receiveRights(fd, n)
		return read, err
	})
	if err == nil && len(fds) != n {
		err = fmt.Errorf("received %d: %w", len(fds), ErrDescriptors)
	}
	if err != nil {
		CloseAll(fds)
		return nil, fmt.Errorf("receive %d descriptors: %w", n, err)
	}
	p := &Passed{fds: fds}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passed = p; c.closed {
		p.close()
	}
	return p, nil
}

// receive calls read until it does not return EAGAIN.
func receive(raw syscall.RawConn, read func(fd int) (int, error)) (n int, err error) {
	outer := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = read(int(fd)); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if outer != nil {
		return 0, outer
	}
	return n, os.NewSyscallError("recvmsg", err)
}

// receiveRights reads one byte and the descriptors that came with it. The caller owns the
// descriptors even if there is an error.
func receiveRights(socket, n int) (read int, fds []int, err error) {
	if receiveFlags == 0 {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	control := make([]byte, unix.CmsgSpace(4*n))
	read, size, flags, _, err := unix.Recvmsg(socket, make([]byte, 1), control, receiveFlags)
	if err != nil {
		return 0, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil {
		return read, nil, fmt.Errorf("%w: %w", ErrDescriptors, err)
	}
	for i := range messages {
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return read, fds, fmt.Errorf("%w: %w", ErrDescriptors, err)
		}
		fds = append(fds, rights...)
	}
	if receiveFlags == 0 {
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return read, fds, fmt.Errorf("received more than the buffer holds: %w", ErrDescriptors)
	}
	return read, fds, nil
}
