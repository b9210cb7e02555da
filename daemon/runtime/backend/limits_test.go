package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueue(t *testing.T) {
	line := []byte("0123456789")
	for _, test := range []struct {
		name  string
		size  int
		holds int
	}{
		{"lines", 1, mostLines},
		{"bytes", 1 << 20, 16},
		{"one that is long", 20 << 20, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q Queue
			n := 0
			for big := make([]byte, test.size); q.Deliver(big) && n < 2*mostLines; {
				n++
			}
			if n != test.holds {
				t.Errorf("it holds %d lines, want %d", n, test.holds)
			}
			for range n {
				if got, err := q.Next(t.Context()); err != nil || len(got) != test.size {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			q.Gone(ErrStopped) // it has already ended
			if _, err := q.Next(t.Context()); !errors.Is(err, ErrSlow) {
				t.Errorf("at the end: %v, want ErrSlow", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		go func() {
			time.Sleep(time.Second)
			q.Deliver(line)
			line[0] = 'x' // the line belongs to the test again
			q.Gone(ErrDisagrees)
		}()
		if got, err := q.Next(t.Context()); string(got) != "0123456789" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := q.Next(t.Context()); !errors.Is(err, ErrDisagrees) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := new(Queue).Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestShared(t *testing.T) {
	got := Shared([]string{"B=2", "A=1", "A=3", "=x", "x", "TERM=dumb", "THOUGHTGATE_SESSION=s", "PWD=/x", "TMUX=1", "PATH=/bin"})
	if want := []string{"A=1", "B=2", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	spec := Spec{Server: "s", Launch: "l", Command: []string{"a", "b"}, Cwd: "/", Env: []string{"A=1"}}
	key := spec.key()
	for name, change := range map[string]func(*Spec){
		"server": func(s *Spec) { s.Server = "t" }, "launch": func(s *Spec) { s.Launch = "m" },
		"executable": func(s *Spec) { s.Executable = "/a" }, "directory": func(s *Spec) { s.Cwd = "/x" },
		"environment": func(s *Spec) { s.Env = []string{"A=2"} }, "command": func(s *Spec) { s.Command = []string{"a", "b", "A=1"}; s.Env = nil },
	} {
		other := spec
		change(&other)
		if other.key() == key {
			t.Errorf("another %s, and the process is shared", name)
		}
	}
}

// The open requests of one client are bounded, including cancelled ones, and other clients are not
// affected.
func TestOpenRequestsAreBounded(t *testing.T) {
	keep(t, Options{}, func(h *fixture) {
		tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
		tr.hello("", "A", nil)
		tr.hello("", "B", nil)
		for n := range maxOpenRequests {
			tr.writes("", "A", expand(fmt.Sprintf("%d tools/list", n)))
			if n%2 == 0 {
				tr.writes("", "A", expand(fmt.Sprintf(`notifications/cancelled {"requestId":%d}`, n)))
			}
		}
		tr.step("one too many", "A> -1 tools/list")
		tr.step("is refused", "A< -1 ! -31010 more than 1024 requests are open")
		s := tr.server(1)
		s.mu.Lock()
		s.lines = nil
		s.mu.Unlock()
		tr.step("B has room", "B> 1 tools/list")
		tr.step("B has room", "s< 1026 tools/list")
		time.Sleep(6 * time.Second)
		tr.step("what was cancelled counts no more", "A> -2 tools/list")
		tr.step("what was cancelled counts no more", "s< 1027 tools/list")
	})
}

// Waiting requests are bounded, and cancelled requests that are never answered are forgotten.
func TestWhatIsKeptIsBounded(t *testing.T) {
	keep(t, Options{}, func(h *fixture) {
		tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
		tr.hello("", "A", []string{"sampling"})
		tr.hello("", "B", []string{"sampling"})
		tr.step("A has the turn", `A> 1 tools/call {"name":"a"}`)
		big := `{"name":"a","arguments":{"x":"` + strings.Repeat("x", 9<<20) + `"}}`
		tr.step("B waits", `B> 1 tools/call `+big)
		tr.writes("", "B", expand(`2 tools/call `+big))
		tr.step("too much", "B< 2 ! -31010 too much data waits for the shared MCP server")
		tr.step("no longer", `B> notifications/cancelled {"requestId":1}`)
		in := h.all()[0]
		for range 5 {
			for n := range maxOpenRequests {
				tr.writes("", "B", expand(fmt.Sprintf("%d tools/list", n)))
				tr.writes("", "B", expand(fmt.Sprintf(`notifications/cancelled {"requestId":%d}`, n)))
			}
			time.Sleep(6 * time.Second)
		}
		synctest.Wait()
		in.mu.Lock()
		defer in.mu.Unlock()
		if len(in.open) > maxOpenRequests+2 || len(in.cancelled) > maxOpenRequests || len(in.tokens) > 0 || len(in.busy) > 1 {
			t.Errorf("kept: %d open, %d cancelled, %d tokens, %d busy", len(in.open), len(in.cancelled), len(in.tokens), len(in.busy))
		}
	})
}

// A server that does not read blocks its clients, and a client can leave meanwhile.
func TestServerThatDoesNotRead(t *testing.T) {
	keep(t, Options{}, func(h *fixture) {
		tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
		tr.hello("", "A", nil)
		tr.hello("", "B", nil)
		s := tr.server(1)
		stuck := make(chan struct{})
		s.mu.Lock()
		s.read = func(string) { <-stuck }
		s.mu.Unlock()
		tr.writes("", "A", expand(`0 ping`))
		line := []byte(expand(`1 tools/call {"name":"` + strings.Repeat("x", 5<<20) + `"}`))
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
		defer cancel()
		if err := tr.members["A"].Write(ctx, line); err != nil {
			t.Error(err)
		}
		if err := tr.members["B"].Write(ctx, line); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("a second line: %v", err)
		}
		tr.members["B"].Leave()
		tr.members["A"].Leave()
		if err := tr.members["A"].Write(h.t.Context(), []byte(expand(`2 ping`))); err == nil {
			t.Error("who has left can write")
		}
		close(stuck)
	})
}

// A server that makes the pool answer and does not read the answers is not read either.
func TestServerThatDoesNotReadAnswers(t *testing.T) {
	keep(t, Options{}, func(h *fixture) {
		tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
		tr.hello("", "A", nil)
		s := tr.server(1)
		stuck := make(chan struct{})
		s.mu.Lock()
		s.read = func(string) { <-stuck }
		s.mu.Unlock()
		said := make(chan int)
		go func() {
			n := 0
			for ; n < 10000 && s.say(expand(fmt.Sprintf(`"%01000d" ping`, n))) == nil; n++ {
			}
			said <- n
		}()
		synctest.Wait()
		s.exit()
		if n := <-said; n > 2*mostOwed/1000 {
			t.Errorf("%d pings were read and kept", n)
		}
		close(stuck)
	})
}

func TestResume(t *testing.T) {
	hi := []byte(`{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"R"}}}`)
	for _, test := range []struct{ name, steps string }{
		{"with a new process", `
			resume R
			s< {"jsonrpc":"2.0","id":1,"method":"initialize",...
			s> 1 = {"protocolVersion":"2025-11-25","capabilities":{}}
			s< notifications/initialized
			R> "mine" tools/list
			s< 2 tools/list
			s> notifications/tools/list_changed
			R< notifications/tools/list_changed
			s> 2 = {}
			R< "mine" = {}`},
		{"with one that others have", `
			hello A
			resume R
			R> 1 tools/list
			s< 2 tools/list`},
		{"with others that come back as well", `
			resume R
			resume S
			S> 0 tools/list
			s< {"jsonrpc":"2.0","id":1,"method":"initialize",...
			s> 1 = {"protocolVersion":"2025-11-25","capabilities":{}}
			s< notifications/initialized
			s< 2 tools/list
			S> 1 tools/list
			s< 3 tools/list`},
		{"with a server that refuses", `
			resume R
			s< {"jsonrpc":"2.0","id":1,"method":"initialize",...
			s> 1 ! -32602 no
			gone R it answers the handshake with an error`},
		{"with a server that ends", `
			resume R
			s< {"jsonrpc":"2.0","id":1,"method":"initialize",...
			crash
			s< {"jsonrpc":"2.0","id":2,"method":"initialize",...
			s> 2 = {"protocolVersion":"2025-11-25","capabilities":{}}
			s< notifications/initialized`},
		{"having had another handshake", `
			hello A roots
			resume R
			wait 1s
			processes 2
			s2< {"jsonrpc":"2.0","id":2,"method":"initialize",...`},
	} {
		t.Run(test.name, func(t *testing.T) {
			keep(t, Options{}, func(h *fixture) {
				tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
				for step := range strings.Lines(test.steps) {
					step = strings.TrimSpace(step)
					if name, ok := strings.CutPrefix(step, "resume "); ok {
						made := tr.client(name).Resume(hi)
						defer func() {
							if over := closed(made); over != (tr.members[name].hello != "") {
								t.Errorf("%s: over is %v", step, over)
							}
						}()
					} else if step != "" {
						tr.step(step, step)
					}
				}
				tr.finish()
			})
		})
	}
	keep(t, Options{}, func(h *fixture) {
		c := &shelf{room: -1}
		_ = h.join(c).Resume([]byte(`{"jsonrpc":"2.0","method":"x"}`))
		synctest.Wait()
		if !errors.Is(c.ended(), ErrDisagrees) {
			t.Errorf("without a handshake: %v", c.ended())
		}
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
