package sharing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`
	list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// permitted plays what a shim submits, what it is told, and what it writes:
//
//	agent N LINE   submits LINE as N, as that of the agent; server N LINE likewise
//	forward N LINE N may be written as LINE; deny N; ask N
//	cancel N       takes N back
//	write LINE     must pass; forged LINE must not
func permitted(t *testing.T, script string) {
	t.Helper()
	v := newVerdicts()
	for i, step := range strings.Split(strings.TrimSpace(script), "\n") {
		verb, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
		var seq uint64
		line := rest
		if verb != "write" && verb != "forged" {
			number, after, _ := strings.Cut(rest, " ")
			fmt.Sscan(number, &seq)
			line = after
		}
		var err error
		switch verb {
		case "agent":
			err = v.submitted(seq, wire.FromAgent)
		case "server":
			err = v.submitted(seq, wire.FromServer)
		case "forward":
			v.verdict(gate.Verdict{Seq: seq, Move: gate.Forward, Line: []byte(line)})
		case "deny":
			v.verdict(gate.Verdict{Seq: seq, Move: gate.Deny})
		case "ask":
			v.verdict(gate.Verdict{Seq: seq, Move: gate.Ask})
		case "cancel":
			v.cancelled(seq)
		case "write":
			err = v.permit([]byte(line))
		case "forged":
			if err = v.permit([]byte(line)); errors.Is(err, gate.ErrForbidden) {
				err = nil
			} else {
				err = fmt.Errorf("passed: %v", err)
			}
		default:
			t.Fatalf("no such step: %s", step)
		}
		if err != nil {
			t.Errorf("%d: %s: %v", i+1, step, err)
		}
	}
}

func TestPermit(t *testing.T) {
	for name, script := range map[string]string{
		"what passes needs no verdict": `
			write ` + list + `
			write {"jsonrpc":"2.0","id":3,"method":"ping"}
			write {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
			write {"jsonrpc":"2.0","id":4,"result":{"roots":[]}}
			write {"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}`,
		"a call does": `
			forged ` + call + `
			agent 1 ` + call + `
			forged ` + call,
		"one verdict is good for one write": `
			agent 1 ` + call + `
			forward 1 ` + call + `
			write ` + call + `
			forged ` + call,
		"told twice it is still one": `
			agent 1 ` + call + `
			forward 1 ` + call + `
			forward 1 ` + call + `
			write ` + call + `
			forward 1 ` + call + `
			agent 1 ` + call + `
			forward 1 ` + call + `
			forged ` + call,
		"two verdicts on the same line are two": `
			agent 1 ` + call + `
			agent 2 ` + call + `
			forward 1 ` + call + `
			forward 2 ` + call + `
			write ` + call + `
			write ` + call + `
			forged ` + call,
		"in place of what was submitted": `
			agent 1 ` + call + `
			forward 1 ` + strings.Replace(call, "echo", "else", 1) + `
			forged ` + call + `
			write ` + strings.Replace(call, "echo", "else", 1),
		"a later word counts": `
			agent 1 ` + call + `
			forward 1 ` + call + `
			deny 1
			forged ` + call,
		"a question is no yes": `
			agent 1 ` + call + `
			ask 1
			forged ` + call + `
			forward 1 ` + call + `
			write ` + call,
		"what a server said is nothing an agent may write": `
			server 1 ` + call + `
			forward 1 ` + call + `
			forged ` + call,
		"other bytes": `
			agent 1 ` + call + `
			forward 1 ` + call + `
			forged ` + strings.Replace(call, ":1,", ": 1,", 1) + `
			write ` + call,
		"what no agent may write": `
			forged {"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}
			forged {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}
			forged {"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}
			forged {"jsonrpc":"2.0","id":1,"method":"acme/unknown"}
			forged {"jsonrpc":"2.0","method":"notifications/acme"}
			forged {"jsonrpc":"2.0","error":{"code":-1,"message":"of nothing"}}
			forged {"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required"}}
			forged {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}
			forged []
			forged `,
	} {
		t.Run(name, func(t *testing.T) { permitted(t, script) })
	}
	v := newVerdicts()
	if err := v.permit([]byte(`{"jsonrpc":"2.0","id":2,` + "\n" + `"method":"tools/list"}`)); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("two lines: %v", err)
	}
}

