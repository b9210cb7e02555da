// Package attach is tg-shim's side of the Relay service: it hands the descriptors of
// an agent and a server to the daemon, and makes the few calls that go with that.
//
// One shim stands beside every server, so it links neither a library for gRPC nor one
// for HTTP. What a unary call takes is little: this package speaks as much of HTTP/2,
// gRPC and protobuf as it needs, to a peer whose uid was looked at. All that the peer
// sends is bounded.
package attach

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

const (
	// maxReply bounds the answer to a call, in bytes.
	maxReply = 1 << 20
	// writeTimeout is how long the daemon may take to take in what is written to it.
	writeTimeout = 5 * time.Second
)

// Conn is a connection to the daemon. Its methods may be called by any number of
// goroutines.
type Conn struct {
	conn net.Conn
	done chan struct{} // closed when nothing is read any more

	mu      sync.Mutex // guards what follows, and writing
	err     error      // why nothing more can be said
	leaving error      // why nothing more can be asked
	last    uint32     // stream
	calls   map[uint32]*call
	window  int64     // bytes that may be sent, on all streams together
	initial int64     // on a new stream
	changed sync.Cond // a window, a call or err
}

// call is one that is not answered yet.
type call struct {
	stream uint32
	window int64
	begun  bool // the headers of the answer have come
	body   []byte
	err    error
	done   chan struct{} // closed when body and err stay as they are
}

// Dial connects to the daemon at path and passes fds on, which stay the caller's. ctx
// bounds the dialing. The caller closes the connection.
func Dial(ctx context.Context, path string, fds ...int) (*Conn, error) {
	c, err := sock.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(fds) > 0 {
		err = sock.Pass(ctx, c.(*net.UnixConn), fds...)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return newConn(c)
}

func newConn(c net.Conn) (*Conn, error) {
	var settings []byte
	for _, s := range []struct {
		id    uint16
		value uint32
	}{{settingPush, 0}, {settingHeaderList, maxHeaders}} {
		settings = binary.BigEndian.AppendUint16(settings, s.id)
		settings = binary.BigEndian.AppendUint32(settings, s.value)
	}
	made := &Conn{conn: c, done: make(chan struct{}), calls: map[uint32]*call{}, window: initialWindow, initial: initialWindow}
	made.changed.L = &made.mu
	made.mu.Lock()
	err := made.write(appendFrame([]byte(preface), frameSettings, 0, 0, settings))
	made.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go made.read()
	return made, nil
}

// Lost is closed when the connection has ended.
func (c *Conn) Lost() <-chan struct{} { return c.done }

// Close ends the connection, and the calls that are under way.
func (c *Conn) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

// Call asks for method with a request, and returns the reply. The error is a
// [*Status] when the daemon said so, and wraps [ErrLost] when it said nothing.
func (c *Conn) Call(ctx context.Context, method string, request []byte) ([]byte, error) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	k := &call{done: make(chan struct{})}
	if err := c.send(ctx, k, method, request); err != nil {
		return nil, err
	}
	select {
	case <-k.done:
		return k.body, k.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abandon(k, nil)
		return nil, fmt.Errorf("wait for the daemon's answer: %w", context.Cause(ctx))
	}
}

// send sends the request of k. It returns nil when the answer is to be waited for,
// which may have come before all was sent.
func (c *Conn) send(ctx context.Context, k *call, method string, request []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last >= maxWindow-2 {
		c.leaving = fmt.Errorf("%w: it has no streams left", ErrLost)
	}
	if err := cmp.Or(c.err, c.leaving); err != nil {
		return err
	}
	c.last += 2
	k.stream, k.window = c.last-1, c.initial
	c.calls[k.stream] = k
	headers := requestHeaders(ctx, method)
	out := appendFrame(nil, frameHeaders, flagEndHeaders, k.stream, headers)
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))) // 0: not compressed
	for message = append(message, request...); len(message) > 0; {
		n := min(int64(len(message)), c.window, k.window, maxPayload)
		if n <= 0 {
			if err := c.write(out); err != nil {
				return err
			}
			out = out[:0]
			c.changed.Wait()
			if c.calls[k.stream] != k || ctx.Err() != nil {
				return nil
			}
			continue
		}
		var flags byte
		if n == int64(len(message)) {
			flags = flagEndStream
		}
		out = appendFrame(out, frameData, flags, k.stream, message[:n])
		message, c.window, k.window = message[n:], c.window-n, k.window-n
	}
	return c.write(out)
}

// requestHeaders are those of a unary call. None of them is kept by the peer for the
// next call, so that the two need not agree on how much it keeps.
func requestHeaders(ctx context.Context, method string) []byte {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "user-agent", Value: "tg-shim"},
	}
	if end, ok := ctx.Deadline(); ok {
		const most = 99_999_999 // eight digits
		left := min(max(1, time.Until(end).Milliseconds()), most)
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: strconv.FormatInt(left, 10) + "m"})
	}
	var block writer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range fields {
		_ = encoder.WriteField(f) // which fails when block does
	}
	return block
}

// writer is a slice that grows.
type writer []byte

func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}

// write writes to the peer. c.mu is held. After an error nothing more can be asked.
func (c *Conn) write(b []byte) error {
	if c.err != nil || len(b) == 0 {
		return c.err
	}
	err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = c.conn.Write(b)
	}
	if err != nil {
		c.fail(err)
	}
	return c.err
}

// fail ends the connection and what waits for it. c.mu is held.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	for _, k := range c.calls {
		c.finish(k, c.err)
	}
	c.changed.Broadcast()
	_ = c.conn.Close() // the error that counts is there
}

// finish ends k with what has come, or with err. c.mu is held.
func (c *Conn) finish(k *call, err error) {
	if c.calls[k.stream] != k {
		return
	}
	delete(c.calls, k.stream)
	if err == nil {
		k.body, err = onlyMessage(k.body)
	}
	if k.err = err; err != nil {
		k.body = nil
	}
	close(k.done)
	c.changed.Broadcast()
}

// abandon ends k before the peer has. c.mu is held.
func (c *Conn) abandon(k *call, err error) {
	if c.calls[k.stream] == k {
		const cancelled = 0x8
		_ = c.write(appendNumber(nil, frameReset, k.stream, cancelled)) // an error ends k as well
		c.finish(k, err)
	}
}

// onlyMessage takes the one message out of the body of an answer.
func onlyMessage(body []byte) ([]byte, error) {
	const head = 5
	if len(body) < head || body[0] != 0 || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-head) {
		return nil, &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer of %d bytes is not one message", len(body))}
	}
	return body[head:], nil
}

// read reads what the peer sends until it ends.
func (c *Conn) read() {
	defer close(c.done)
	r := reader{Conn: c, frames: frameReader{r: bufio.NewReaderSize(c.conn, 512)}}
	err := r.run()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}
