package api

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// readyConn is a connection whose transport takes a buffer when there is something
// to read and gives it back when that was handled: a shim that has nothing to say
// keeps none. grpc does so by itself only for a bare [net.UnixConn].
type readyConn struct {
	net.Conn
	raw syscall.RawConn
}

// ready returns c as a readyConn, or as it is if it has no descriptor.
func ready(c net.Conn) net.Conn {
	known, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := known.SyscallConn()
	if err != nil {
		return c
	}
	return &readyConn{Conn: c, raw: raw}
}

// ReadOnReady waits until something can be read, and reads at most size bytes into
// a buffer of pool, which the caller puts back. It is what grpc looks for in a
// connection. On an error there is no buffer.
func (c *readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	var buf *[]byte
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		buf = pool.Get(size)
		for {
			if n, failed = unix.Read(int(fd), *buf); !errors.Is(failed, unix.EINTR) {
				break
			}
		}
		if failed == nil && n > 0 {
			return true
		}
		pool.Put(buf)
		buf = nil
		return !errors.Is(failed, unix.EAGAIN)
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
