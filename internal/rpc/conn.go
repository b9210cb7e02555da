package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Errors of a Conn. An error answer of the other side is a *Fault.
var (
	ErrClosed = errors.New("the connection is closed")
	ErrBusy   = errors.New("too many calls are open")
	ErrSlow   = errors.New("the parts of the answer came faster than they were read")
)

// Handler answers requests of the other side.
type Handler interface {
	// Handle returns the result in the notation of the dialect, or an error. A *Fault is
	// sent as it is, any other error as an internal error with its text. The handler owns
	// params. ctx ends when the connection ends or the other side cancels the request; a
	// canceled request is not answered.
	Handle(ctx context.Context, method string, params []byte) ([]byte, error)
}

// HandlerFunc is a function that implements Handler.
type HandlerFunc func(ctx context.Context, method string, params []byte) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, method string, params []byte) ([]byte, error) {
	return f(ctx, method, params)
}

// Options configures a Conn. The default of each field is in parentheses.
type Options struct {
	Framing    wire.Framing // (NDJSON)
	Dialect    Dialect      // (JSONRPC)
	Handler    Handler      // (answers that the method is unknown)
	MaxMessage int          // bytes (MaxMessage)
	MaxCalls   int          // calls and streams open at once (1,024)
	MaxHandled int          // requests of the other side handled at once (128)

	// Strict ends the connection when the other side sends something that is not a
	// message, answers an unknown request, or answers a request twice. An answer to a
	// canceled request is allowed.
	Strict bool

	// Dropped is called with a frame that is not a message or that has no receiver. It is
	// called by the reading goroutine and must not block; frame is valid during the call.
	Dropped func(reason string, frame []byte)
}

// Conn matches requests with answers over a pair of streams, in both directions. It is
// safe for concurrent use. Its memory is bounded whatever the other side does: by the
// open calls, handlers and subscriptions, each with its own limit.
type Conn struct {
	options Options
	r       io.ReadCloser
	w       io.WriteCloser
	out     outbox
	work    sync.WaitGroup // handlers
	last    atomic.Uint64  // number of the last call

	mu       sync.Mutex // guards the fields below
	waiting  map[string]*waiter
	handled  map[string]context.CancelCauseFunc // by id
	handling int                                // bytes of params in handlers
	late     []string                           // ids of canceled requests that may still be answered
	subs     map[*Subscription]struct{}
	err      error // why the connection is closed
}

// NewConn returns a connection that reads from r and writes to w. It closes both at the
// end. Nothing is read or written before Run is called.
func NewConn(r io.ReadCloser, w io.WriteCloser, o Options) *Conn {
	if o.Framing == nil {
		o.Framing = wire.NDJSON{}
	}
	if o.Dialect == nil {
		o.Dialect = JSONRPC{}
	}
	o.MaxCalls, o.MaxHandled = cmp.Or(o.MaxCalls, 1024), cmp.Or(o.MaxHandled, 128)
	c := &Conn{
		options: o, r: r, w: w,
		waiting: map[string]*waiter{}, handled: map[string]context.CancelCauseFunc{}, subs: map[*Subscription]struct{}{},
	}
	c.out.init()
	return c
}

// Run reads and writes until ctx ends or the other side ends its stream. It returns nil
// if the stream ended between two messages. It returns after all goroutines of the
// connection have ended, and so waits for a handler that ignores its context. It may be
// called once.
func (c *Conn) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		c.fail(context.Cause(ctx))
		c.r.Close()
	})
	var writing sync.WaitGroup
	writing.Go(func() { c.out.run(wire.NewWriter(c.w, c.options.Framing), c.unsent) })

	err := c.read(ctx)
	c.fail(err)
	cancel(err)
	stop()
	writing.Wait()
	c.work.Wait()
	c.r.Close()
	if err == io.EOF {
		return nil
	}
	return err
}

// Close ends the connection: every call fails with ErrClosed, and the stream to the other
// side is closed so that it ends too. Run returns when the other side has ended.
func (c *Conn) Close() { c.fail(ErrClosed) }

// Err returns why the connection is closed; nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail closes the connection for the given reason and ends every waiter. Only the first
// call counts.
func (c *Conn) fail(reason error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	switch {
	case reason == io.EOF:
		reason = fmt.Errorf("%w: the other side has ended", ErrClosed)
	case !errors.Is(reason, ErrClosed):
		reason = fmt.Errorf("%w: %w", ErrClosed, reason)
	}
	c.err = reason
	waiting, subs := c.waiting, c.subs
	c.waiting, c.subs = nil, nil
	for _, withdraw := range c.handled {
		withdraw(reason)
	}
	c.mu.Unlock()
	for _, w := range waiting {
		w.finish(nil, reason)
	}
	for s := range subs {
		s.heard.closeWith(reason)
	}
	c.out.close(reason)
	c.w.Close()
}

// unsent fails the call whose frame could not be written.
func (c *Conn) unsent(id string, err error) {
	if w := c.forget(id, nil); w != nil {
		w.finish(nil, err)
	}
}

