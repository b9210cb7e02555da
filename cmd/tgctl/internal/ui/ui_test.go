package ui

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// On a terminal messages are wrapped between words. In a pipe a line stays one line, so that it
// can be searched for.
func TestTalkFitsTheTerminal(t *testing.T) {
	long := "thoughtgated is not running: there is no socket at /run/user/1000/thoughtgate/control.sock;\n  start it"
	for _, test := range []struct {
		columns int
		want    string
	}{
		{0, long + "\n"},
		{40, "thoughtgated is not running: there is no\nsocket at\n/run/user/1000/thoughtgate/control.sock;\n  start it\n"},
	} {
		var out strings.Builder
		a := &App{Err: &out, ErrTerminal: true, ErrColumns: test.columns}
		a.PrintMessage("%s", long)
		if got := out.String(); got != test.want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", test.columns, got, test.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for _, test := range []struct {
		line    string
		column  int
		columns int
		want    string
	}{
		{"action: aprove", 9, 80, "     7 | action: aprove\n       |         ^\n"},
		{"action:", 8, 80, "     7 | action:\n       |        ^\n"}, // past the end
		{"a", 99, 80, "     7 | a\n       |  ^\n"},
		{"a", 0, 80, "     7 | a\n       | ^\n"},
		{"日本: x", 5, 80, "     7 | 日本: x\n       |       ^\n"},
		{"\u202e: x", 4, 0, "     7 | \\u{202e}: x\n       |           ^\n"},
		{"", 1, 80, "     7 | \n       | ^\n"},
	} {
		if got := excerpt(test.line, 7, test.column, test.columns); got != test.want {
			t.Errorf("excerpt(%q, %d):\n%s\nwant:\n%s", test.line, test.column, got, test.want)
		}
	}
	long := excerpt(strings.Repeat("0123456789", 30), 7, 151, 60)
	for line := range strings.SplitSeq(strings.TrimSpace(long), "\n") {
		if display.Width(display.Safe(line)) > 60 {
			t.Errorf("%d columns: %s", display.Width(display.Safe(line)), line)
		}
	}
	top, bottom, _ := strings.Cut(long, "\n")
	mark := display.Width(display.Safe(strings.TrimRight(bottom, "^\n")))
	if at := []rune(top)[mark]; at != '0' {
		t.Errorf("the mark stands under %q:\n%s", at, long)
	}
}

func TestArgumentsOf(t *testing.T) {
	for _, test := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"x","arguments":{"a":1}}`, `{"a":1}`},
		{"tools/call", `{"name":"x"}`, ``},
		{"tools/call", `{"name":"x","arguments":{"a":1},"task":{}}`, ``}, // more than name and arguments: all is shown
		{"tools/call", `{"name":"x","arguments":{"a":1}} {}`, ``},
		{"tools/call", `[1]`, ``},
		{"tools/call", `{"name":`, ``},
		{"prompts/get", `{"name":"x","arguments":{"a":1}}`, ``},
	} {
		if got := string(ArgumentsOf(test.method, []byte(test.params))); got != test.want {
			t.Errorf("argumentsOf(%s, %s) = %q, want %q", test.method, test.params, got, test.want)
		}
	}
}
