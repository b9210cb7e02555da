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
	return &conn{Conn: c, raw: raw, writer: nowait.NewWriter(known)}
}

func (c *conn) Write(b []byte) (int, error) { return c.writer.Write(b) }

// ReadOnReady waits until something can be read, and reads at most size bytes into
// a buffer of pool, which the caller puts back. It is what grpc looks for in a
// connection. On an error there is no buffer.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	var buf *[]byte
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		buf = pool.Get(size)
		n, failed = nowait.Receive(fd, *buf)
		if failed == nil && n > 0 {
			return true
		}
		pool.Put(buf)
		buf = nil
		return failed != nowait.ErrNothing
	})
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
