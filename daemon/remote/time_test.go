package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// roundTripper answers requests in the test's own time.
type roundTripper func(r *http.Request, message string) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	message := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		message = string(b)
	}
	return f(r, message)
}

func response(status int, kind, body string, headers ...string) *http.Response {
	h := http.Header{"Content-Type": {kind}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// hanging is a request that is never answered.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// atTime is when something happened, since it did for the first time.
type atTime struct {
	mu    sync.Mutex
	start time.Time
	all   []time.Duration
}

func (at *atTime) note() {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.start.IsZero() {
		at.start = time.Now()
	}
	at.all = append(at.all, time.Since(at.start))
}

// inTime runs f with a connection whose server is rt, and the handshake made.
func inTime(t *testing.T, rt roundTripper, f func(a *agent)) {
	inTimeWith(t, Server{ID: "github"}, rt, f)
}

// inTimeWith is inTime for a server that is more than a name.
func inTimeWith(t *testing.T, s Server, rt roundTripper, f func(a *agent)) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		parsed, err := uri.ParseServer("https://host/mcp?key=secret")
		if err != nil {
			t.Fatal(err)
		}
		plain := func(r *http.Request, message string) (*http.Response, error) {
			switch resp, err := rt(r, message); {
			case resp != nil || err != nil:
				return resp, err
			case strings.Contains(message, `"initialize"`):
				return response(200, "application/json", welcome, sessionHeader, "session-1"), nil
			case idOf(message) == "":
				return response(map[bool]int{true: 202, false: 405}[r.Method == http.MethodPost], "", ""), nil
			default:
				return response(200, "application/json", strings.Replace(answer(0), ":0", ":"+idOf(message), 1)), nil
			}
		}
		a.conn = open(s, address{parsed}, a, roundTripper(plain), a.logger())
		a.shakeHands()
		f(a)
		a.conn.Leave()
		a.conn.end()
	})
}

func TestRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		after  func() string
		times  int // that the server answers so
		at     []time.Duration
		want   string // error; empty for an answer
	}{
		"too many":       {429, func() string { return "7" }, 2, []time.Duration{0, 7 * time.Second, 14 * time.Second}, ""},
		"not now":        {503, func() string { return "1" }, 1, []time.Duration{0, time.Second}, ""},
		"at once":        {429, func() string { return "0" }, 1, []time.Duration{0, 0}, ""},
		"a date":         {429, func() string { return time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat) }, 1, []time.Duration{0, 90 * time.Second}, ""},
		"a past date":    {429, func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, 1, []time.Duration{0, 0}, ""},
		"too long":       {429, func() string { return "121" }, 9, []time.Duration{0}, "2m1s"},
		"forever":        {503, func() string { return "2147483647" }, 9, []time.Duration{0}, "not executed"},
		"too often":      {429, func() string { return "60" }, 9, []time.Duration{0, 60e9, 120e9, 180e9, 240e9, 300e9}, "429"},
		"none":           {503, func() string { return "" }, 9, []time.Duration{0}, "503"},
		"no time":        {429, func() string { return "soon" }, 9, []time.Duration{0}, "429"},
		"another status": {500, func() string { return "1" }, 9, []time.Duration{0}, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			var at atTime
			inTime(t, func(_ *http.Request, message string) (*http.Response, error) {
				if !strings.Contains(message, "tools/call") {
					return nil, nil
				}
				at.note()
				if len(at.all) > test.times {
					return nil, nil
				}
				return response(test.status, "text/plain", "", "Retry-After", test.after()), nil
			}, func(a *agent) {
				a.writeAside(call(1))
				if test.want == "" {
					if got := <-a.lines; got != answer(1) {
						t.Errorf("the agent gets %s", got)
					}
				} else if got := <-a.lines; !strings.Contains(got, "-31012") || !strings.Contains(got, test.want) {
					t.Errorf("the agent gets %s", got)
				}
				if fmt.Sprint(at.all) != fmt.Sprint(test.at) {
					t.Errorf("sent at %v, want %v", at.all, test.at)
				}
				synctest.Wait()
			})
		})
	}
}

// Delays grow, vary, are bounded, and are at least what the server asks for, unless that is absurd.
func TestBackoff(t *testing.T) {
	for failures, most := range []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9, 60e9, 60e9} {
		different := map[time.Duration]bool{}
		for range 50 {
			got := backoff(failures, 0)
			if got < most/2 || got >= most {
				t.Errorf("after %d failures the delay is %v, want %v to %v", failures, got, most/2, most)
			}
			different[got] = true
		}
		if len(different) < 10 {
			t.Errorf("after %d failures there are %d delays", failures, len(different))
		}
	}
	if got := backoff(1000, 0); got > maxBackoff {
		t.Errorf("after 1000 failures the delay is %v", got)
	}
	if got := backoff(0, 5*time.Minute); got != 5*time.Minute {
		t.Errorf("the server asks for 5m, and the delay is %v", got)
	}
	if got := backoff(0, 1000*time.Hour); got != maxRetry {
		t.Errorf("the server asks for 1000h, and the delay is %v", got)
	}
}

