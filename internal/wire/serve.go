package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// mostHandling is how many bytes of params may be in handlers at once, over
// all of them.
const mostHandling = 2 * MaxMessage

// Codes of JSON-RPC that a Conn answers with by itself.
const (
	codeUnknownMethod = -32601
	codeInternal      = -32603
)

var errTakenBack = errors.New("the request was taken back")

// serve handles a request of the other side in a goroutine that Run waits for.
func (c *Conn) serve(ctx context.Context, m *Message, frame []byte) {
	if c.options.Handler == nil {
		c.answer(ctx, &Message{Kind: Error, ID: m.ID, Fault: &Fault{Code: codeUnknownMethod, Message: "Method not found"}})
		return
	}
	ctx, withdraw := context.WithCancelCause(ctx)
	size := len(m.Body)
	c.mu.Lock()
	if _, open := c.handled[m.ID]; open || c.err != nil {
		c.mu.Unlock()
		withdraw(nil)
		// An error would be read as the answer to the first.
		c.drop("a request with an id that is open", frame)
		return
	}
	if len(c.handled) >= c.options.MaxHandled || c.handling > 0 && c.handling+size > mostHandling {
		c.mu.Unlock()
		withdraw(nil)
		c.answer(ctx, &Message{Kind: Error, ID: m.ID, Fault: &Fault{Code: codeInternal, Message: "too many requests at once"}})
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
		taken := context.Cause(ctx) == errTakenBack
		withdraw(nil)
		if !taken {
			c.answer(context.Background(), reply(id, result, err))
		}
	})
}

// reply makes the answer of what a handler returned.
func reply(id string, result []byte, err error) *Message {
	if err == nil {
		return &Message{Kind: Result, ID: id, Body: result}
	}
	var fault *Fault
	if !errors.As(err, &fault) {
		fault = &Fault{Code: codeInternal, Message: err.Error()}
	}
	return &Message{Kind: Error, ID: id, Fault: fault}
}

// answer sends an answer. It waits for room, so that a peer that asks and does
// not read is not read either; when the connection ends it gives up.
func (c *Conn) answer(ctx context.Context, m *Message) {
	err := c.send(ctx, m)
	if err == nil || c.Err() != nil || ctx.Err() != nil {
		return
	}
	if m.Kind == Result { // the dialect can't say it
		fault := &Fault{Code: codeInternal, Message: "the answer could not be written"}
		_ = c.send(ctx, &Message{Kind: Error, ID: m.ID, Fault: fault})
	}
}

// send gives a message a place in the order of writing.
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

// notified hands a notification to who subscribed to it, or takes back the
// request that it names.
func (c *Conn) notified(m *Message, frame []byte) {
	if m.Cancels != "" {
		c.mu.Lock()
		withdraw := c.handled[m.Cancels]
		c.mu.Unlock()
		if withdraw != nil {
			withdraw(errTakenBack)
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
		c.drop("a notification that nobody listens to", frame)
	}
}

// Subscription hears the notifications of the other side. Its methods but Close
// may be called by one goroutine at a time.
type Subscription struct {
	conn    *Conn
	methods map[string]bool // empty: all
	heard   inbox           // its mutex is taken after the connection's
}

// Subscribe returns a subscription to the notifications with these methods; to
// all when none is given. It holds most of them (256 when 0), and no more than
// 10 MiB; what comes when it is full is dropped and counted. It must be closed.
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
		s.heard.end(c.err)
	} else {
		c.subs[s] = struct{}{}
	}
	return s
}

// Next returns the next notification. After the last of a connection that has
// ended it returns why that ended, and when ctx ends first its cause.
func (s *Subscription) Next(ctx context.Context) (Message, error) { return s.heard.next(ctx) }

// Dropped returns how many notifications came when there was no room.
func (s *Subscription) Dropped() uint64 {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	return s.heard.dropped
}

// Close ends the subscription and lets go of what it holds.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	delete(s.conn.subs, s)
	s.conn.mu.Unlock()
	s.heard.clear()
	s.heard.end(ErrClosed)
}

// add keeps m if it is one of those subscribed to, and reports whether it is.
func (s *Subscription) add(m *Message) bool {
	if len(s.methods) > 0 && !s.methods[m.Method] {
		return false
	}
	s.heard.add(m) // or counts it
	return true
}

// inbox holds messages for one who takes them in turn.
type inbox struct {
	most int           // messages that it holds
	more chan struct{} // has an item when kept or err has changed

	mu      sync.Mutex // guards what follows
	kept    []Message
	size    int // bytes of their bodies
	dropped uint64
	err     error // what next returns when nothing is left
}

// mostUnread is how many bytes an inbox may hold.
const mostUnread = MaxMessage

func newInbox(most int) inbox { return inbox{most: most, more: make(chan struct{}, 1)} }

// add keeps a copy of m, and reports whether there was room.
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

// next takes the next message. After the last it returns why there are no more, and
// when ctx ends first its cause.
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

// end makes next return err when nothing is left. Only the first counts.
func (b *inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	poke(b.more)
}

// clear lets go of what was not taken.
func (b *inbox) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.size = nil, 0
}

// poke puts an item into a channel that has room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
