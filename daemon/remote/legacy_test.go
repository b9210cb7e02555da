package remote

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func writePEM(t *testing.T, certificate []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Bytes cross as they are, both ways, and the headers are those of the session.
func TestStreamable(t *testing.T) {
	for name, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			rec := record(streamable(map[string]handlerFunc{
				`"id":2,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
					send := writeStream(w)
					send(": keep\n\n" + event(note) + "event: other\n" + event(answer(9)) + event(answer(2)))
				},
			}))
			s := serve(t, rec, secure)
			s.Headers = http.Header{"Authorization": {"Bearer token"}}
			a := connect(t, s)
			a.shakeHands()
			a.write(call(1))
			a.expect(answer(1))
			a.write(call(2))
			a.expect(note, answer(2))
			const roots = `{"jsonrpc":"2.0","id":"s1","result":{"roots":[]}}`
			a.write(roots)
			a.conn.Leave()
			rec.await(t, 1, "DELETE")
			for i, want := range []string{initialize, initialized, call(1), call(2), roots} {
				got := rec.requests("POST")[i]
				session, version := "session-1", "2025-11-25"
				if i == 0 {
					session, version = "", ""
				}
				h := got.header
				if got.body != want || h.Get(sessionHeader) != session || h.Get(versionHeader) != version || h.Get("Authorization") != "Bearer token" || h.Get("Accept") != acceptBoth || h.Get("Content-Type") != "application/json" || got.query != "key=secret" {
					t.Errorf("request %d is %v with %v", i, got, h)
				}
				if h.Get(methodHeader) != "" {
					t.Errorf("request %d has a header of another era: %v", i, h)
				}
			}
			if got := rec.requests("DELETE")[0].header.Get(sessionHeader); got != "session-1" {
				t.Errorf("the session %q is deleted", got)
			}
		})
	}
}

// What the server says by itself comes on a stream of its own, which is resumed.
func TestListen(t *testing.T) {
	rec := record(streamable(map[string]handlerFunc{
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			send := writeStream(w)
			if r.Header.Get(eventHeader) == "" {
				send("id: e1\nretry: 1\n" + event(note) + "id: e2\ndata: half")
				return
			}
			send(event(answer(1)) + event(strings.Replace(note, "x", "y", 1)))
			<-r.Context().Done()
		},
		`"id":1,`: func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
	}))
	a := connect(t, serve(t, rec, true))
	a.write(initialize)
	a.expect(welcome)
	if got := rec.requests("GET"); len(got) > 0 {
		t.Errorf("the client listens before the handshake is complete: %v", got)
	}
	a.write(call(1)) // what the server answers on the wrong stream does not reach the agent
	a.write(initialized)
	a.expect(note, strings.Replace(note, "x", "y", 1))
	got := rec.requests("GET")
	if len(got) != 2 || got[1].header.Get(eventHeader) != "e1" || got[1].header.Get(sessionHeader) != "session-1" {
		t.Errorf("the streams are %v", got)
	}
	if a.conn.dropped != 1 {
		t.Errorf("%d lines were dropped, want the answer", a.conn.dropped)
	}
}

// A stream that breaks is resumed where it ended, without another POST.
func TestResumeAnswer(t *testing.T) {
	rec := record(streamable(map[string]handlerFunc{
		`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeStream(w)("id: e1\ndata:\n\nid: e2\nretry: 1\n" + event(note) + "id: e3\ndata: {\n")
			panic(http.ErrAbortHandler)
		},
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			switch r.Header.Get(eventHeader) {
			case "e2":
				writeStream(w)("id: e4\ndata:\n\n") // the server lets the client ask again
			case "e4":
				writeStream(w)("id: e5\n" + event(answer(1)))
			default:
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
		},
	}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	a.write(call(1))
	a.expect(note, answer(1))
	if n := len(rec.requests(call(1))); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
}

// A server may take the stream for what it says by itself for the one that continues a broken stream.
func TestResumeElsewhere(t *testing.T) {
	broken := make(chan struct{})
	rec := record(streamable(map[string]handlerFunc{
		`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeStream(w)("id: e1\nretry: 60000\ndata:\n\n")
			close(broken)
		},
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			send := writeStream(w)
			<-broken
			for r.Context().Err() == nil { // until it is known that the stream has ended
				send(event(answer(1)))
				time.Sleep(time.Millisecond)
			}
		},
	}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	a.write(call(1))
	a.expect(answer(1))
	a.conn.Leave()
	if n := len(rec.requests("GET")); n != 1 {
		t.Errorf("there were %d streams, want that of the session", n)
	}
}

// Nobody knows what has become of these calls, so they are not sent again.
func TestNeverTwice(t *testing.T) {
	ways := map[string]handlerFunc{
		"no response":   func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) },
		"half a body":   func(w http.ResponseWriter, _ *http.Request, _ string) { writeHalf(w) },
		"no answer":     func(w http.ResponseWriter, _ *http.Request, _ string) { writeStream(w)(event(note)) },
		"half an event": func(w http.ResponseWriter, _ *http.Request, _ string) { writeStream(w)("data: {") },
		"empty body":    func(w http.ResponseWriter, _ *http.Request, _ string) { writeJSON(w, "") },
		"only accepted": func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusAccepted) },
		"bad gateway":   func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusBadGateway) },
		"not now":       func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusServiceUnavailable) },
		"see other": func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/mcp", http.StatusSeeOther)
		},
		"another message": func(w http.ResponseWriter, _ *http.Request, _ string) { writeJSON(w, note) },
		"other encoding": func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Encoding", "br")
			writeJSON(w, answer(1))
		},
	}
	for name, way := range ways {
		for proto, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" "+proto, func(t *testing.T) {
				t.Parallel()
				rec := record(streamable(map[string]handlerFunc{`"id":1,`: way}))
				a := connect(t, serve(t, rec, secure))
				a.shakeHands()
				a.write(call(2)) // so that the connection has been used
				a.expect(answer(2))
				a.write(call(1))
				for line := ""; ; {
					if line = a.await(); line == note {
						continue
					}
					if !strings.Contains(line, `"id":1,"error":{"code":-31012,"message":"The MCP server did not answer: remote server github: POST http`) {
						t.Errorf("the agent gets %s", line)
					}
					if strings.Contains(line, "secret") {
						t.Errorf("the error has the query: %s", line)
					}
					break
				}
				if n := len(rec.requests(call(1))); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
			})
		}
	}
}