// The next message waits for the stream of the session, and not for long: longer if the server was slow
// before.
func TestListenFirst(t *testing.T) {
	const s = time.Second
	for _, test := range []struct{ initialize, initialized, stream, waits time.Duration }{
		{0, 0, 1 * s, 1 * s},
		{0, 0, 4 * s, 2 * s},
		{1 * s, 0, 3 * s, 3 * s},
		{1 * s, 0, 20 * s, 4 * s},
		{0, 2 * s, 20 * s, 8 * s},
		{5 * s, 0, 60 * s, 10 * s},
	} {
		var at atTime
		inTime(t, func(r *http.Request, message string) (*http.Response, error) {
			switch {
			case r.Method == http.MethodGet:
				at.note()
				return response(405, "", ""), sleep(r.Context(), test.stream)
			case strings.Contains(message, `"initialize"`):
				return nil, sleep(r.Context(), test.initialize)
			case strings.Contains(message, "notifications/initialized"):
				return nil, sleep(r.Context(), test.initialized)
			case strings.Contains(message, "tools/call"):
				at.note()
			}
			return nil, nil
		}, func(a *agent) {
			a.write(call(1))
			a.expect(answer(1))
			if len(at.all) != 2 || at.all[1]-at.all[0] != test.waits {
				t.Errorf("%+v: the stream and the call were requested at %v", test, at.all)
			}
		})
	}
}

// A stream of the session that ends is opened again, ever less often, and as late as the server wants.
func TestListenAgain(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		min  time.Duration // of the pauses
	}{
		"nothing": {"", 500 * time.Millisecond}, "retry": {"retry: 90000\n\n", 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var at atTime
			inTime(t, func(r *http.Request, _ string) (*http.Response, error) {
				if r.Method != http.MethodGet {
					return nil, nil
				}
				at.note()
				return response(200, "text/event-stream", test.body), nil
			}, func(a *agent) {
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := len(at.all); n < 30 || n > 130 {
					t.Errorf("the stream was opened %d times in an hour", n)
				}
				for i := range at.all[1:] {
					if pause := at.all[i+1] - at.all[i]; pause < test.min || pause > max(test.min, maxBackoff) {
						t.Errorf("pause %d is %v", i, pause)
					}
				}
			})
		})
	}
}

// A stream that can't be resumed is given up after some attempts; a server that makes progress is not.
func TestResumeIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		resume func(n int) (*http.Response, error)
		gets   int
		want   string
	}{
		"no connection": {func(int) (*http.Response, error) { return nil, errors.New("no route") }, maxResumes, "could not be resumed"},
		"no progress":   {func(int) (*http.Response, error) { return response(200, "text/event-stream", ""), nil }, maxResumes, "could not be resumed"},
		"bad gateway":   {func(int) (*http.Response, error) { return response(502, "", ""), nil }, maxResumes, "could not be resumed"},
		"not offered":   {func(int) (*http.Response, error) { return response(405, "", ""), nil }, 1, "does not resume it: 405"},
		"polling": {func(n int) (*http.Response, error) {
			if n == 50 {
				return response(200, "text/event-stream", event(answer(1))), nil
			}
			return response(200, "text/event-stream", fmt.Sprintf("id: %d\nretry: 1000\ndata:\n\n", n)), nil
		}, 50, ""},
	} {
		t.Run(name, func(t *testing.T) {
			gets, posts := 0, 0
			var a *agent
			inTime(t, func(r *http.Request, message string) (*http.Response, error) {
				switch {
				case strings.Contains(message, "tools/call"):
					posts++
					return response(200, "text/event-stream", "id: 0\ndata:\n\n"), nil
				case r.Header.Get(eventHeader) != "":
					gets++
					return test.resume(gets)
				}
				return nil, nil
			}, func(agent *agent) {
				a = agent
				a.write(call(1))
				got := <-a.lines
				if test.want == "" && got != answer(1) || !strings.Contains(got, test.want) {
					t.Errorf("the agent gets %s", got)
				}
				if gets != test.gets || posts != 1 {
					t.Errorf("%d requests and %d calls, want %d and 1", gets, posts, test.gets)
				}
			})
		})
	}
}

