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

// mostUnheard is how many bytes of notifications a subscription may hold.
const mostUnheard = MaxMessage

// Subscription hears the notifications of the other side. Its methods but Close
// may be called by one goroutine at a time.
type Subscription struct {
	conn    *Conn
	methods map[string]bool // empty: all
	most    int

	mu      sync.Mutex // guards what follows; taken after the connection's
	kept    []Message
	size    int
	dropped uint64
	err     error
	more    chan struct{} // has an item when kept or err has changed
}

// Subscribe returns a subscription to the notifications with these methods; to
// all when none is given. It holds most of them (256 when 0), and no more than
// 10 MiB; what comes when it is full is dropped and counted. It must be closed.
func (c *Conn) Subscribe(most int, methods ...string) *Subscription {
	s := &Subscription{conn: c, most: most, methods: map[string]bool{}, more: make(chan struct{}, 1)}
	if most <= 0 {
		s.most = 256
	}
	for _, method := range methods {
		s.methods[method] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		s.err = c.err
	} else {
		c.subs[s] = struct{}{}
	}
	return s
}

// Next returns the next notification. After the last of a connection that has
// ended it returns why that ended, and when ctx ends first its cause.
func (s *Subscription) Next(ctx context.Context) (Message, error) {
	for {
		s.mu.Lock()
		if len(s.kept) > 0 {
			m := s.kept[0]
			s.kept[0] = Message{}
			s.kept, s.size = s.kept[1:], s.size-len(m.Body)
			s.mu.Unlock()
			return m, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return Message{}, err
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
}

// Dropped returns how many notifications came when there was no room.
func (s *Subscription) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Close ends the subscription and lets go of what it holds.
func (s *Subscription) Close() {
	s.conn.mu.Lock()
	delete(s.conn.subs, s)
	s.conn.mu.Unlock()
	s.mu.Lock()
	s.kept, s.size = nil, 0
	s.mu.Unlock()
	s.end(ErrClosed)
}

// add keeps m if it is one of those subscribed to, and reports whether it is.
func (s *Subscription) add(m *Message) bool {
	if len(s.methods) > 0 && !s.methods[m.Method] {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= s.most || s.size+len(m.Body) > mostUnheard {
		s.dropped++
		return true
	}
	kept := *m
	kept.Body = bytes.Clone(m.Body)
	s.kept, s.size = append(s.kept, kept), s.size+len(m.Body)
	s.poke()
	return true
}

// end makes Next return err when nothing is left.
func (s *Subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.poke()
}

func (s *Subscription) poke() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}
