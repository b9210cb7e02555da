// Package behind puts servers of tests behind addresses: an HTTP server in front of a program that
// speaks MCP on pipes, and sessions whose tg-shim speaks to it.
package behind

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Session opens a session as `tgctl wrap` does, with servers behind addresses, by their names. It
// returns what tg-shim needs in its environment. The session ends with the test. It must be opened
// before any tg-shim is started: whoever has started one is an agent, which may open none.
func Session(tb testing.TB, fixture *rig.Fixture, addresses map[string]string) (env []string) {
	tb.Helper()
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	spec := &pb.SessionSpec{Id: hex.EncodeToString(id), Agent: "custom", Command: []string{"agent"}, Project: fixture.Path("work")}
	for name, address := range addresses {
		spec.Remotes = append(spec.Remotes, &pb.RemoteServer{Server: name, Address: address})
	}
	ctx, cancel := context.WithTimeout(context.Background(), rig.Timeout)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(fixture.Path("run/thoughtgate/control.sock")))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := c.OpenSession(ctx, spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_, _ = s.Close(context.Background()) // a test may have ended the daemon
		c.Close()
	})
	return []string{"THOUGHTGATE_SESSION=" + spec.Id}
}

// Form is how a server speaks HTTP.
type Form string

// JSON and Events are servers of Streamable HTTP, which answer a request with one message or with a
// stream of events. They say on a stream for other messages what is no answer: Events only if no request
// is open. Old is a server of 2024-11-05, which says everything on one stream.
const (
	JSON   Form = "JSON"
	Events Form = "events"
	Old    Form = "2024-11-05"
)

// Front is an HTTP server in front of a server on pipes. It understands as little as it can of what it
// carries: the bytes of a line are an event, or the body of a response. The zero value but for Form is
// ready, and every request to it waits until Start.
type Front struct {
	Form Form

	in     io.WriteCloser
	ready  chan struct{}
	made   sync.Once
	copied atomic.Int64

	mu       sync.Mutex // guards the fields below
	open     []*response
	stream   *response // for what answers no request
	streamed chan struct{}
	isLegacy bool
	gone     bool
}

// response is a response that is being written.
type response struct {
	id   string // raw, of the request that it answers
	done chan struct{}

	mu     sync.Mutex // guards the fields below
	w      http.ResponseWriter
	begun  bool
	closed bool
	whole  bool // it ended as it should
}

func (f *Front) make() {
	f.made.Do(func() { f.ready, f.streamed = make(chan struct{}), make(chan struct{}) })
}

// Start starts the server on pipes. stop ends it, and returns when it has ended.
func (f *Front) Start(command []string) (stop func(), err error) {
	f.make()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f.in = in
	close(f.ready)
	ended := make(chan struct{})
	go func() { // ends with the program
		defer close(ended)
		f.copy(bufio.NewReaderSize(out, Seen))
		_ = cmd.Wait() // the test says how it ends
	}()
	return func() {
		in.Close()
		<-ended
	}, nil
}

