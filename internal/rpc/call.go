package rpc

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// waiter waits for the answer to one request. It ends once.
type waiter struct {
	id     string
	method string
	sent   *outgoing

	ended  sync.Once
	done   chan struct{} // closed when result and err are set
	result []byte
	err    error
	stream *Stream // nil for a plain call
}

// finish sets the answer, or the reason why there is none. Only the first call counts.
func (w *waiter) finish(result []byte, err error) {
	w.ended.Do(func() {
		w.result, w.err = result, err
		close(w.done)
		if w.stream != nil {
			w.stream.parts.closeWith(cmp.Or(err, io.EOF))
		}
	})
}

// Call sends a request and waits for the answer, which belongs to the caller. If ctx ends
// first, Call cancels the request, and a later answer is dropped. An error answer of the
// other side is returned as a *[Fault].
func (c *Conn) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	w, err := c.ask(ctx, method, params, nil)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		c.cancelCall(w, fmt.Errorf("call %s: %w", method, context.Cause(ctx)))
		<-w.done
	}
	return w.result, w.err
}

// Notify sends a notification. It returns when the message is queued for writing.
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	return c.send(ctx, &Message{Kind: wire.Notification, Method: method, Body: params})
}

// ask registers a waiter and queues its request for writing.
func (c *Conn) ask(ctx context.Context, method string, params []byte, s *Stream) (*waiter, error) {
	id := c.options.Dialect.NewID(c.last.Add(1))
	frame, err := c.options.Dialect.Append(nil, &Message{Kind: wire.Request, ID: id, Method: method, Body: params})
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	w := &waiter{id: id, method: method, done: make(chan struct{}), stream: s, sent: &outgoing{frame: frame, id: id}}
	if err = c.await(w); err == nil {
		if err = c.out.push(ctx, w.sent, false); err != nil {
			c.forget(id, w)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", method, err)
	}
	return w, nil
}

// await registers w. It fails when the connection is closed or MaxCalls calls are open.
func (c *Conn) await(w *waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case len(c.waiting) >= c.options.MaxCalls:
		return ErrBusy
	}
	c.waiting[w.id] = w
	return nil
}

// forget removes and returns the waiter for id; nil if there is none. If only is not nil,
// the waiter is removed only if it is that one.
func (c *Conn) forget(id string, only *waiter) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[id]
	if w == nil || only != nil && w != only {
		return nil
	}
	delete(c.waiting, id)
	return w
}

// cancelCall cancels the request of w before its answer arrives. A request that is still
// queued is never written; otherwise the cancellation is written after it.
func (c *Conn) cancelCall(w *waiter, reason error) {
	if !c.abandon(w) {
		return // the answer has arrived, or the connection has ended
	}
	w.finish(nil, reason)
	if c.out.retract(w.sent) {
		return
	}
	m, ok := c.options.Dialect.Cancel(w.id, w.method)
	if !ok {
		return
	}
	if frame, err := c.options.Dialect.Append(nil, &m); err == nil {
		// Urgent, so it need not wait for space: there are never more cancellations than
		// requests.
		_ = c.out.push(context.Background(), &outgoing{frame: frame}, true)
	}
}

// abandon removes a waiter whose answer may still arrive. It reports whether w was
// registered.
func (c *Conn) abandon(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[w.id] != w {
		return false
	}
	delete(c.waiting, w.id)
	if len(c.late) == maxLate {
		c.late = slices.Delete(c.late, 0, 1)
	}
	c.late = append(c.late, w.id)
	return true
}

// answered hands an answer, or a part of one, to its waiter and reports whether there was
// one. An answer that arrives before its request was written is not accepted.
func (c *Conn) answered(m *Message) bool {
	c.mu.Lock()
	w := c.waiting[m.ID]
	c.mu.Unlock()
	if w == nil || !w.sent.taken.Load() {
		return false
	}
	if m.Kind == Part {
		if w.stream != nil && !w.stream.parts.add(m) {
			c.cancelCall(w, fmt.Errorf("stream %s: %w", w.method, ErrSlow))
		}
		return true
	}
	if c.forget(m.ID, w) == nil {
		return false
	}
	if m.Kind == wire.Error {
		fault := *m.Fault
		fault.Data = bytes.Clone(fault.Data)
		w.finish(nil, &fault)
		return true
	}
	w.finish(bytes.Clone(m.Body), nil)
	return true
}

// maxParts is the maximum number of unread parts of a stream.
const maxParts = 4096

// Stream is an answer that arrives in parts. Apart from Close, its methods may be called
// by one goroutine at a time.
type Stream struct {
	conn  *Conn
	w     *waiter
	parts inbox
}

// Stream sends a request whose answer arrives in parts. In a dialect without parts there
// is only a result. Up to 4096 unread parts and 10 MiB are kept; beyond that the stream
// fails with ErrSlow.
func (c *Conn) Stream(ctx context.Context, method string, params []byte) (*Stream, error) {
	s := &Stream{conn: c, parts: newInbox(maxParts)}
	w, err := c.ask(ctx, method, params, s)
	if err != nil {
		return nil, err
	}
	s.w = w
	return s, nil
}

// Next returns the next part. After the last part it returns io.EOF if the answer is
// complete, or else the error the answer ended with. If ctx ends first, the stream
// continues.
func (s *Stream) Next(ctx context.Context) ([]byte, error) {
	part, err := s.parts.next(ctx)
	return part.Body, err
}

// Result returns the result at the end of the answer; nil until Next has returned io.EOF.
func (s *Stream) Result() []byte {
	select {
	case <-s.w.done:
		return s.w.result
	default:
		return nil
	}
}

// Close cancels the request unless it is answered, and discards unread parts. It may be
// called at any time, more than once, and concurrently with other methods.
func (s *Stream) Close() {
	s.conn.cancelCall(s.w, fmt.Errorf("stream %s: %w", s.w.method, context.Canceled))
	s.parts.clear()
}