// read dispatches frames until the stream ends.
func (c *Conn) read(ctx context.Context) error {
	frames := c.options.Framing.NewReader(c.r, c.options.MaxMessage)
	var l wire.Line
	for {
		if err := frames.Next(&l); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		if l.Refusal != nil {
			c.refused(&l)
			continue
		}
		var m Message
		if err := c.options.Dialect.Decode(l.Data, &m); err != nil {
			c.drop(err.Error(), l.Data)
			if c.options.Strict {
				return fmt.Errorf("%w: %w", errNoMessage, err)
			}
			continue
		}
		if !c.dispatch(ctx, &m, l.Data) && c.options.Strict {
			return errStray
		}
	}
}

// Reasons for which a strict connection ends.
var (
	errNoMessage = errors.New("the other side sent an invalid message")
	errStray     = errors.New("the other side sent an answer without a request, or two answers")
)

// refused drops a frame. If it may have been the answer to a call, that call fails, since
// no other answer will arrive.
func (c *Conn) refused(l *wire.Line) {
	c.drop(l.Refusal.Reason, l.Data)
	key, err := wire.Key(l.ID)
	if err != nil || !l.Answers {
		return
	}
	if w := c.forget(key, nil); w != nil {
		w.finish(nil, fmt.Errorf("the answer was refused: %w", l.Refusal))
	}
}

// dispatch handles m. It reports false if m is an answer that nothing accounts for.
func (c *Conn) dispatch(ctx context.Context, m *Message, frame []byte) bool {
	switch m.Kind {
	case wire.Request:
		c.serve(ctx, m, frame)
	case wire.Notification:
		c.notified(m, frame)
	default:
		if !c.answered(m) {
			c.drop("an answer without a request", frame)
			return c.isLate(m)
		}
	}
	return true
}

// maxLate is the maximum number of canceled requests that are remembered.
const maxLate = 1024

// isLate reports whether m answers a canceled request. The final answer removes the
// request from the list.
func (c *Conn) isLate(m *Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.late, m.ID)
	if at >= 0 && m.Kind != Part {
		c.late = slices.Delete(c.late, at, at+1)
	}
	return at >= 0
}

func (c *Conn) drop(reason string, frame []byte) {
	if c.options.Dropped != nil {
		c.options.Dropped(reason, frame)
	}
}

// Limits of the queue of frames. When one is reached, senders block.
const (
	maxQueued       = 64
	mostQueuedBytes = 1 << 20
)

// outbox queues frames and writes them in order, one at a time, so that a stream that
// nobody reads blocks only senders.
type outbox struct {
	work chan struct{} // has an item when there may be frames

	mu     sync.Mutex // guards the fields below
	queue  []*outgoing
	size   int
	room   chan struct{} // closed and replaced when frames were taken
	err    error         // why no more frames are accepted
	closed bool
}

// outgoing is one frame to be written.
type outgoing struct {
	frame []byte
	id    string      // of the call that fails when the frame can't be written; may be empty
	taken atomic.Bool // the frame is being written, or was
}

func (o *outbox) init() {
	o.work, o.room = make(chan struct{}, 1), make(chan struct{})
}

// push appends a frame to the queue. Unless the frame is urgent, push blocks while the
// queue is full, until ctx ends.
func (o *outbox) push(ctx context.Context, out *outgoing, urgent bool) error {
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return o.err
		}
		full := len(o.queue) >= maxQueued || len(o.queue) > 0 && o.size+len(out.frame) > mostQueuedBytes
		if urgent || !full {
			o.queue, o.size = append(o.queue, out), o.size+len(out.frame)
			o.mu.Unlock()
			poke(o.work)
			return nil
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// retract removes a frame from the queue. It reports whether the frame was still queued.
func (o *outbox) retract(out *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, queued := range o.queue {
		if queued == out {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			o.freeSpace(out)
			return true
		}
	}
	return false
}

// freeSpace frees the space of a frame. o.mu must be held.
func (o *outbox) freeSpace(out *outgoing) {
	o.size -= len(out.frame)
	close(o.room)
	o.room = make(chan struct{})
}

// close makes push fail with reason and run return.
func (o *outbox) close(reason error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = reason
	}
	o.closed = true
	o.queue, o.size = nil, 0
	close(o.room)
	o.room = make(chan struct{})
	o.mu.Unlock()
	poke(o.work)
}

// run writes until the outbox is closed. When a write fails, all queued and later frames
// fail with that error; requests already written may still be answered.
func (o *outbox) run(w *wire.Writer, unsent func(id string, err error)) {
	for range o.work {
		for {
			out, closed := o.next()
			if closed {
				return
			}
			if out == nil {
				break
			}
			err := w.Write(out.frame)
			if err == nil {
				continue
			}
			if w.Failed() {
				o.mu.Lock()
				o.err = err
				o.mu.Unlock()
			}
			if out.id != "" {
				unsent(out.id, err)
			}
		}
	}
}

// next takes the first frame; nil if there is none.
func (o *outbox) next() (out *outgoing, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, true
	}
	if len(o.queue) == 0 {
		return nil, false
	}
	out = o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.freeSpace(out)
	out.taken.Store(true)
	return out, false
}
