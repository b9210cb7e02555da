package rpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestStream(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{Dialect: TypedJSON{}})
	s, err := c.Stream(t.Context(), "execute", []byte(`{"prompt":"hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if line := p.read(); line != `{"type":"request","id":"req-1","method":"execute","params":{"prompt":"hi"}}` {
		t.Errorf("asked %s", line)
	}
	p.write(`{"type":"stream","id":"req-1","delta":"one"}`, `{"type":"stream","id":"req-2","delta":"stray"}`,
		`{"type":"stream","id":"req-1","delta":"two"}`)
	for _, want := range []string{`"one"`, `"two"`} {
		if part, err := s.Next(t.Context()); err != nil || string(part) != want {
			t.Errorf("got %q, %v; want %s", part, err, want)
		}
	}
	if s.Result() != nil {
		t.Error("a result before the end")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing came, and Next returned %v", err)
	}
	p.write(`{"type":"stream","id":"req-1","delta":"three"}`, `{"type":"response","id":"req-1","result":{"n":3}}`)
	if part, err := s.Next(t.Context()); err != nil || string(part) != `"three"` {
		t.Errorf("got %q, %v", part, err)
	}
	if _, err := s.Next(t.Context()); err != io.EOF || string(s.Result()) != `{"n":3}` {
		t.Errorf("ended with %v and %s", err, s.Result())
	}
}

func TestStreamFails(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{Dialect: TypedJSON{Cancels: true}})
	open := func() *Stream {
		s, err := c.Stream(t.Context(), "execute", nil)
		if err != nil {
			t.Fatal(err)
		}
		p.read()
		return s
	}
	s := open()
	p.write(`{"type":"stream","id":"req-1","delta":"x"}`, `{"type":"error","id":"req-1","error":"out of words"}`)
	if part, err := s.Next(t.Context()); err != nil || string(part) != `"x"` {
		t.Errorf("got %q, %v", part, err)
	}
	var fault *Fault
	if _, err := s.Next(t.Context()); !errors.As(err, &fault) || fault.Message != "out of words" {
		t.Errorf("ended with %v", err)
	}

	s = open()
	s.Close()
	s.Close()
	if line := p.read(); line != `{"type":"cancel","id":"req-2"}` {
		t.Errorf("wrote %s", line)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}

	s = open()
	c.Close()
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// A stream that nobody reads fails, instead of using unbounded memory or delaying the
// answers to others.
func TestStreamTooFast(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{Dialect: TypedJSON{Cancels: true}})
	s, err := c.Stream(t.Context(), "execute", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.read()
	other := call1(t.Context(), c, "other")
	p.read()
	go func() {
		part := `{"type":"stream","id":"req-1","delta":"` + strings.Repeat("x", 1<<20) + `"}`
		for range 12 {
			_, _ = io.WriteString(p.out, part+"\n")
		}
		_, _ = io.WriteString(p.out, `{"type":"response","id":"req-2","result":1}`+"\n")
	}()
	if line := p.read(); line != `{"type":"cancel","id":"req-1"}` {
		t.Errorf("wrote %s", line)
	}
	if got := <-other; got != "1" {
		t.Errorf("got %s", got)
	}
	n := 0
	for {
		if _, err = s.Next(t.Context()); err != nil {
			break
		}
		n++
	}
	if !errors.Is(err, ErrSlow) || n == 0 || n > 10 {
		t.Errorf("ended with %v after %d parts", err, n)
	}
}

func TestSubscriptions(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{})
	all, some, gone := c.Subscribe(0), c.Subscribe(2, "a", "b"), c.Subscribe(0, "a")
	defer all.Close()
	gone.Close()
	p.write(`{"jsonrpc":"2.0","method":"a","params":{"n":1}}`, `{"jsonrpc":"2.0","method":"c"}`,
		`{"jsonrpc":"2.0","method":"b","params":{"n":2}}`, `{"jsonrpc":"2.0","method":"a","params":{"n":3}}`,
		`{"jsonrpc":"2.0","method":"c"}`) // when it comes, the one before has come to everybody
	for _, want := range []string{`a{"n":1}`, `c`, `b{"n":2}`, `a{"n":3}`, `c`} {
		if m, err := all.Next(t.Context()); err != nil || m.Method+string(m.Body) != want {
			t.Errorf("got %s%s, %v; want %s", m.Method, m.Body, err, want)
		}
	}
	for _, want := range []string{`a{"n":1}`, `b{"n":2}`} {
		if m, err := some.Next(t.Context()); err != nil || m.Method+string(m.Body) != want {
			t.Errorf("got %s%s, %v; want %s", m.Method, m.Body, err, want)
		}
	}
	if some.Dropped() != 1 || all.Dropped() != 0 {
		t.Errorf("dropped %d and %d", some.Dropped(), all.Dropped())
	}
	some.Close()
	for _, s := range []*Subscription{some, gone} {
		if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed subscription: %v", err)
		}
	}
	if len(c.subs) != 1 {
		t.Errorf("%d subscriptions are remembered", len(c.subs))
	}
}

// Subscriptions are opened and closed while notifications arrive.
func TestSubscriptionsConcurrent(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				s := c.Subscribe(1, "a")
				if _, err := s.Next(t.Context()); err != nil {
					t.Error(err)
				}
				s.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			p.write(`{"jsonrpc":"2.0","method":"a"}`)
		}
	}
}

func TestHandler(t *testing.T) {
	checkLeaks(t)
	release := make(chan struct{})
	var ended atomic.Int32
	handler := HandlerFunc(func(ctx context.Context, method string, params []byte) ([]byte, error) {
		defer ended.Add(1)
		switch method {
		case "fault":
			return nil, &Fault{Code: 7, Message: "seven", Data: []byte(`[7]`)}
		case "error":
			return nil, errors.New("broken")
		case "wait":
			select {
			case <-release:
				return []byte(`"released"`), nil
			case <-ctx.Done():
				return []byte(`"too late"`), nil
			}
		}
		return params, nil
	})
	dropped := make(chan string, 10)
	_, p, _ := newPeer(t, Options{Handler: handler, MaxHandled: 2, Dropped: func(reason string, _ []byte) { dropped <- reason }})

	p.write(`{"jsonrpc":"2.0","id":"a\u0062","method":"echo","params":{"x":[1, 2]}}`)
	expect(t, p, `{"jsonrpc":"2.0","id":"ab","result":{"x":[1, 2]}}`)
	p.write(`{"jsonrpc":"2.0","id":-1,"method":"fault"}`)
	expect(t, p, `{"jsonrpc":"2.0","id":-1,"error":{"code":7,"message":"seven","data":[7]}}`)
	p.write(`{"jsonrpc":"2.0","id":2,"method":"error"}`)
	expect(t, p, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"broken"}}`)
	p.write(`{"jsonrpc":"2.0","id":3,"method":"nothing"}`)
	expect(t, p, `{"jsonrpc":"2.0","id":3,"result":null}`)

	// The same id again, and one request too many.
	p.write(`{"jsonrpc":"2.0","id":4,"method":"wait"}`, `{"jsonrpc":"2.0","id":4,"method":"echo"}`)
	if reason := <-dropped; !strings.Contains(reason, "open") {
		t.Errorf("dropped: %s", reason)
	}
	p.write(`{"jsonrpc":"2.0","id":"4","method":"wait"}`, `{"jsonrpc":"2.0","id":5,"method":"echo"}`)
	expect(t, p, `{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"too many requests at once"}}`)

	// One request is canceled and not answered; the other is answered.
	n := ended.Load()
	p.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	poll(t, func() bool { return ended.Load() == n+1 })
	close(release)
	expect(t, p, `{"jsonrpc":"2.0","id":"4","result":"released"}`)
}

