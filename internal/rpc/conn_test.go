package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// checkLeaks fails the test if goroutines are left after it.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(time.Minute)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				buf := make([]byte, 64<<10)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// run runs a connection for the length of a test.
func run(t *testing.T, c *Conn) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { ended <- c.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return ended
}

// pair returns two connections that talk to each other.
func pair(t *testing.T, a, b Options) (*Conn, *Conn) {
	t.Helper()
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	ca, cb := NewConn(ar, aw, a), NewConn(br, bw, b)
	run(t, ca)
	run(t, cb)
	return ca, cb
}

// peer is the other side of a connection, scripted by the test.
type peer struct {
	t   *testing.T
	in  *io.PipeReader
	out *io.PipeWriter
	r   wire.LineReader
}

func newPeer(t *testing.T, o Options) (*Conn, *peer, <-chan error) {
	t.Helper()
	cr, pw := io.Pipe()
	pr, cw := io.Pipe()
	if o.Framing == nil {
		o.Framing = wire.NDJSON{}
	}
	c := NewConn(cr, cw, o)
	p := &peer{t, pr, pw, o.Framing.NewReader(pr, 0)}
	ended := run(t, c)
	t.Cleanup(func() { pr.Close(); pw.Close() })
	return c, p, ended
}

func (p *peer) read() string {
	p.t.Helper()
	var l wire.Line
	if err := p.r.Next(&l); err != nil {
		p.t.Fatalf("nothing came: %v", err)
	}
	return string(l.Data)
}

func (p *peer) write(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.out, line+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

// call1 starts a call and delivers its outcome, "result" or "error: reason".
func call1(ctx context.Context, c *Conn, method string) <-chan string {
	out := make(chan string, 1)
	go func() {
		result, err := c.Call(ctx, method, nil)
		if err != nil {
			out <- "error: " + err.Error()
			return
		}
		out <- string(result)
	}()
	return out
}

// tongues returns all pairs of framing and dialect.
func tongues() map[string]Options {
	return map[string]Options{
		"lines of JSON-RPC":    {},
		"lines of typed JSON":  {Dialect: TypedJSON{Cancels: true}},
		"headers and JSON-RPC": {Framing: wire.ContentLength{}},
		"lengths and typed":    {Framing: wire.Length32{}, Dialect: TypedJSON{}},
	}
}

func TestConnConcurrentCalls(t *testing.T) {
	for name, o := range tongues() {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			echo := o
			echo.Handler = HandlerFunc(func(ctx context.Context, method string, params []byte) ([]byte, error) {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // answers come in another order
				if method == "fail" {
					return nil, &Fault{Code: -31001, Message: "no", Data: params}
				}
				return params, nil
			})
			a, _ := pair(t, o, echo)
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					params := fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i*50))
					if i%4 == 0 {
						_, err := a.Call(t.Context(), "fail", []byte(params))
						var fault *Fault
						if !errors.As(err, &fault) || fault.Code != -31001 || fault.Message != "no" || string(fault.Data) != params {
							t.Errorf("call %d failed with %v", i, err)
						}
						return
					}
					got, err := a.Call(t.Context(), "echo", []byte(params))
					if err != nil || string(got) != params {
						t.Errorf("call %d: %q, %v", i, got, err)
					}
				})
			}
			wg.Wait()
			if n := len(a.waiting); n != 0 {
				t.Errorf("%d calls are remembered", n)
			}
		})
	}
}

func TestConnMatchesIDsWithTheirType(t *testing.T) {
	checkLeaks(t)
	var dropped atomic.Int32
	c, p, _ := newPeer(t, Options{Dropped: func(string, []byte) { dropped.Add(1) }})
	got := call1(t.Context(), c, "m")
	if line := p.read(); line != `{"jsonrpc":"2.0","id":1,"method":"m"}` {
		t.Errorf("asked %s", line)
	}
	p.write(
		`{"jsonrpc":"2.0","id":"1","result":"a string for a number"}`,
		`{"jsonrpc":"2.0","id":2,"result":"not asked yet"}`,
		`{"jsonrpc":"2.0","id":1.0,"result":"a fraction"}`,
		`{"jsonrpc":"2.0","id":1,"result":1,"Result":2}`,
		`garbage`,
		`{"jsonrpc":"2.0","id":1,"result":"right"}`,
		`{"jsonrpc":"2.0","id":1,"result":"again"}`,
	)
	if result := <-got; result != `"right"` {
		t.Errorf("got %s", result)
	}
	poll(t, func() bool { return dropped.Load() == 6 })
}

func poll(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
	}
}