// A number that was an agent's stays one.
func TestSidesAreNotSwapped(t *testing.T) {
	v := newVerdicts()
	if err := errors.Join(v.submitted(1, wire.FromServer), v.submitted(1, wire.FromServer)); err != nil {
		t.Fatal(err)
	}
	if err := v.submitted(1, wire.FromAgent); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("the line of a server as that of an agent: %v", err)
	}
}

// What is held for long is written when it may be, however much was decided
// meanwhile, and what is kept is bounded.
func TestVerdictsAreBounded(t *testing.T) {
	v := newVerdicts()
	_ = v.submitted(1, wire.FromAgent)
	for seq := uint64(2); seq < 3*remembered; seq++ {
		_ = v.submitted(seq, wire.FromAgent)
		v.verdict(gate.Verdict{Seq: seq, Move: gate.Forward, Line: fmt.Appendf(nil, "%d", seq)})
	}
	if len(v.by) > remembered+1 || len(v.open) > remembered {
		t.Errorf("%d submissions and %d lines are kept", len(v.by), len(v.open))
	}
	v.verdict(gate.Verdict{Seq: 1, Move: gate.Forward, Line: []byte(call)})
	if err := v.permit([]byte(call)); err != nil {
		t.Error(err)
	}
	// What is taken back does not push out that a verdict was made use of, which the
	// gate tells again.
	for seq := uint64(3 * remembered); seq < 6*remembered; seq++ {
		_ = v.submitted(seq, wire.FromAgent)
		v.cancelled(seq)
	}
	if len(v.by) > 2*remembered {
		t.Errorf("%d submissions are kept", len(v.by))
	}
	_ = v.submitted(1, wire.FromAgent)
	v.verdict(gate.Verdict{Seq: 1, Move: gate.Forward, Line: []byte(call)})
	if err := v.permit([]byte(call)); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("a verdict is made use of twice: %v", err)
	}
}

// server is a server of one client, and the stream of a shim.
type server struct {
	joined chan Launch
	fails  error
	client Client

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	wrote   []string // by the client
	slow    bool
	resumed string
	left    bool
	reads   []uint64 // seqs on the stream
	acked   uint64
	gone    *Gone
}

func newServer() *server {
	s := &server{joined: make(chan Launch, 4)}
	s.changed.L = &s.mu
	return s
}

func (s *server) join(_ context.Context, l Launch, c Client) (Member, error) {
	if s.fails != nil {
		return nil, s.fails
	}
	s.client = c
	s.joined <- l
	return s, nil
}

func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

func (s *server) Write(_ context.Context, line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.slow {
		s.changed.Wait()
	}
	s.wrote = append(s.wrote, string(line))
	s.changed.Broadcast()
	return nil
}

func (s *server) Resume(initialize []byte) <-chan struct{} {
	s.do(func() { s.resumed = string(initialize) })
	made := make(chan struct{})
	close(made)
	return made
}

func (s *server) Leave()                    { s.do(func() { s.left = true }) }
func (s *server) Read(seq uint64, _ []byte) { s.do(func() { s.reads = append(s.reads, seq) }) }
func (s *server) Wrote(seq uint64)          { s.do(func() { s.acked = seq }) }
func (s *server) Gone(g Gone)               { s.do(func() { s.gone = &g }) }

// until waits until it is so.
func (s *server) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := false
	alarm := time.AfterFunc(time.Minute, func() { s.do(func() { late = true }) })
	defer alarm.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !so() && !late {
		s.changed.Wait()
	}
	if late {
		t.Fatalf("not within a minute: %s", what)
	}
}

