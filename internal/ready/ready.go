// Package ready makes of a connection one that a transport of gRPC reads and writes at
// little cost: it takes a buffer only when there is something to read, so that a peer
// with nothing to say keeps none, and it does not tell Go's scheduler of calls that
// do not wait (see nowait).
package ready

import (
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"

	"github.com/thoughtgate/thoughtgated/internal/nowait"
)

// conn is such a connection. It is read by one goroutine at a time and written to by
// one, as transports do.
type conn struct {
	net.Conn
	raw    syscall.RawConn
	writer *nowait.Writer

	// Of the read under way; here so that it allocates nothing.
	take   func(fd uintptr) bool
	pool   mem.BufferPool
	size   int
	buf    *[]byte
	n      int
	failed error
}

// Conn returns c as one, or as it is if it has no descriptor.
func Conn(c net.Conn) net.Conn {
	known, ok := c.(interface {
		net.Conn
		syscall.Conn
	})
	if !ok {
		return c
	}
	raw, err := known.SyscallConn()
	if err != nil {
		return c
	}
	made := &conn{Conn: c, raw: raw, writer: nowait.NewWriter(known)}
	made.take = made.takeIn
	return made
}

func (c *conn) Write(b []byte) (int, error) { return c.writer.Write(b) }

// ReadOnReady waits until something can be read, and reads at most size bytes into
// a buffer of pool, which the caller puts back. It is what grpc looks for in a
// connection. On an error there is no buffer.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.pool, c.size, c.buf, c.n, c.failed = pool, size, nil, 0, nil
	err := c.raw.Read(c.take)
	buf, n, failed := c.buf, c.n, c.failed
	c.pool, c.buf = nil, nil
	switch {
	case err == nil && buf != nil:
		return buf, n, nil
	case err == nil && failed == nil:
		err = io.EOF
	case err == nil:
		err = failed
	}
	if buf != nil {
		pool.Put(buf)
	}
	return nil, 0, err // a transport that is told of bytes takes them from the buffer
}

// takeIn reads what is there, and reports whether that need not be waited for.
func (c *conn) takeIn(fd uintptr) bool {
	c.buf = c.pool.Get(c.size)
	c.n, c.failed = nowait.Receive(fd, *c.buf)
	if c.failed == nil && c.n > 0 {
		return true
	}
	c.pool.Put(c.buf)
	c.buf = nil
	return c.failed != nowait.ErrNothing
}