// ServeHTTP serves the client of the server.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.make()
	select {
	case <-f.ready:
	case <-r.Context().Done():
		return
	}
	body, err := io.ReadAll(r.Body)
	f.mu.Lock()
	gone := f.gone
	f.mu.Unlock()
	if err != nil || gone {
		panic(http.ErrAbortHandler)
	}
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodPost && (f.Form != Old || r.URL.Query().Has("messages")):
		f.post(w, r, body)
	case r.Method == http.MethodGet:
		f.listen(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// post takes one message of the client.
func (f *Front) post(w http.ResponseWriter, r *http.Request, body []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	isRequest := json.Unmarshal(body, &m) == nil && m.ID != nil && m.Method != ""
	re := &response{w: w, id: string(m.ID), done: make(chan struct{})}
	f.mu.Lock()
	if isRequest && f.Form != Old {
		f.open = append(f.open, re)
	}
	if m.Method == "initialize" {
		f.isLegacy = true
		w.Header().Set("Mcp-Session-Id", "session")
	}
	_, _ = f.in.Write(append(body, '\n')) // if the server is gone, its client is told
	f.mu.Unlock()
	if !isRequest || f.Form == Old {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	re.wait(r)
	f.mu.Lock()
	f.open = slices.DeleteFunc(f.open, func(other *response) bool { return other == re })
	f.mu.Unlock()
	re.finish()
}

// listen opens the stream for what answers no request, or in 2024-11-05 for everything.
func (f *Front) listen(w http.ResponseWriter, r *http.Request) {
	re := &response{w: w, done: make(chan struct{})}
	w.Header().Set("Content-Type", "text/event-stream")
	if f.Form == Old {
		_, _ = io.WriteString(w, "event: endpoint\ndata: "+r.URL.Path+"?messages\n\n")
	}
	_ = http.NewResponseController(w).Flush()
	f.mu.Lock()
	if f.stream != nil {
		f.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	f.stream = re
	close(f.streamed)
	f.mu.Unlock()
	re.wait(r)
	re.finish()
}

// wait waits until a response is complete or its client has gone.
func (re *response) wait(r *http.Request) {
	select {
	case <-re.done:
	case <-r.Context().Done():
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	re.closed = true
}

// finish ends the handler of a response.
func (re *response) finish() {
	if !re.whole {
		panic(http.ErrAbortHandler)
	}
}

// write writes a part of a line to a response, if it still has a client.
func (re *response) write(form Form, part []byte, begins bool) {
	re.mu.Lock()
	defer re.mu.Unlock()
	if re.closed {
		return
	}
	if !re.begun {
		re.begun = true
		kind := "text/event-stream"
		if form == JSON && re.id != "" {
			kind = "application/json"
		}
		re.w.Header().Set("Content-Type", kind)
	}
	isEvent := form != JSON || re.id == ""
	if isEvent && begins {
		_, _ = io.WriteString(re.w, "data: ")
	}
	_, _ = re.w.Write(part)
	if isEvent && bytes.HasSuffix(part, []byte("\n")) {
		_, _ = io.WriteString(re.w, "\n")
	}
	_ = http.NewResponseController(re.w).Flush()
}

// complete has the handler of a response return.
func (re *response) complete(whole bool) {
	re.mu.Lock()
	defer re.mu.Unlock()
	if !re.closed {
		re.closed, re.whole = true, whole
		close(re.done)
	}
}

// Copied returns how many bytes of the server have been given to responses, or to none.
func (f *Front) Copied() int64 { return f.copied.Load() }

// Seen is how many bytes of a line tell to which response it belongs.
const Seen = 64 << 10

// copy carries each line of the server to a response, as it arrives.
func (f *Front) copy(out *bufio.Reader) {
	var to *response
	var line []byte
	for begins := true; ; {
		part, err := out.ReadSlice('\n')
		if len(part) > 0 {
			if begins {
				to, line = f.receiver(part), nil
			}
			f.copied.Add(int64(len(part))) // before its client can have it
			if to != nil {
				to.write(f.Form, part, begins)
			}
			if line = append(line, part...); len(line) > 1<<20 {
				line = line[:0] // long enough to be no answer of a test
			}
			begins = bytes.HasSuffix(part, []byte("\n"))
		}
		ended := err != nil && !errors.Is(err, bufio.ErrBufferFull)
		if ended && !begins && to != nil {
			to.write(f.Form, []byte("\n"), false) // the last line has no end
		}
		if to != nil && to.id != "" && (begins || ended) && (f.Form == JSON || answers(line, to.id)) {
			f.remove(to)
			to.complete(true)
		}
		if ended {
			f.end(to)
			return
		}
	}
}

func (f *Front) remove(re *response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(f.open, func(other *response) bool { return other == re })
}

// end aborts all responses: the server has ended. The last one may be complete.
func (f *Front) end(last *response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	for _, re := range append(f.open, f.stream) {
		if re != nil {
			re.complete(re == last)
		}
	}
}

var (
	idMember     = regexp.MustCompile(`"id"\s*:\s*("(?:[^"\\]|\\.)*"|[-0-9.eE+]+)`)
	answerMember = regexp.MustCompile(`^\s*(?:\{"jsonrpc"|\[|\{.*"(?:result|error)"\s*:)`)
)

// sameID reports whether two raw ids are one.
func sameID(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
}

// answers reports whether line is the answer to the request with that id.
func answers(line []byte, id string) bool {
	var m struct{ ID, Result, Error json.RawMessage }
	return json.Unmarshal(line, &m) == nil && sameID(string(m.ID), id) && (m.Result != nil || m.Error != nil)
}

// receiver returns the response to which a line belongs that begins with start; nil if the server has
// no way to say it. What looks like an answer to an open request is in the response to that.
func (f *Front) receiver(start []byte) *response {
	f.mu.Lock()
	if f.Form != Old && answerMember.Match(start) {
		for _, m := range idMember.FindAllSubmatch(start, -1) {
			for _, re := range f.open {
				if sameID(re.id, string(m[1])) {
					f.mu.Unlock()
					return re
				}
			}
		}
	}
	if n := len(f.open); n > 0 && f.Form == Events {
		defer f.mu.Unlock()
		return f.open[n-1]
	}
	isLegacy, streamed := f.isLegacy || f.Form == Old, f.streamed
	f.mu.Unlock()
	if !isLegacy {
		return nil // nothing was asked
	}
	select {
	case <-streamed:
	case <-time.After(rig.Timeout):
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stream
}