func open(t *testing.T) (*server, *Book, *Way) {
	t.Helper()
	s := newServer()
	b := New(s.join, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	w, _ := b.Way("a", func() bool { return true })
	w.Open(Launch{Server: "x"}, nil, 0, s)
	<-s.joined
	return s, b, w
}

func TestWay(t *testing.T) {
	s, b, w := open(t)
	again := func(attachment string, shared func() bool) *Way {
		w, fresh := b.Way(attachment, shared)
		if fresh != (shared != nil) {
			t.Errorf("%s: fresh %v", attachment, fresh)
		}
		return w
	}
	if again("a", nil) != w || again("b", func() bool { return false }) != nil || again("b", nil) != nil {
		t.Error("what was said of an attachment does not hold")
	}
	for seq := range uint64(3) {
		if err := w.Write(seq+1, []byte(list)); err != nil {
			t.Fatal(err)
		}
	}
	s.until(t, "three lines are written and confirmed", func() bool { return len(s.wrote) == 3 && s.acked == 3 })
	if err := w.Write(3, []byte(call)); err != nil { // late, and over the stream before
		t.Error(err)
	}
	if err := w.Write(5, []byte(list)); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("a line too many: %v", err)
	}
	// The stream tears; what was not taken over comes again.
	for range 3 {
		s.client.Deliver([]byte(list))
	}
	w.Part(s)
	s.client.Deliver([]byte(list))
	if kept, wrote := w.Kept(); !kept || wrote != 3 {
		t.Errorf("kept %v, wrote %d", kept, wrote)
	}
	w.Open(Launch{}, nil, 2, s)
	s.until(t, "the third comes again, and the fourth", func() bool { return fmt.Sprint(s.reads) == "[1 2 3 3 4]" })
	b.Forget("a")
	s.until(t, "the place is given up", func() bool { return s.left })
}

// What nobody let through ends the way for good.
func TestForgedWrite(t *testing.T) {
	s, _, w := open(t)
	if err := w.Write(1, []byte(call)); !errors.Is(err, gate.ErrForbidden) {
		t.Fatalf("a call that nobody judged: %v", err)
	}
	s.until(t, "the way is over", func() bool { return s.gone != nil && s.left })
	_ = w.Submitted(gate.Submission{Seq: 1, Side: wire.FromAgent})
	w.Verdict(gate.Verdict{Seq: 1, Move: gate.Forward, Line: []byte(call)})
	if err := w.Write(1, []byte(call)); err != nil || len(s.wrote) > 0 {
		t.Errorf("after that: %v, the server has read %q", err, s.wrote)
	}
	s.gone = nil
	w.Open(Launch{}, nil, 0, s)
	if s.gone == nil {
		t.Error("a stream that comes later is not told")
	}
}

// An agent that does not read is given up, and until then gets no more than a
// window at once.
func TestSlowReader(t *testing.T) {
	s, _, w := open(t)
	line := bytes.Repeat([]byte("x"), 64<<10)
	n := 0
	for ; s.client.Deliver(line); n++ {
	}
	if want := unread / len(line); n != want {
		t.Errorf("%d lines were taken, want %d", n, want)
	}
	if want := Window / len(line); len(s.reads) != want {
		t.Errorf("%d lines are on their way, want %d", len(s.reads), want)
	}
	w.Took(1)
	if want := Window/len(line) + 1; len(s.reads) != want {
		t.Errorf("%d lines are on their way when one was taken over, want %d", len(s.reads), want)
	}
}

// A server that does not read makes its client wait, and nobody else.
func TestSlowServer(t *testing.T) {
	s, _, w := open(t)
	s.do(func() { s.slow = true })
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`)
	var err error
	seq := uint64(1)
	for ; err == nil && seq < 1000; seq++ {
		err = w.Write(seq, line)
	}
	if !errors.Is(err, gate.ErrTooLarge) || seq < Window/(64<<10) {
		t.Errorf("after %d lines: %v", seq, err)
	}
	s.do(func() { s.slow = false })
}

func TestNoServer(t *testing.T) {
	s := newServer()
	s.fails = fmt.Errorf("%w: no such program", ErrNotStarted)
	b := New(s.join, slog.New(slog.DiscardHandler))
	defer b.Close()
	w, _ := b.Way("a", func() bool { return true })
	w.Open(Launch{}, nil, 0, s)
	s.until(t, "the shim knows", func() bool { return s.gone != nil })
	if s.gone.Started || !strings.Contains(s.gone.Reason, "no such program") {
		t.Errorf("%+v", *s.gone)
	}
}

// A client of an earlier daemon's server shakes hands before all else.
func TestResume(t *testing.T) {
	s := newServer()
	b := New(s.join, slog.New(slog.DiscardHandler))
	w, _ := b.Way("a", func() bool { return true })
	w.Open(Launch{}, []byte("hello"), 0, s)
	if err := w.Write(1, []byte(list)); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the line is written", func() bool { return len(s.wrote) == 1 })
	if s.resumed != "hello" {
		t.Errorf("resumed with %q", s.resumed)
	}
	b.Close()
	if !s.left {
		t.Error("the place is kept when the book is closed")
	}
}