func writeHalf(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"re`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A server that forgets its session gets a new one, with the agent's own bytes. Calls of the old session
// are answered with an error, and not sent again.
func TestSessionEnds(t *testing.T) {
	release := make(chan struct{})
	rec := record(streamable(map[string]handlerFunc{
		`"id":2,`: func(_ http.ResponseWriter, r *http.Request, _ string) {
			close(release)
			<-r.Context().Done()
		},
		`"id":3,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusNotFound)
			writeJSON(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		},
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			writeStream(w)("")
			<-r.Context().Done()
		},
	}))
	a := connect(t, serve(t, rec, true))
	a.shakeHands()
	rec.await(t, 1, "GET")
	a.write(call(1))
	a.expect(answer(1))
	a.write(call(2))
	next(t, release)
	a.write(call(3))
	got := a.expectErrors(2)
	if !got["2"] || !got["3"] {
		t.Errorf("the agent gets errors for %v", got)
	}
	a.write(call(4))
	a.expect(answer(4))
	a.nothing()
	posts := rec.requests("POST")
	var text []string
	for _, p := range posts {
		text = append(text, fmt.Sprintf("%s %s", p.header.Get(sessionHeader), p.body))
	}
	want := []string{
		" " + initialize, "session-1 " + initialized, "session-1 " + call(1), "session-1 " + call(2), "session-1 " + call(3),
		" " + initialize, "session-2 " + initialized, "session-2 " + call(4),
	}
	if strings.Join(text, "\n") != strings.Join(want, "\n") {
		t.Errorf("the server got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
	rec.await(t, 2, "GET") // both sessions have a stream
}

// expectErrors returns the ids of the next n errors of ours.
func (a *agent) expectErrors(n int) map[string]bool {
	a.t.Helper()
	ids := map[string]bool{}
	for range n {
		line := a.await()
		if !strings.Contains(line, `"error":{"code":-31012`) {
			a.t.Errorf("the agent gets %s", line)
		}
		ids[idOf(line)] = true
	}
	return ids
}

// A new session must be as the agent knows the old one, and be of use; otherwise the server is gone.
func TestSessionIsNotRenewed(t *testing.T) {
	notFound := func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNotFound) }
	n := 0
	for name, special := range map[string]map[string]handlerFunc{
		"forgotten at once": {`"id":3,`: notFound, `"id":1,`: notFound},
		"forgotten again": {`"id":3,`: notFound, "initialized": func(w http.ResponseWriter, r *http.Request, _ string) {
			w.WriteHeader(map[bool]int{true: 202, false: 404}[r.Header.Get(sessionHeader) == "session-1"])
		}},
		"differs": {`"id":3,`: notFound, `"initialize"`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			n++
			w.Header().Set(sessionHeader, "session-1")
			writeJSON(w, strings.Replace(welcome, `"tools":{}`, strings.Repeat(`"tools":{}`, 2-min(n, 2))+strings.Repeat(`"prompts":{}`, min(n, 2)-1), 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n = 0
			rec := record(streamable(special))
			a := connect(t, serve(t, rec, false))
			a.shakeHands()
			a.write(call(1))
			if name != "forgotten at once" {
				a.expect(answer(1))
				a.write(call(3))
				a.expectError("3")
			}
			select {
			case err := <-a.gone:
				if err == nil {
					t.Error("the server is gone without a reason")
				}
			case <-time.After(patience):
				t.Fatal("the server is not gone")
			}
			if err := a.conn.Write(t.Context(), []byte(call(4))); err == nil {
				t.Error("a line is accepted that goes nowhere")
			}
			if n := len(rec.requests(`"initialize"`)); n > 2 {
				t.Errorf("the handshake was sent %d times", n)
			}
		})
	}
}

// The connection of the next daemon repeats the handshake; what the server answers is not delivered.
func TestResume(t *testing.T) {
	rec := record(streamable(nil))
	a := connect(t, serve(t, rec, true))
	made := a.conn.Resume([]byte(initialize))
	a.write(call(1)) // it waits for that
	next(t, made)
	a.expect(answer(1))
	a.nothing()
	for i, want := range []string{initialize, initialized, call(1)} {
		if got := rec.requests("POST")[i]; got.body != want {
			t.Errorf("request %d is %v", i, got)
		}
	}
}

// A server of 2024-11-05 has one stream, whose first event says where messages go.
func TestOldSSE(t *testing.T) {
	for name, path := range map[string]string{"path": "/messages?session=1", "relative": "messages?session=1", "whole": "HOST/messages?session=1"} {
		t.Run(name, func(t *testing.T) {
			events := make(chan string, 8)
			defer close(events)
			rec := record(func(w http.ResponseWriter, r *http.Request, message string) {
				switch {
				case r.Method == http.MethodGet:
					send := writeStream(w)
					send("event: endpoint\n" + event(strings.Replace(path, "HOST", "http://"+r.Host, 1)))
					sendUntilClosed(r.Context(), send, events)
				case r.URL.Path == "/messages" && r.URL.Query().Get("session") == "1":
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, "Accepted")
				default:
					w.WriteHeader(http.StatusMethodNotAllowed)
				}
			})
			a := connect(t, serve(t, rec, false))
			a.write(initialize)
			rec.await(t, 2, initialize)
			events <- "event: message\n" + event(welcome)
			a.expect(welcome)
			a.write(initialized, call(1), call(2))
			events <- event(answer(2)) + event(note) + event(answer(1)) + event(answer(7))
			a.expect(answer(2), note, answer(1), answer(7)) // the relay refuses the last one, and records it
			if n := len(rec.requests("GET")); n != 1 {
				t.Errorf("%d streams were opened", n)
			}
		})
	}
}

// An event with nothing but blanks is none, as a blank line of a server on pipes is.
func TestBlankEvents(t *testing.T) {
	rec := record(streamable(map[string]handlerFunc{
		`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeStream(w)(event("\t") + event("", " ") + event(answer(1)))
		},
	}))
	a := connect(t, serve(t, rec, false))
	a.shakeHands()
	a.write(call(1))
	a.expect(answer(1))
}

// An agent that tries one transport only has that one tried, and no other.
func TestTransportIsTheAgents(t *testing.T) {
	streams := make(chan chan string, 2)
	rec := oldServer(streams)
	s := serve(t, rec, false)
	s.Transport = StreamableHTTP
	a := connect(t, s)
	a.write(initialize)
	a.expectError("0", "404 Not Found")
	if n := len(rec.requests("GET")); n != 0 {
		t.Errorf("with Streamable HTTP, %d streams were opened", n)
	}
	s.Transport = OldSSE
	a = connect(t, s)
	a.write(initialize)
	stream := <-streams
	defer close(stream)
	rec.await(t, 2, initialize)
	stream <- event(welcome)
	a.expect(welcome)
	if posts := rec.requests("POST"); len(posts) != 2 { // that of each agent
		t.Errorf("there were posted: %v", posts)
	}

	s = serve(t, record(streamable(nil)), false) // which has Streamable HTTP alone
	s.Transport = OldSSE
	a = connect(t, s)
	a.write(initialize)
	a.expectError("0", "no stream that begins with an endpoint")
}

// sendUntilClosed sends texts until the channel is closed or the client has gone: a test that fails leaves
// its channel open.
func sendUntilClosed(ctx context.Context, send func(string), texts <-chan string) {
	for {
		select {
		case text, ok := <-texts:
			if !ok {
				return
			}
			send(text)
		case <-ctx.Done():
			return
		}
	}
}

// oldServer is a server of 2024-11-05. Each of its streams sends the texts of a channel, until that is
// closed.
func oldServer(streams chan<- chan string) *recorder {
	return record(func(w http.ResponseWriter, r *http.Request, _ string) {
		switch {
		case r.Method == http.MethodGet:
			send, texts := writeStream(w), make(chan string, 8)
			send("event: endpoint\n" + event("/messages"))
			streams <- texts
			sendUntilClosed(r.Context(), send, texts)
		case r.URL.Path == "/messages":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// When the stream of such a server breaks, or nobody knows what it answered, its session is lost. A line
// that is refused ends the call that it is about, and no other.
func TestOldSSEBreaks(t *testing.T) {
	for name, end := range map[string]func(stream chan string){
		"closed": func(stream chan string) { close(stream) },
		"too long": func(stream chan string) {
			stream <- "data: " + strings.Repeat("x", wire.MaxMessage+1) + "\n\n"
			close(stream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			streams := make(chan chan string, 2)
			rec := oldServer(streams)
			a := connect(t, serve(t, rec, false))
			a.write(initialize)
			first := next(t, streams)
			first <- event(welcome)
			a.expect(welcome)
			a.write(initialized, call(1), call(3))
			rec.await(t, 1, call(3))
			torn := `{"jsonrpc":"2.0","id":3,"result":{},"x":"`
			first <- event(torn)
			if got := a.await(); strings.Contains(got, torn) {
				t.Errorf("the agent gets %s", got)
			}
			end(first)
			a.expectError("1", "may have been executed")
			second := next(t, streams)
			second <- event(welcome)
			a.write(call(2))
			rec.await(t, 1, call(2))
			second <- event(answer(2))
			a.expect(answer(2))
			a.nothing()
			close(second)
		})
	}
}

// The stream of 2024-11-05 must say first where messages go, and that must be the same origin.
func TestOldSSERefused(t *testing.T) {
	other := record(streamable(nil))
	elsewhere := strings.TrimSuffix(serve(t, other, false).Address, "/mcp?key=secret")
	for name, first := range map[string]string{
		"another origin": "event: endpoint\n" + event(elsewhere+"/mcp"), "another scheme": "event: endpoint\n" + event("https://HOST/m"), "no address": "event: endpoint\n" + event("http://a b/"),
		"another event": event(welcome), "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			rec := record(func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Method == http.MethodGet {
					writeStream(w)(strings.Replace(first, "HOST", r.Host, 1))
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
			a := connect(t, serve(t, rec, false))
			a.write(initialize)
			a.expectError("0", "404")
			if n := len(other.requests("")) + len(rec.requests("POST")); n != 1 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
}

// Redirects within the origin keep the method. Others are refused, and what was sent is not sent there.
func TestRedirects(t *testing.T) {
	other := record(streamable(nil))
	elsewhere := strings.TrimSuffix(serve(t, other, false).Address, "/mcp?key=secret")
	for _, status := range []int{301, 302, 307, 308} {
		for name, test := range map[string]struct {
			to   string
			want string
		}{
			"same origin": {to: "/moved"}, "other origin": {to: elsewhere + "/moved", want: "another origin"}, "loop": {to: "/mcp", want: "more than 10"},
			"other scheme": {to: "https://HOST/moved", want: "another origin"}, "none": {want: "more than 10"}, "file": {to: "file:///etc/passwd", want: "another origin"},
		} {
			t.Run(fmt.Sprintf("%d %s", status, name), func(t *testing.T) {
				t.Parallel()
				plain := streamable(nil)
				rec := record(func(w http.ResponseWriter, r *http.Request, message string) {
					if r.URL.Path == "/moved" || !strings.Contains(message, `"id":1,`) {
						plain(w, r, message)
						return
					}
					w.Header().Set("Location", strings.Replace(test.to, "HOST", r.Host, 1))
					w.WriteHeader(status)
				})
				s := serve(t, rec, false)
				s.Headers = http.Header{"X-Api-Key": {"k"}}
				a := connect(t, s)
				a.shakeHands()
				a.write(call(1))
				if test.want == "" {
					a.expect(answer(1))
				} else if text := a.expectError("1", test.want, "not executed"); strings.Contains(text, "secret") {
					t.Errorf("the error is %s", text)
				}
				if n := len(rec.requests(call(1))); n > maxRedirects+1 {
					t.Errorf("%d requests were sent", n)
				}
			})
		}
	}
	t.Cleanup(func() {
		if got := other.requests(""); len(got) > 0 {
			t.Errorf("the other origin got %v", got)
		}
	})
}
