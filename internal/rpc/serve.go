package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostHandling is the maximum size of the params in all handlers together, in bytes.
const mostHandling = 2 * wire.MaxMessage

// JSON-RPC codes that a Conn itself answers with.
const (
	codeUnknownMethod = -32601
	codeInternal      = -32603
)

var errCanceled = errors.New("the request was cancelled")

// serve handles a request of the other side in a goroutine. Run waits for it.
func (c *Conn) serve(ctx context.Context, m *Message, frame []byte) {
	if c.options.Handler == nil {
		c.answer(ctx, &Message{Kind: wire.Error, ID: m.ID, Fault: &Fault{Code: codeUnknownMethod, Message: "Method not found"}})
		return
	}
	ctx, withdraw := context.WithCancelCause(ctx)
	size := len(m.Body)
	c.mu.Lock()
	if _, open := c.handled[m.ID]; open || c.err != nil {
		c.mu.Unlock()
		withdraw(nil)
		// An error would be read as the answer to the first request.
		c.drop("a request with an id that is already open", frame)
		return
	}
	if len(c.handled) >= c.options.MaxHandled || c.handling > 0 && c.handling+size > mostHandling {
		c.mu.Unlock()
		withdraw(nil)
		c.answer(ctx, &Message{Kind: wire.Error, ID: m.ID, Fault: &Fault{Code: codeInternal, Message: "too many requests at once"}})
		return
	}
	c.handled[m.ID] = withdraw
	c.handling += size
	c.mu.Unlock()

	id, method, params := m.ID, m.Method, bytes.Clone(m.Body)
	c.work.Go(func() {
		result, err := c.options.Handler.Handle(ctx, method, params)
		c.mu.Lock()
		delete(c.handled, id)
		c.handling -= size
		c.mu.Unlock()
		taken := context.Cause(ctx) == errCanceled
		withdraw(nil)
		if !taken {
			c.answer(context.Background(), reply(id, result, err))
		}
	})
}

// reply converts the return values of a handler to an answer.
func reply(id string, result []byte, err error) *Message {
	if err == nil {
		return &Message{Kind: wire.Result, ID: id, Body: result}
	}
	var fault *Fault
	if !errors.As(err, &fault) {
		fault = &Fault{Code: codeInternal, Message: err.Error()}
	}
	return &Message{Kind: wire.Error, ID: id, Fault: fault}
}

// answer sends an answer. It blocks while the queue is full, so that a peer that does not
// read the answers is not read either. It gives up when the connection ends.
func (c *Conn) answer(ctx context.Context, m *Message) {
	err := c.send(ctx, m)
	if err == nil || c.Err() != nil || ctx.Err() != nil {
		return
	}
	if m.Kind == wire.Result { // the dialect can't express it
		fault := &Fault{Code: codeInternal, Message: "the answer could not be written"}
		_ = c.send(ctx, &Message{Kind: wire.Error, ID: m.ID, Fault: fault})
	}
}

// send queues a message for writing.
func (c *Conn) send(ctx context.Context, m *Message) error {
	frame, err := c.options.Dialect.Append(nil, m)
	if err == nil {
		err = c.out.push(ctx, &outgoing{frame: frame}, false)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Method, err)
	}
	return nil
}

// notified delivers a notification to its subscribers, or cancels the request that it
// names.
func (c *Conn) notified(m *Message, frame []byte) {
	if m.Cancels != "" {
		c.mu.Lock()
		withdraw := c.handled[m.Cancels]
		c.mu.Unlock()
		if withdraw != nil {
			withdraw(errCanceled)
			return
		}
	}
	c.mu.Lock()
	heard := false
	for s := range c.subs {
		heard = s.add(m) || heard
	}
	c.mu.Unlock()
	if !heard {
		c.drop("a notification without a handler", frame)
	}
}

// Subscription receives notifications of the other side. Apart from Close, its methods
// may be called by one goroutine at a time.
type Subscription struct {
	conn    *Conn
	methods map[string]bool // all if empty
	heard   inbox           // its mutex is locked after the connection's
}

// Subscribe returns a subscription to the notifications with these methods; to all if
// none is given. It holds up to most notifications (256 if 0) and 10 MiB; more are
// dropped and counted. The subscription must be closed.
func (c *Conn) Subscribe(most int, methods ...string) *Subscription {
	if most <= 0 {
		most = 256
	}
	s := &Subscription{conn: c, methods: map[string]bool{}, heard: newInbox(most)}
	for _, method := range methods {
		s.methods[method] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		s.heard.closeWith(c.err)
	} else {
		c.subs[s] = struct{}{}
	}
	return s
}

// Next returns the next notification. After the last, it returns why the connection
// ended. If ctx ends first, it returns the cause.
func (s *Subscription) Next(ctx context.Context) (Message, error) { return s.heard.next(ctx) }

// Dropped returns the number of notifications dropped because the subscription was full.
func (s *Subscription) Dropped() uint64 {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	return s.heard.dropped
}

// Close ends the subscription and releases what it holds.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	delete(s.conn.subs, s)
	s.conn.mu.Unlock()
	s.heard.clear()
	s.heard.closeWith(ErrClosed)
}

// add keeps m if its method is subscribed to, and reports whether it is.
func (s *Subscription) add(m *Message) bool {
	if len(s.methods) > 0 && !s.methods[m.Method] {
		return false
	}
	s.heard.add(m) // or counts it as dropped
	return true
}

// inbox is a bounded queue of messages for one reader.
type inbox struct {
	most int           // maximum number of messages
	more chan struct{} // has an item when kept or err has changed

	mu      sync.Mutex // guards the fields below
	kept    []Message
	size    int // bytes of their bodies
	dropped uint64
	err     error // returned by next when the queue is empty
}

// mostUnread is the maximum number of bytes in an inbox.
const mostUnread = wire.MaxMessage

func newInbox(most int) inbox { return inbox{most: most, more: make(chan struct{}, 1)} }

// add appends a copy of m. It reports false if the inbox is full.
func (b *inbox) add(m *Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) >= b.most || b.size+len(m.Body) > mostUnread {
		b.dropped++
		return false
	}
	kept := *m
	kept.Body = bytes.Clone(m.Body)
	b.kept, b.size = append(b.kept, kept), b.size+len(m.Body)
	poke(b.more)
	return true
}

// next takes the next message. After the last it returns err; if ctx ends first, its
// cause.
func (b *inbox) next(ctx context.Context) (Message, error) {
	for {
		b.mu.Lock()
		if len(b.kept) > 0 {
			m := b.kept[0]
			b.kept[0] = Message{}
			b.kept, b.size = b.kept[1:], b.size-len(m.Body)
			b.mu.Unlock()
			return m, nil
		}
		err := b.err
		b.mu.Unlock()
		if err != nil {
			return Message{}, err
		}
		select {
		case <-b.more:
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
}

// closeWith makes next return err when the queue is empty. Only the first call counts.
func (b *inbox) closeWith(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	poke(b.more)
}

// clear discards the queued messages.
func (b *inbox) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.size = nil, 0
}

// poke sends an item without blocking; c has capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
