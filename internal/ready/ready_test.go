package ready

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// counted is a pool that knows how many of its buffers are out.
type counted struct{ out int }

func (c *counted) Get(n int) *[]byte {
	c.out++
	b := make([]byte, n)
	return &b
}

func (c *counted) Put(*[]byte) { c.out-- }

// socketPair is a connection and its other end.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if theirs, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return ours, theirs
}

// An idle connection holds no buffer, and with an error comes none: a transport that
// was told of bytes and got no buffer once took the daemon down.
func TestReadOnReady(t *testing.T) {
	for name, test := range map[string]struct {
		peer  func(ours, theirs net.Conn)
		bytes int
		want  error
	}{
		"bytes": {peer: func(_, theirs net.Conn) { _, _ = theirs.Write([]byte("abc")) }, bytes: 3},
		"end":   {peer: func(_, theirs net.Conn) { theirs.Close() }, want: io.EOF},
		"reset": {peer: func(ours, theirs net.Conn) {
			_, _ = ours.Write([]byte("unread"))
			theirs.Close()
		}, want: syscall.ECONNRESET},
		"closed": {peer: func(ours, _ net.Conn) { ours.Close() }, want: net.ErrClosed},
		"late":   {peer: func(ours, _ net.Conn) { _ = ours.SetReadDeadline(time.Unix(1, 0)) }, want: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := socketPair(t)
			c, ok := Conn(ours).(*conn)
			if !ok {
				t.Fatal("it is no connection that is read when ready")
			}
			var pool counted
			type read struct {
				buf *[]byte
				n   int
				err error
			}
			done := make(chan read)
			go func() {
				buf, n, err := c.ReadOnReady(64, &pool)
				done <- read{buf, n, err}
			}()
			test.peer(ours, theirs)
			got := <-done
			if name == "reset" && errors.Is(got.err, io.EOF) {
				t.Skip("this system tells of no reset")
			}
			if got.n != test.bytes || !errors.Is(got.err, test.want) {
				t.Errorf("%d bytes, %v; want %d, %v", got.n, got.err, test.bytes, test.want)
			}
			if out := test.bytes / max(1, test.bytes); pool.out != out || (got.buf != nil) != (out > 0) {
				t.Errorf("%d buffers are out", pool.out)
			}
		})
	}
}
