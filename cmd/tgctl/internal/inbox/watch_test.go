package inbox

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/thoughtgate/thoughtgated/client/inbox"
)

// The question that watch should begin with is selected when it arrives. Until then the first
// one is selected.
func TestWatchBeginsWith(t *testing.T) {
	s := newScreen(80, 24)
	s.wanted = "A-3"
	s.say(inbox.Event{Kind: inbox.Connected})
	for i, want := range []string{"A-2", "A-3", "A-3"} {
		s.ask(openQuestions()[i])
		if s.selected != want {
			t.Errorf("chosen is %q after %d questions, want %s", s.selected, i+1, want)
		}
	}
	s.keys("a") // not yet: the selection has just moved by itself
	if got := s.decisions(); s.detail != nil || len(got) > 0 {
		t.Errorf("answers %q", got)
	}
}

// Without a terminal, watch says what to do instead.
func TestWatchNeedsATerminal(t *testing.T) {
	c := newConsole("")
	if code := c.Pipe().Run(t, "approvals", "watch"); code != 1 || !strings.Contains(c.Err.String(), "tgctl approvals\n") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// lockedBuffer keeps what was written. It may be used by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Where nothing can be drawn, or on request, questions are lines in the order in which they are read. What
// was not printed in full is not approved, and what was approved is what was printed.
//
//gotest:race it reads questions and lines at the same time
func TestPlainQueue(t *testing.T) {
	for _, term := range []string{"dumb", "", "xterm"} {
		f, c := consoleWithQuestions(t)
		c.Env["TERM"] = term
		args := []string{"approvals", "watch"}
		if term == "xterm" {
			args = append(args, "--plain")
		}
		in, typed := io.Pipe()
		c.App.In = in
		var out lockedBuffer
		c.App.Out, c.App.Err = &out, &out
		done := make(chan int, 1)
		go func() { done <- c.Execute(t.Context(), args...) }()
		sees := func(texts ...string) {
			t.Helper()
			for _, text := range texts {
				deadline := time.Now().Add(time.Minute)
				for !strings.Contains(out.String(), text) {
					if time.Now().After(deadline) {
						t.Fatalf("TERM=%s: never printed %q:\n%s", term, text, out.String())
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		}
		types := func(line string) { fmt.Fprintln(typed, line) }
		sees("A-2 waits, 8 min left: create_issue on github for claude-code", "A-10 waits")
		types("approve A-3")
		sees("A-3 was not printed in full yet. Type: show A-3")
		types("show a-3")
		sees("forwards exactly this call to filesystem, once", `two \u{202e} three`, "No approved call")
		types("approve A-3")
		sees("approved A-3: write_file on filesystem", "A-3 approved by you")
		types("deny A-10 not that one")
		sees("denied A-10")
		types("what")
		sees("show ID")
		types("quit")
		if code := <-done; code != 0 {
			t.Errorf("exit %d:\n%s", code, out.String())
		}
		if strings.ContainsAny(ansi.Strip(out.String()), "\x1b\u202e\r") || term != "xterm" && strings.Contains(out.String(), "\x1b") {
			t.Errorf("TERM=%s: printed what a terminal obeys: %q", term, out.String())
		}
		var got []string
		for _, d := range f.Decisions {
			got = append(got, fmt.Sprintf("%s %s %s", d.GetAnswer(), d.GetId(), d.GetNote()))
		}
		if want := []string{"ANSWER_APPROVE A-3 ", "ANSWER_DENY A-10 not that one"}; !slices.Equal(got, want) {
			t.Errorf("answers %q, want %q", got, want)
		}
	}
}
