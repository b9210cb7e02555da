package inbox

import (
	"strings"
	"testing"

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

// Without a usable terminal, watch says what to do instead.
func TestWatchNeedsATerminal(t *testing.T) {
	for _, test := range []struct {
		name, term string
		pipe       bool
	}{{"a pipe", "xterm", true}, {"a terminal that can do nothing", "dumb", false}, {"no TERM", "", false}} {
		c := newConsole("")
		c.Env["TERM"] = test.term
		if test.pipe {
			c.Pipe()
		}
		if code := c.Run(t, "approvals", "watch"); code != 1 || !strings.Contains(c.Err.String(), "tgctl approvals\n") {
			t.Errorf("%s: exit %d: %s", test.name, code, c.Err.String())
		}
	}
}