func expect(t *testing.T, p *peer, want string) {
	t.Helper()
	if got := p.read(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNoHandler(t *testing.T) {
	checkLeaks(t)
	_, p, _ := newPeer(t, Options{})
	p.write(`{"jsonrpc":"2.0","id":1,"method":"any"}`)
	expect(t, p, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
}

// The end of the connection cancels the handlers, and Run waits for them.
func TestHandlersEndWithTheConnection(t *testing.T) {
	checkLeaks(t)
	var running, ended atomic.Int32
	_, p, done := newPeer(t, Options{Handler: HandlerFunc(func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		running.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return nil, ctx.Err()
	})})
	p.write(`{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0","id":2,"method":"a"}`)
	poll(t, func() bool { return running.Load() == 2 })
	p.out.Close()
	if err := <-done; err != nil || ended.Load() != 2 {
		t.Errorf("Run returned %v with %d handlers ended", err, ended.Load())
	}
}

// Two sides that answer each request with a request of their own do not block each other.
func TestConnBothWays(t *testing.T) {
	checkLeaks(t)
	var a, b *Conn
	ready := make(chan struct{})
	back := func(c **Conn) Handler {
		return HandlerFunc(func(ctx context.Context, method string, params []byte) ([]byte, error) {
			<-ready
			if method == "0" {
				return params, nil
			}
			return (*c).Call(ctx, string(method[0]-1), params)
		})
	}
	a, b = pair(t, Options{Handler: back(&a)}, Options{Handler: back(&b)})
	close(ready)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := a.Call(t.Context(), "5", []byte(`{"deep":true}`)); err != nil || string(got) != `{"deep":true}` {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	wg.Wait()
}