// An answer to a request that was not written yet is forged.
func TestConnAnswerBeforeRequest(t *testing.T) {
	checkLeaks(t)
	dropped := make(chan string, 1)
	c, p, _ := newPeer(t, Options{Dropped: func(reason string, _ []byte) { dropped <- reason }})
	first := call1(t.Context(), c, "first") // its frame fills the pipe: nobody reads
	poll(t, func() bool { return c.open() == 1 && c.out.len() == 0 })
	second := call1(t.Context(), c, "second")
	poll(t, func() bool { return c.out.len() == 1 })
	p.write(`{"jsonrpc":"2.0","id":2,"result":"forged"}`)
	<-dropped
	p.read()
	p.read()
	p.write(`{"jsonrpc":"2.0","id":2,"result":"two"}`, `{"jsonrpc":"2.0","id":1,"result":"one"}`)
	if a, b := <-first, <-second; a != `"one"` || b != `"two"` {
		t.Errorf("got %s and %s", a, b)
	}
}

func (c *Conn) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

func (o *outbox) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

func TestConnTimeout(t *testing.T) {
	tests := []struct {
		name   string
		o      Options
		method string
		cancel string // what is written after the request
	}{
		{"MCP", Options{}, "tools/call", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
		{"others", Options{Dialect: JSONRPC{CancelMethod: "$/cancel_request"}}, "m", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`},
		{"a handshake", Options{}, "initialize", ""},
		{"typed", Options{Dialect: TypedJSON{Cancels: true}}, "execute", `{"type":"cancel","id":"req-1"}`},
		{"typed, silent", Options{Dialect: TypedJSON{}}, "execute", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkLeaks(t)
			dropped := make(chan string, 1)
			test.o.Dropped = func(reason string, _ []byte) { dropped <- reason }
			c, p, _ := newPeer(t, test.o)
			ctx, over := context.WithCancelCause(t.Context())
			defer over(nil)
			got := call1(ctx, c, test.method)
			p.read() // a request whose time is over before it is written is never written
			over(context.DeadlineExceeded)
			if result := <-got; !strings.Contains(result, "deadline exceeded") {
				t.Errorf("got %s", result)
			}
			if c.open() != 0 {
				t.Error("the call is remembered")
			}
			if test.cancel != "" {
				if line := p.read(); line != test.cancel {
					t.Errorf("wrote %s, want %s", line, test.cancel)
				}
			}
			// The late answer is dropped, and the connection continues.
			id, reply := "1", `{"jsonrpc":"2.0","id":%s,"result":%q}`
			if _, ok := test.o.Dialect.(TypedJSON); ok {
				id, reply = `"req-1"`, `{"type":"response","id":%s,"result":%q}`
			}
			p.write(fmt.Sprintf(reply, id, "late"))
			<-dropped
			got = call1(t.Context(), c, "m")
			if line := p.read(); strings.Contains(line, "ancel") {
				t.Errorf("wrote %s", line)
			}
			p.write(fmt.Sprintf(reply, strings.Replace(id, "1", "2", 1), "good"))
			if result := <-got; result != `"good"` {
				t.Errorf("got %s", result)
			}
		})
	}
}

// A request that times out before it is written is never written, nor is its
// cancellation.
func TestConnTimeoutBeforeWriting(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{})
	first := call1(t.Context(), c, "first")
	poll(t, func() bool { return c.open() == 1 && c.out.len() == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	second := call1(ctx, c, "second")
	poll(t, func() bool { return c.out.len() == 1 })
	cancel()
	<-second
	third := call1(t.Context(), c, "third")
	poll(t, func() bool { return c.out.len() == 1 })
	for _, want := range []string{"first", "third"} {
		if line := p.read(); !strings.Contains(line, want) {
			t.Errorf("wrote %s, want %s", line, want)
		}
	}
	p.write(`{"jsonrpc":"2.0","id":1,"result":1}`, `{"jsonrpc":"2.0","id":3,"result":3}`)
	if a, b := <-first, <-third; a != "1" || b != "3" {
		t.Errorf("got %s, %s", a, b)
	}
}

func TestConnClose(t *testing.T) {
	checkLeaks(t)
	c, p, ended := newPeer(t, Options{})
	var outcomes []<-chan string
	for range 20 {
		outcomes = append(outcomes, call1(t.Context(), c, "m"))
	}
	for range 20 {
		p.read()
	}
	s := c.Subscribe(0)
	defer s.Close()
	c.Close()
	c.Close()
	for _, o := range outcomes {
		if got := <-o; got != "error: "+ErrClosed.Error() {
			t.Errorf("got %s", got)
		}
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a subscription ends with %v", err)
	}
	if _, err := c.Call(t.Context(), "m", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after: %v", err)
	}
	if err := c.Notify(t.Context(), "m", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a notification after: %v", err)
	}
	// This side's stream ends, which tells the other side to end its own.
	if _, err := io.Copy(io.Discard, p.in); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	p.out.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestConnPeerEnds(t *testing.T) {
	for _, test := range []struct {
		name, last string
		want       error
	}{
		{"between messages", "", nil},
		{"inside a line", `{"jsonrpc":"2.0","id":1,"resu`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkLeaks(t)
			c, p, ended := newPeer(t, Options{})
			got := call1(t.Context(), c, "m")
			p.read()
			_, _ = io.WriteString(p.out, test.last)
			p.out.Close()
			if result := <-got; !strings.Contains(result, ErrClosed.Error()) {
				t.Errorf("got %s", result)
			}
			if err := <-ended; !errors.Is(err, test.want) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
	t.Run("inside a frame", func(t *testing.T) {
		checkLeaks(t)
		c, p, ended := newPeer(t, Options{Framing: wire.Length32{}})
		got := call1(t.Context(), c, "m")
		p.read()
		_, _ = io.WriteString(p.out, "\x00\x00\x00\xffhalf")
		p.out.Close()
		if result := <-got; !strings.Contains(result, io.ErrUnexpectedEOF.Error()) {
			t.Errorf("got %s", result)
		}
		if err := <-ended; err != io.ErrUnexpectedEOF {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestConnContextEnds(t *testing.T) {
	checkLeaks(t)
	cr, pw := io.Pipe()
	pr, cw := io.Pipe()
	c := NewConn(cr, cw, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	got := call1(t.Context(), c, "m")
	_, _ = pr.Read(make([]byte, 100))
	why := errors.New("enough")
	cancel(why)
	if err := <-ended; err != why {
		t.Errorf("Run returned %v", err)
	}
	if result := <-got; !strings.Contains(result, "enough") {
		t.Errorf("got %s", result)
	}
	if _, err := pw.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Errorf("the reader is open: %v", err)
	}
}

// After a write failed, answers to what was written before still arrive.
func TestConnWriteFails(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{})
	first := call1(t.Context(), c, "first")
	p.read()
	p.in.Close()
	if got := <-call1(t.Context(), c, "second"); !strings.Contains(got, "closed pipe") {
		t.Errorf("got %s", got)
	}
	if err := c.Notify(t.Context(), "third", nil); err == nil {
		t.Error("a notification was taken")
	}
	p.write(`{"jsonrpc":"2.0","id":1,"result":"there"}`)
	if got := <-first; got != `"there"` {
		t.Errorf("got %s", got)
	}
}

// A body that can't be framed fails its own call only.
func TestConnUnframable(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{})
	if _, err := c.Call(t.Context(), "m", []byte("{\n}")); err == nil || c.open() != 0 {
		t.Errorf("got %v", err)
	}
	got := call1(t.Context(), c, "m")
	p.read()
	p.write(`{"jsonrpc":"2.0","id":2,"result":"fine"}`)
	if result := <-got; result != `"fine"` {
		t.Errorf("got %s", result)
	}
}

func TestConnTooManyCalls(t *testing.T) {
	checkLeaks(t)
	c, p, _ := newPeer(t, Options{MaxCalls: 3})
	var open []<-chan string
	for range 3 {
		open = append(open, call1(t.Context(), c, "m"))
		p.read()
	}
	if _, err := c.Call(t.Context(), "m", nil); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	p.write(`{"jsonrpc":"2.0","id":2,"result":2}`)
	<-open[1]
	got := call1(t.Context(), c, "m")
	p.read()
	p.write(`{"jsonrpc":"2.0","id":5,"result":5}`)
	if result := <-got; result != "5" {
		t.Errorf("got %s", result)
	}
}

// A peer that does not read blocks only senders, and only until their contexts end.
func TestConnPeerDoesNotRead(t *testing.T) {
	checkLeaks(t)
	c, _, _ := newPeer(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 * maxQueued {
		wg.Go(func() {
			if _, err := c.Call(ctx, "m", bytes.Repeat([]byte("9"), 1000)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if n := c.out.len(); n > 2 || c.open() != 0 {
		t.Errorf("%d frames and %d calls are left", n, c.open())
	}
}

// Nothing that a peer sends without being asked is kept in memory.
func TestConnFlood(t *testing.T) {
	checkLeaks(t)
	var dropped atomic.Int64
	c, p, _ := newPeer(t, Options{Dropped: func(string, []byte) { dropped.Add(1) }})
	s := c.Subscribe(10, "n")
	defer s.Close()
	line := `{"jsonrpc":"2.0","method":"n","params":{"v":"` + strings.Repeat("x", 1000) + `"}}`
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 5000
	for i := range n {
		p.write(line, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"result":{}}`, "garbage")
	}
	poll(t, func() bool { return dropped.Load() == 2*n && s.Dropped() == n-10 })
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are held", grown)
	}
}
