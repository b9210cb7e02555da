package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A line of JSON may have been written on several, but a line break within a string is no JSON, and must
// not become some.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "{\n\"a\":\r\n[1,\r2]}\n": `{ "a":  [1, 2]} `, "{\"a\":\"b\nc\"}": "", "{\"a\":\"b\rc\"}": "", "{\"a\n\":1}": "",
		"{\"a\":\"\\\"\n\"}": "", "{\"a\":\"\\\\\"\n}": `{"a":"\\" }`, "\n{\"a": "", "{\"a\\\n\":1}": "", "": "", "{\"a\":\"b\\u000ac\",\n\"d\":\"\\n\"}": `{"a":"b\u000ac", "d":"\n"}`,
	} {
		got, _ := oneLine([]byte(text))
		if string(got) != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	for _, text := range []string{"{\n\"a\": \"\\\"b\"}\n", "{\"a\nb\":1}", "\r\n", `{"a`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line, ok := oneLine(text)
		switch {
		case !ok && json.Valid(text):
			t.Fatalf("%q is refused", text)
		case ok && json.Valid(text) != json.Valid(line): // a text that is no JSON never becomes some
			t.Fatalf("%q becomes %q", text, line)
		case ok && (len(line) != len(text) || bytes.ContainsAny(line, "\r\n")):
			t.Fatalf("%q becomes %q, which is not one line of that length", text, line)
		}
	})
}

// respond returns the ways in which a server can send a message as the answer to a call.
func respond(message string) map[string]handlerFunc {
	return map[string]handlerFunc{
		"JSON": func(w http.ResponseWriter, _ *http.Request, _ string) { writeJSON(w, message) },
		"stream": func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeStream(w)(event(strings.Split(message, "\n")...))
		},
	}
}