// A request that is idempotent, and no other, is sent again if nobody knows what has become of it.
func TestIdempotent(t *testing.T) {
	for name, test := range map[string]struct {
		respond func() (*http.Response, error)
		want    int // times that the call is sent
	}{
		"no response":    {func() (*http.Response, error) { return nil, errors.New("reset") }, 1 + maxRepeats},
		"no answer":      {func() (*http.Response, error) { return response(200, "text/event-stream", ""), nil }, 1 + maxRepeats},
		"half an answer": {func() (*http.Response, error) { return response(200, "text/event-stream", "data: {"), nil }, 1 + maxRepeats},
		"hostile":        {func() (*http.Response, error) { return response(200, "application/json", `[]`), nil }, 1},
		"an error":       {func() (*http.Response, error) { return response(500, "", ""), nil }, 1},
	} {
		for _, isIdempotent := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", isIdempotent), func(t *testing.T) {
				n := 0
				inTime(t, func(_ *http.Request, message string) (*http.Response, error) {
					if strings.Contains(message, "tools/call") {
						n++
						resp, err := test.respond()
						if err != nil {
							err = errors.Join(err, errUnknownFate) // the fake writes nothing
						}
						return resp, err
					}
					return nil, nil
				}, func(a *agent) {
					a.conn.server.Idempotent = func(_ []byte, e *wire.Envelope) bool { return isIdempotent && e.Method == "tools/call" }
					a.writeAside(call(1))
					a.expectError("1")
					want := test.want
					if !isIdempotent {
						want = 1
					}
					if n != want {
						t.Errorf("the call was sent %d times, want %d", n, want)
					}
					synctest.Wait()
				})
			})
		}
	}
}

// The next line waits for a notification to be accepted, and not forever. A call is waited for as long as
// the agent does.
func TestOrder(t *testing.T) {
	inTime(t, func(r *http.Request, message string) (*http.Response, error) {
		if strings.Contains(message, "progress") || strings.Contains(message, `"id":1,`) {
			return hanging(r)
		}
		return nil, nil
	}, func(a *agent) {
		start := time.Now()
		a.write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		if d := time.Since(start); d != orderTimeout {
			t.Errorf("the next line waits %v", d)
		}
		a.writeAside(call(1))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		a.nothing()
	})
}

// Write, which waits for the line before, ends with its context.
func TestWriteIsInterrupted(t *testing.T) {
	inTime(t, func(r *http.Request, message string) (*http.Response, error) {
		if strings.Contains(message, `"id":1,`) {
			return hanging(r)
		}
		return nil, nil
	}, func(a *agent) {
		a.write(call(1))
		ctx, cancel := context.WithCancelCause(a.t.Context())
		stop := errors.New("stop")
		go func() {
			time.Sleep(time.Second)
			cancel(stop)
		}()
		if err := a.conn.Write(ctx, []byte(call(2))); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}

// A server that does not answer the last request does not keep the connection.
func TestLeaveEnds(t *testing.T) {
	var start time.Time
	inTime(t, func(r *http.Request, _ string) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			start = time.Now()
			return hanging(r)
		}
		return nil, nil
	}, func(a *agent) {
		a.conn.Leave()
		a.conn.end()
		if d := time.Since(start); d != leaveTimeout {
			t.Errorf("it ends after %v", d)
		}
		if err := a.conn.Write(a.t.Context(), []byte(call(1))); !errors.Is(err, ErrLeft) {
			t.Errorf("a line is accepted after the end: %v", err)
		}
	})
}

// A server that opens a stream and does not say where messages go is not of 2024-11-05.
func TestEndpointTimeout(t *testing.T) {
	first := true
	inTime(t, func(r *http.Request, message string) (*http.Response, error) {
		switch {
		case first:
			first = !strings.Contains(message, "notifications")
			return nil, nil
		case r.Method == http.MethodPost:
			return response(405, "", ""), nil
		}
		resp := response(200, "text/event-stream", "")
		from, to := io.Pipe()
		context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
		resp.Body = from
		return resp, nil
	}, func(a *agent) {
		start := time.Now()
		a.writeAside(initialize)
		a.expectError("0", "405", "endpoint")
		if d := time.Since(start); d != endpointTimeout {
			t.Errorf("it is waited for %v", d)
		}
		synctest.Wait()
	})
}

