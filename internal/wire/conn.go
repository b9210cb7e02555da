package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Errors of a Conn. What the other side answers with is a *Fault.
var (
	ErrClosed = errors.New("the connection is closed")
	ErrBusy   = errors.New("too many calls are open")
	ErrSlow   = errors.New("the parts of the answer came faster than they were read")
)

// Handler answers the requests of the other side.
type Handler interface {
	// Handle returns the result, in the notation of the dialect, or an error:
	// a *Fault as it is, any other as an internal error with its text. params
	// is the handler's. ctx ends when the request is taken back, and no
	// answer is sent then, or when the connection ends.
	Handle(ctx context.Context, method string, params []byte) ([]byte, error)
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, method string, params []byte) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, method string, params []byte) ([]byte, error) {
	return f(ctx, method, params)
}

// Options say how a Conn speaks. The zero value of each is what stands in
// parentheses.
type Options struct {
	Framing    Framing // (NDJSON)
	Dialect    Dialect // (JSONRPC)
	Handler    Handler // (answers that no method is known)
	MaxMessage int     // bytes (MaxMessage)
	MaxCalls   int     // calls and streams open at once (1,024)
	MaxHandled int     // requests of the other side handled at once (128)

	// Strict ends the connection when the other side says what is no message,
	// or answers what was not asked or what it has answered already. An answer
	// that comes too late is neither.
	Strict bool

	// Dropped is told of a frame that is no message, or one that nobody waits
	// for. It is called by the goroutine that reads and must not block; frame
	// is valid during the call.
	Dropped func(reason string, frame []byte)
}

// Conn matches what is asked with what is answered, over a pair of streams, in
// both directions at once. It is safe for concurrent use. Whatever the other
// side does, memory is bounded: by the calls, handlers and subscriptions that
// are open, each with what it may hold.
type Conn struct {
	options Options
	r       io.ReadCloser
	w       io.WriteCloser
	out     outbox
	work    sync.WaitGroup // handlers
	last    atomic.Uint64  // number of the last call

	mu       sync.Mutex // guards what follows
	waiting  map[string]*waiter
	handled  map[string]context.CancelCauseFunc // by id
	handling int                                // bytes of params in handlers
	late     []string                           // ids that were taken back, and may be answered still
	subs     map[*Subscription]struct{}
	err      error // why it is closed
}

// NewConn returns a connection that reads from r and writes to w, both of which
// it closes in the end. Nothing is read or written before Run.
func NewConn(r io.ReadCloser, w io.WriteCloser, o Options) *Conn {
	if o.Framing == nil {
		o.Framing = NDJSON{}
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

// Run reads and writes until the other side ends its stream, which is nil
// between two messages, or ctx ends. It returns when nothing of the connection
// runs any more; a handler that does not heed its context is waited for. It may
// be called once.
func (c *Conn) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		c.fail(context.Cause(ctx))
		c.r.Close()
	})
	var writing sync.WaitGroup
	writing.Go(func() { c.out.run(NewWriter(c.w, c.options.Framing), c.unsent) })

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

// Close ends the connection: every call fails with ErrClosed, and the stream
// to the other side is closed, which tells it to end. Run returns when it has.
func (c *Conn) Close() { c.fail(ErrClosed) }

// Err returns why the connection is closed, nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail closes the connection for the first reason it is given. Each waiter is
// told once.
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
		w.end(nil, reason)
	}
	for s := range subs {
		s.heard.end(reason)
	}
	c.out.close(reason)
	c.w.Close()
}

// unsent fails the call whose frame could not be written.
func (c *Conn) unsent(id string, err error) {
	if w := c.forget(id, nil); w != nil {
		w.end(nil, err)
	}
}

// read dispatches frames until there are no more.
func (c *Conn) read(ctx context.Context) error {
	frames := c.options.Framing.NewReader(c.r, c.options.MaxMessage)
	var l Line
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

// Why a strict connection ends.
var (
	errNoMessage = errors.New("the other side said what is no message")
	errStray     = errors.New("the other side answered what was not asked, or twice")
)

// refused drops a frame, and fails the call it may have been the answer to:
// that must not wait for what will not come again.
func (c *Conn) refused(l *Line) {
	c.drop(l.Refusal.Reason, l.Data)
	key, err := Key(l.ID)
	if err != nil || !l.Answers {
		return
	}
	if w := c.forget(key, nil); w != nil {
		w.end(nil, fmt.Errorf("the answer was refused: %w", l.Refusal))
	}
}

// dispatch reports whether there was a reason to say m.
func (c *Conn) dispatch(ctx context.Context, m *Message, frame []byte) bool {
	switch m.Kind {
	case Request:
		c.serve(ctx, m, frame)
	case Notification:
		c.notified(m, frame)
	default:
		if !c.answered(m) {
			c.drop("an answer to nothing that was asked", frame)
			return c.isLate(m)
		}
	}
	return true
}

// mostLate is how many ids that were taken back are remembered.
const mostLate = 1024

// isLate reports whether m is the answer to what was taken back, and forgets that.
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

// Frames that wait to be written. Past either, whoever has more waits.
const (
	mostQueued      = 64
	mostQueuedBytes = 1 << 20
)

// outbox puts frames in an order and writes them in it, one at a time, so that
// a stream that nobody reads stops only those who have something to say.
type outbox struct {
	work chan struct{} // has an item when there may be frames

	mu     sync.Mutex // guards what follows
	queue  []*outgoing
	size   int
	room   chan struct{} // closed, and made anew, when frames were taken
	err    error         // why no more are taken
	closed bool
}

// outgoing is one frame on its way out.
type outgoing struct {
	frame []byte
	id    string      // of the call that fails when it can't be written; or empty
	taken atomic.Bool // it is being written, or was
}

func (o *outbox) init() {
	o.work, o.room = make(chan struct{}, 1), make(chan struct{})
}

// push puts a frame at the end of the queue. It waits for room until ctx ends,
// unless the frame is urgent.
func (o *outbox) push(ctx context.Context, out *outgoing, urgent bool) error {
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return o.err
		}
		full := len(o.queue) >= mostQueued || len(o.queue) > 0 && o.size+len(out.frame) > mostQueuedBytes
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

// retract takes a frame out of the queue, and reports whether it was there
// still.
func (o *outbox) retract(out *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, queued := range o.queue {
		if queued == out {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			o.gone(out)
			return true
		}
	}
	return false
}

// gone makes the room of a frame free. o.mu is held.
func (o *outbox) gone(out *outgoing) {
	o.size -= len(out.frame)
	close(o.room)
	o.room = make(chan struct{})
}

// close refuses what comes, for that reason, and lets run return.
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

// run writes until the outbox is closed. When a write fails, the frames that
// are left, and all to come, fail with that error; what was written before may
// be answered still.
func (o *outbox) run(w *Writer, unsent func(id string, err error)) {
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
			if w.failed() {
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

// next takes the first frame; nil when there is none.
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
	o.gone(out)
	out.taken.Store(true)
	return out, false
}