// A message that readers may understand differently never answers the call, which gets an error. What
// can't hurt other calls goes to the relay as it is, which refuses and records it.
func TestRefusedMessages(t *testing.T) {
	for name, test := range map[string]struct {
		message string
		passed  bool // to the relay, which refuses it
		own     bool // which also answers the call
	}{
		"another open call":               {message: answer(2)},
		"an error for another open call":  {message: `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"x"}}`},
		"another open call, escaped":      {message: `{"jsonrpc":"2.0","id":"\u0061","result":{}}`},
		"another open call, refused":      {message: `{"jsonrpc":"2.0","id":2,"result":{},"result":{}}`},
		"a batch":                         {message: `[` + answer(1) + `,` + answer(2) + `]`},
		"no call":                         {message: answer(77), passed: true},
		"a duplicate":                     {message: `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, passed: true, own: true},
		"no version":                      {message: `{"id":1,"result":{}}`, passed: true, own: true},
		"another type of id":              {message: `{"jsonrpc":"2.0","id":"1","result":{}}`, passed: true},
		"an id that is null":              {message: `{"jsonrpc":"2.0","id":null,"result":{}}`, passed: true},
		"trailing":                        {message: answer(1) + answer(1), passed: true},
		"a line break in a string":        {message: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"b\nc\"}}"},
		"a second line in a string":       {message: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"b\n" + answer(2)},
		"a string without end":            {message: `{"jsonrpc":"2.0","id":1,"result":{"a":"b`},
		"NUL":                             {message: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\x00\"}}", passed: true, own: true},
		"a byte order mark":               {message: "\ufeff" + answer(1), passed: true, own: true},
		"invalid UTF-8":                   {message: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", passed: true, own: true},
		"nothing but blanks":              {message: "  \n "},
		"a message in the other's string": {message: `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.ReplaceAll(answer(2), `"`, `\"`) + `"}}x`, passed: true, own: true},
	} {
		for way, h := range respond(test.message) {
			t.Run(name+" "+way, func(t *testing.T) {
				started := make(chan struct{})
				release := make(chan struct{})
				slow := func(w http.ResponseWriter, r *http.Request, message string) {
					close(started)
					<-release
					writeJSON(w, strings.Replace(answer(0), `:0`, ":"+idOf(message), 1))
				}
				rec := record(streamable(map[string]handlerFunc{`"id":1,`: h, `"id":2,`: slow, `"id":"a",`: slow}))
				a := connect(t, serve(t, rec, true))
				a.shakeHands()
				other := call(2)
				if strings.Contains(name, "escaped") {
					other = strings.Replace(other, `"id":2`, `"id":"a"`, 1)
				}
				a.write(other)
				next(t, started)
				a.write(call(1))
				if test.passed {
					want := strings.ReplaceAll(test.message, "\n", " ")
					a.expect(want)
				}
				if !test.own {
					a.expectError("1", "may have been executed")
				}
				close(release)
				if got := a.await(); idOf(got) != idOf(other) || !strings.Contains(got, "result") {
					t.Errorf("the other call is answered %s", got)
				}
				a.write(call(3))
				a.expect(answer(3))
				a.nothing()
				isOpen := func() int {
					a.conn.mu.Lock()
					defer a.conn.mu.Unlock()
					return len(a.conn.open)
				}
				for until := time.Now().Add(patience); isOpen() > 0; time.Sleep(time.Millisecond) { // after its answer is delivered
					if time.Now().After(until) {
						t.Fatalf("%d requests are left open", isOpen())
					}
				}
			})
		}
	}
}

// endless writes text until the client has enough, and reports how much that was.
func endless(w io.Writer, text string) (n int) {
	for n < 1<<30 {
		k, err := io.WriteString(w, text)
		if n += k; err != nil {
			return n
		}
	}
	return n
}

// Streams without end and compressed bombs are cut off, and the call is answered with an error.
//
//gotest:plain it reads a hundred megabytes, and concurrency is not its subject
func TestEndless(t *testing.T) {
	block := strings.Repeat("x", 64<<10)
	for name, h := range map[string]func(w io.Writer) int{
		"one line":      func(w io.Writer) int { return endless(w, block) },
		"one string":    func(w io.Writer) int { _, _ = io.WriteString(w, `data: {"a":"`); return endless(w, block) },
		"many lines":    func(w io.Writer) int { return endless(w, "data: "+block+"\n") },
		"short lines":   func(w io.Writer) int { return endless(w, strings.Repeat("data:\n", 1000)) },
		"comments":      func(w io.Writer) int { return endless(w, ":"+block+"\n") },
		"line breaks":   func(w io.Writer) int { return endless(w, strings.Repeat("\n", 64<<10)) },
		"ids":           func(w io.Writer) int { return endless(w, strings.Repeat("id: 1\n\n", 1000)) },
		"empty events":  func(w io.Writer) int { return endless(w, strings.Repeat("event: x\n\n", 1000)) },
		"unknown field": func(w io.Writer) int { return endless(w, block+":") },
	} {
		for _, kind := range []string{"text/event-stream", "application/json"} {
			for _, encoding := range []string{"", "gzip"} {
				if encoding == "" && kind == "application/json" && name != "one line" {
					continue // all texts are the same to it
				}
				t.Run(strings.Join([]string{name, kind, encoding}, " "), func(t *testing.T) {
					written := make(chan int, 1)
					rec := record(streamable(map[string]handlerFunc{`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
						w.Header().Set("Content-Type", kind)
						if encoding == "" {
							written <- h(w)
							return
						}
						w.Header().Set("Content-Encoding", encoding)
						z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
						defer z.Close()
						written <- h(z)
					}}))
					a := connect(t, serve(t, rec, false))
					a.shakeHands()
					a.write(call(1))
					a.expectError("1")
					if n := next(t, written); n >= 1<<30 {
						t.Error("all of it was read")
					}
					a.write(call(2))
					a.expect(answer(2))
				})
			}
		}
	}
}

// A message of the greatest length crosses, and one that is longer does not.
//
//gotest:plain it moves much, and other tests have the same goroutines
func TestLongest(t *testing.T) {
	message := func(n int) string {
		const around = `{"jsonrpc":"2.0","id":1,"result":{"a":""}}`
		return strings.Replace(around, `""`, `"`+strings.Repeat("x", n-len(around))+`"`, 1)
	}
	for _, n := range []int{wire.MaxMessage, wire.MaxMessage + 1} {
		for way, h := range respond(message(n)) {
			t.Run(fmt.Sprint(way, n), func(t *testing.T) {
				a := connect(t, serve(t, record(streamable(map[string]handlerFunc{`"id":1,`: h})), true))
				a.shakeHands()
				a.write(call(1))
				if n > wire.MaxMessage {
					a.expectError("1", "longer than 10 MiB")
				} else if got := a.await(); got != message(n) {
					t.Errorf("the agent gets %.200s", got)
				}
			})
		}
	}
}

// A server that begins many large messages at once gets only some of them into memory.
//
//gotest:plain it moves much, and other tests have the same goroutines
func TestManyLarge(t *testing.T) {
	const calls = 3 * maxLarge
	release := make(chan struct{})
	half := strings.Repeat("x", 3<<20)
	rec := record(streamable(map[string]handlerFunc{"tools/call": func(w http.ResponseWriter, _ *http.Request, message string) {
		send := writeStream(w)
		send(`data: {"jsonrpc":"2.0","id":` + idOf(message) + `,"result":{"a":"` + half)
		<-release
		send("\"}}\n\n")
	}}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	for i := range calls {
		a.write(call(i + 1))
	}
	for until := time.Now().Add(patience); len(a.conn.large) < maxLarge; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d large messages arrive at once", len(a.conn.large))
		}
	}
	close(release)
	got := map[string]bool{}
	for range calls {
		got[idOf(a.await())] = true
	}
	if len(got) != calls {
		t.Errorf("%d calls were answered, of %d", len(got), calls)
	}
	if len(a.conn.large) > 0 {
		t.Errorf("%d messages still count as being received", len(a.conn.large))
	}
}

// Headers without end are not read to it.
func TestLargeHeaders(t *testing.T) {
	for proto, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(proto, func(t *testing.T) {
			rec := record(streamable(map[string]handlerFunc{`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
				for i := range 100 {
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1024))
				}
				writeJSON(w, answer(1))
			}}))
			a := connect(t, serve(t, rec, secure))
			a.shakeHands()
			a.write(call(1))
			a.expectError("1", "may have been executed")
		})
	}
}

// A session id that can't be a header is not sent back.
func TestSessionID(t *testing.T) {
	for id, ok := range map[string]bool{"a": true, strings.Repeat("a", maxSessionBytes): true, strings.Repeat("a", maxSessionBytes+1): false, "a b": false, "ä": false} {
		rec := record(streamable(map[string]handlerFunc{`"initialize"`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set(sessionHeader, id)
			writeJSON(w, welcome)
		}}))
		a := connect(t, serve(t, rec, false))
		a.write(initialize)
		if ok {
			a.expect(welcome)
		} else {
			a.expectError("0", "session id")
		}
	}
}

// Bytes that are no HTTP, and chunks that lie about their length.
func TestNoHTTP(t *testing.T) {
	for name, response := range map[string]string{
		"no HTTP":          "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n",
		"two lengths":      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 200\r\n\r\n" + welcome,
		"a negative chunk": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n" + welcome,
		"a huge chunk":     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + welcome,
		"a short chunk":    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + welcome + "\r\n0\r\n\r\n",
		"a long chunk":     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n" + welcome + "\r\n0\r\n\r\n",
		"no last chunk":    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(welcome), welcome),
		"no body":          "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
		"gzip that is not": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n" + welcome,
		"only informed":    strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000),
		"switched":         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + welcome,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 64<<10))
					_, _ = io.WriteString(conn, response)
					conn.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, conn)
					conn.Close()
				}
			}()
			a := connect(t, Server{Address: "http://" + l.Addr().String(), Policy: Named})
			a.write(initialize)
			a.expectError("0", "may have been executed")
		})
	}
}

// More requests than may be open are refused, and nothing else waits for them.
func TestManyOpen(t *testing.T) {
	release := make(chan struct{})
	rec := record(streamable(map[string]handlerFunc{"tools/call": func(w http.ResponseWriter, _ *http.Request, message string) {
		<-release
		writeJSON(w, strings.Replace(answer(0), `:0`, ":"+idOf(message), 1))
	}}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	for i := range maxOpen {
		a.write(call(i + 1))
	}
	a.write(call(1)) // nothing may be read as its answer
	a.write(call(maxOpen + 1))
	a.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-31010,"message":"more than 256 requests are open"}}`, maxOpen+1))
	a.write(note)
	close(release)
	for range maxOpen {
		a.await()
	}
	a.nothing()
	if n := len(rec.requests("tools/call")); n != maxOpen {
		t.Errorf("the server got %d calls", n)
	}
}

// What an agent does not read is not read from the server either, and everything arrives in the end.
func TestSlowAgent(t *testing.T) {
	const notes = 4000
	rec := record(streamable(map[string]handlerFunc{`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
		send := writeStream(w)
		for range notes {
			send(event(note))
		}
		send(event(answer(1)))
	}}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	a.write(call(1))
	for range notes {
		if line := a.await(); line != note {
			t.Fatalf("the agent gets %s", line)
		}
	}
	a.expect(answer(1))
}

// A client that takes no more ends the connection.
func TestClientIsGone(t *testing.T) {
	a := connect(t, serve(t, record(streamable(nil)), true))
	a.conn.client = refusing{}
	_ = a.conn.Write(t.Context(), []byte(initialize)) // it may have ended by then
	next(t, a.conn.ctx.Done())
	if err := a.conn.Write(t.Context(), []byte(call(1))); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a line is accepted that goes nowhere: %v", err)
	}
}

type refusing struct{}

func (refusing) DeliverWait(context.Context, []byte) error { return io.ErrClosedPipe }
func (refusing) Gone(error)                                {}