// A server that takes the repeated handshake and does not complete it is gone after a while: the agent's
// lines wait meanwhile.
func TestHandshakeTimeout(t *testing.T) {
	for _, hangs := range []string{`"initialize"`, "notifications/initialized"} {
		t.Run(hangs, func(t *testing.T) {
			var renewed atomic.Bool
			inTime(t, func(r *http.Request, message string) (*http.Response, error) {
				if strings.Contains(message, `"id":2,`) {
					renewed.Store(true)
					return response(404, "", ""), nil
				}
				if renewed.Load() && strings.Contains(message, hangs) {
					return hanging(r)
				}
				return nil, nil
			}, func(a *agent) {
				a.write(call(1))
				a.expect(answer(1))
				start := time.Now()
				a.writeAside(call(2)) // the fake does not say when it is sent
				a.expectError("2")
				if err := a.conn.Write(a.t.Context(), []byte(call(3))); err == nil {
					t.Error("a line is accepted that goes nowhere")
				}
				if err := <-a.gone; !strings.Contains(err.Error(), "longer than 1m") || time.Since(start) != handshakeTimeout {
					t.Errorf("the server is gone after %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

// patient waits for a person before the first message after renewed is set, and clears it.
type patient struct{ renewed *atomic.Bool }

func (p patient) Authorize(r *http.Request) (func(int, http.Header) (bool, error), error) {
	if r.Method == http.MethodPost && p.renewed.CompareAndSwap(true, false) {
		select {
		case <-time.After(5 * time.Minute):
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	return func(int, http.Header) (bool, error) { return false, nil }, nil
}

func (patient) Close() {}

// A repeated handshake waits for a person as the first one does.
func TestHandshakeWaitsForLogin(t *testing.T) {
	for limit, isGone := range map[time.Duration]bool{10 * time.Minute: false, time.Minute: true} {
		var renewed atomic.Bool
		inTimeWith(t, Server{ID: "github", Authorizer: patient{&renewed}, LoginTime: limit}, func(r *http.Request, message string) (*http.Response, error) {
			if strings.Contains(message, `"id":2,`) {
				renewed.Store(true)
				return response(404, "", ""), nil
			}
			return nil, nil
		}, func(a *agent) {
			a.write(call(1))
			a.expect(answer(1))
			start := time.Now()
			a.writeAside(call(2))
			a.expectError("2")
			if isGone {
				if err := <-a.gone; !strings.Contains(err.Error(), "longer than 2m") {
					t.Errorf("gone: %v", err)
				}
				return
			}
			a.write(call(3))
			a.expect(answer(3))
			if waited := time.Since(start); waited < 5*time.Minute || waited > 6*time.Minute {
				t.Errorf("it waits %v for the login", waited)
			}
		})
	}
}

// Headers are sent once, however they are written.
func TestConfiguredHeaders(t *testing.T) {
	rec := record(streamable(nil))
	s := serve(t, rec, false)
	s.Address = strings.Replace(s.Address, "http://", "http://user:pass@", 1)
	for _, configured := range []http.Header{nil, {"authorization": {"Bearer b"}, "x-a": {"1", "2"}}} {
		s.Headers = configured
		a := connect(t, s)
		a.write(initialize)
		a.expect(welcome)
		all := rec.requests("POST")
		got, want, others := all[len(all)-1].header, "Basic dXNlcjpwYXNz", 0
		if configured != nil {
			want, others = "Bearer b", 2
		}
		if len(got["Authorization"]) != 1 || got.Get("Authorization") != want || len(got["X-A"]) != others {
			t.Errorf("the headers are %v", got)
		}
	}
}

// A request of which nothing was written, since the server had closed the connection meanwhile, is sent on
// another one, and one of which something was written is not.
func TestConnectionThatTheServerClosed(t *testing.T) {
	for name, test := range map[string]struct {
		reused, wrote bool
		want          string
		sent          int
	}{
		"closed while idle":  {true, false, answer(1), 2},
		"closed when in use": {true, true, "may have been executed", 1},
		"a new connection":   {false, false, "was not executed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int32
			inTime(t, func(r *http.Request, message string) (*http.Response, error) {
				if !strings.Contains(message, "tools/call") || sent.Add(1) > 1 {
					return nil, nil
				}
				trace := httptrace.ContextClientTrace(r.Context())
				trace.GotConn(httptrace.GotConnInfo{Reused: test.reused})
				if test.wrote {
					trace.WroteHeaderField("Host", nil)
				}
				return nil, errors.New("http: server closed idle connection")
			}, func(a *agent) {
				a.write(call(1))
				if got := a.await(); !strings.Contains(got, test.want) || int(sent.Load()) != test.sent {
					t.Errorf("got %s after %d requests, want %s after %d", got, sent.Load(), test.want, test.sent)
				}
			})
		})
	}
}
