package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent is the client of a connection, and what tests do with it.
type agent struct {
	t     *testing.T
	conn  *Conn
	lines chan string
	gone  chan error
	log   *bytes.Buffer // what was logged
}

func (a *agent) DeliverWait(ctx context.Context, line []byte) error {
	select {
	case a.lines <- string(line):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *agent) Gone(err error) { a.gone <- err }

// lockedWriter makes a buffer safe for concurrent use.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

func newAgent(t *testing.T) *agent {
	return &agent{t: t, lines: make(chan string, 1024), gone: make(chan error, 4), log: &bytes.Buffer{}}
}

func (a *agent) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{w: a.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// connect opens a connection through a network of its own, which the test closes.
func connect(t *testing.T, s Server) *agent {
	t.Helper()
	a := newAgent(t)
	n := NewNetwork(net.DefaultResolver, a.logger())
	a.open(n, s)
	t.Cleanup(n.Close)
	t.Cleanup(a.conn.Leave)
	return a
}

func (a *agent) open(n *Network, s Server) {
	a.t.Helper()
	if s.ID == "" {
		s.ID = "github"
	}
	conn, err := n.Open(s, a)
	if err != nil {
		a.t.Fatal(err)
	}
	a.conn = conn
}

// write writes lines as the agent.
func (a *agent) write(lines ...string) {
	a.t.Helper()
	for _, line := range lines {
		if err := a.conn.Write(a.t.Context(), []byte(line)); err != nil {
			a.t.Fatalf("write %.200s: %v", line, err)
		}
	}
}

// writeAside is write in a goroutine, for a line that takes long to be sent.
func (a *agent) writeAside(line string) {
	go func() {
		if err := a.conn.Write(a.t.Context(), []byte(line)); err != nil && a.conn.ctx.Err() == nil {
			a.t.Errorf("write %.200s: %v", line, err)
		}
	}()
}

// await returns the next line that the agent gets.
func (a *agent) await() string {
	a.t.Helper()
	select {
	case line := <-a.lines:
		return line
	case err := <-a.gone:
		a.t.Fatalf("the server is gone: %v", err)
	case <-time.After(patience):
		a.t.Fatal("the agent gets nothing")
	}
	return ""
}

// expect checks the next lines that the agent gets.
func (a *agent) expect(want ...string) {
	a.t.Helper()
	for _, want := range want {
		if got := a.await(); got != want {
			a.t.Errorf("the agent gets\n%.400s, want\n%.400s", got, want)
		}
	}
}

// expectError checks that the next line is an error of ours for the request with the id, and returns its
// text.
func (a *agent) expectError(id string, parts ...string) string {
	a.t.Helper()
	line := a.await()
	var e struct {
		ID    json.RawMessage
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil || string(e.ID) != id || e.Error.Code != -31012 {
		a.t.Errorf("the agent gets %s, want an error -31012 for %s", line, id)
	}
	for _, part := range parts {
		if !strings.Contains(e.Error.Message, part) {
			a.t.Errorf("the error is %q, want %q in it", e.Error.Message, part)
		}
	}
	return e.Error.Message
}

// nothing checks that the agent has got no line.
func (a *agent) nothing() {
	a.t.Helper()
	select {
	case line := <-a.lines:
		a.t.Errorf("the agent gets %.200s", line)
	default:
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	welcome     = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	note        = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	meta        = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

func call(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"n": %[1]d.0}}}`, id)
}

func modernCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"name":"echo","arguments":{"n":%[1]d}}}`, id, meta)
}

func answer(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[ ]}}`, id)
}

// seen is a request that a server has got.
type seen struct {
	method, body string
	header       http.Header
	query        string
}

func (s seen) String() string { return s.method + " " + s.body }

// recorder is a server that remembers what it was sent.
type recorder struct {
	mu   sync.Mutex
	all  []seen
	next http.HandlerFunc
}

// handlerFunc handles a request whose body is the message.
type handlerFunc func(w http.ResponseWriter, r *http.Request, message string)

func record(h handlerFunc) *recorder {
	rec := &recorder{}
	rec.next = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		rec.all = append(rec.all, seen{r.Method, string(body), r.Header.Clone(), r.URL.RawQuery})
		rec.mu.Unlock()
		h(w, r, string(body))
	}
	return rec
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) { rec.next(w, r) }

// requests returns the requests so far that have a part of their text, such as "POST" or an id.
func (rec *recorder) requests(part string) []seen {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(rec.all), func(s seen) bool { return !strings.Contains(s.String(), part) })
}

// awaitRequest waits for n requests that have a part.
func (rec *recorder) await(t *testing.T, n int, part string) []seen {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if all := rec.requests(part); len(all) >= n {
			return all
		}
	}
	t.Fatalf("the server got %v, want %d with %s", rec.requests(""), n, part)
	return nil
}

func idOf(message string) string {
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal([]byte(message), &m)
	return string(m.ID)
}

func writeJSON(w http.ResponseWriter, line string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = io.WriteString(w, line)
}

// stream begins a stream of events, and returns what sends text on it.
func writeStream(w http.ResponseWriter) func(text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	return func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
}

func event(lines ...string) string {
	return "data: " + strings.Join(lines, "\ndata: ") + "\n\n"
}

// streamable is a plain server of Streamable HTTP: it makes sessions, answers calls with JSON, and offers
// no stream of its own. Handlers by the method of the HTTP request or by a part of the message come first.
func streamable(special map[string]handlerFunc) handlerFunc {
	sessions := 0
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, message string) {
		for part, h := range special {
			if strings.Contains(r.Method+" "+message, part) {
				h(w, r, message)
				return
			}
		}
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case strings.Contains(message, `"initialize"`):
			mu.Lock()
			sessions++
			w.Header().Set(sessionHeader, fmt.Sprintf("session-%d", sessions))
			mu.Unlock()
			writeJSON(w, welcome)
		case idOf(message) == "" || !strings.Contains(message, `"method"`):
			w.WriteHeader(http.StatusAccepted)
		default:
			writeJSON(w, strings.Replace(answer(0), `:0`, ":"+idOf(message), 1))
		}
	}
}

// serve runs h as a server, with TLS and HTTP/2 or without, and returns what reaches it.
func serve(t *testing.T, h http.Handler, secure bool) Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() { stop(t, s) })
	server := Server{Address: s.URL + "/mcp?key=secret", Policy: Named}
	if secure {
		server.CAFile = writePEM(t, s.Certificate().Raw)
	}
	return server
}

// patience is how long a test waits for what is about to happen: only a test that fails waits that
// long, also on a busy machine.
const patience = time.Minute

// stop closes a server, and does not wait forever for a handler that waits for a test that has failed.
func stop(t *testing.T, s *httptest.Server) {
	t.Helper()
	closed := make(chan struct{})
	go func() { // ends when the last handler has returned
		defer close(closed)
		s.CloseClientConnections()
		s.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("a handler of the server does not return")
	}
}

// next returns what comes next from a channel, and ends the test if nothing does.
func next[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatal("what the test waits for does not come")
	}
	return value
}

// shakeHands makes the agent's handshake.
func (a *agent) shakeHands() {
	a.t.Helper()
	a.write(initialize)
	a.expect(welcome)
	a.write(initialized)
}

// answers resolves each name to the next of its answers, and the last one forever.
type answers struct {
	mu sync.Mutex
	of map[string][]string
	n  int
}

func (r *answers) LookupNetIP(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	all := r.of[host]
	if len(all) == 0 {
		return nil, fmt.Errorf("no such host")
	}
	if len(all) > 1 {
		r.of[host] = all[1:]
	}
	for _, text := range strings.Fields(all[0]) {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}
