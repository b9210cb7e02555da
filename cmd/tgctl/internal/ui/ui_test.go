package ui

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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

// Who decided has one name everywhere: the person and where they were, or a script.
func TestWho(t *testing.T) {
	for _, test := range []struct {
		decider, surface string
		want             display.Safe
	}{
		{"pid 7 /usr/bin/tgctl on /dev/pts/2", "terminal", "you (terminal pts/2)"},
		{"pid 7 /usr/bin/tgctl", "terminal", "you (terminal)"},
		{"pid 7 /usr/bin/tgctl on /dev/pts/2", "desktop", "you (desktop)"},
		{"pid 7 /usr/bin/tgctl on /dev/pts/2", "script", "script"},
		{"pid 7 /usr/bin/tgctl on /dev/pts/2", "phone", "phone (claim)"},
		{"the rules changed", "", "the rules changed"},
		{"", "terminal", ""},
		{"pid 7 x on /dev/pts/\x1b[2J", "terminal", `you (terminal pts/\u{1b}[2J)`},
		{"pid 7 x", "\u202e", `you (\u{202e})`},
	} {
		if got := Who(test.decider, test.surface, You); got != test.want {
			t.Errorf("Who(%q, %q) = %s, want %s", test.decider, test.surface, got, test.want)
		}
	}
}

// What a flag needs is said in the words of a person.
func TestFlagErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--limit x": `--limit needs a whole number, 0 or more, not "x"`, "--limit -1": `--limit needs a whole number, 0 or more, not "-1"`,
		"--limit 99999999999": "--limit 99999999999: the number is too large", "--all=maybe": `--all needs true or false, not "maybe"`,
		"--wait 3": `--wait needs a duration such as 90s or 2h, not "3"`, "--nope": "unknown flag: --nope",
	} {
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }, SilenceErrors: true, SilenceUsage: true}
		cmd.Flags().Uint32("limit", 0, "")
		cmd.Flags().Bool("all", false, "")
		cmd.Flags().Duration("wait", 0, "")
		Prepare(cmd)
		cmd.SetArgs(strings.Split(args, " "))
		if err := cmd.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// A file that exists stays as it is, and the error says what to do.
func TestToFileThatExists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &App{Out: &bytes.Buffer{}}
	err := a.ToFile(path, func(io.Writer) error { return errors.New("not called") })
	if err == nil || !strings.Contains(err.Error(), "exists already: name another file, or remove it first") {
		t.Error(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "mine" {
		t.Errorf("%q, %v", content, err)
	}
}

// A typo in a closed set gets the word that was meant, or all words.
func TestCheckWord(t *testing.T) {
	words := []string{"amended", "approved", "deny", "forward", "hold", "park"}
	for value, want := range map[string]string{
		"": "", "deny": "", "denied": `unknown verdict "denied": did you mean deny?`, "aproved": "did you mean approved?", "forwarded": "did you mean forward?",
		"parked": "did you mean park?", "helt": "did you mean hold?", "zzzzzzzzz": "use one of amended, approved, deny",
	} {
		err := CheckWord("verdict", value, words)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
}

// A diff on a terminal does not control it. In a pipe it can be applied.
func TestPrintDiff(t *testing.T) {
	const diff = "--- a\n+++ b\n@@ -1 +1 @@\n-\told\n+\x1b[2Jnew\r\n"
	for _, test := range []struct {
		terminal bool
		term     string
		want     string
	}{
		{false, "xterm", diff},
		{true, "dumb", "--- a\n+++ b\n@@ -1 +1 @@\n-    old\n+\\u{1b}[2Jnew\\u{d}\n"},
		{true, "xterm", "\x1b[1m--- a\x1b[m\n\x1b[1m+++ b\x1b[m\n\x1b[2m@@ -1 +1 @@\x1b[m\n\x1b[31m-    old\x1b[m\n\x1b[32m+\\u{1b}[2Jnew\\u{d}\x1b[m\n"},
	} {
		var out strings.Builder
		a := &App{Out: &out, OutTerminal: test.terminal, Getenv: func(name string) string { return map[string]string{"TERM": test.term}[name] }}
		if err := a.PrintDiff(diff); err != nil || out.String() != test.want {
			t.Errorf("%v: %q, want %q", err, out.String(), test.want)
		}
	}
}

// An error of a file that a person has named says what was being done and what to do.
func TestFileError(t *testing.T) {
	dir := t.TempDir()
	_, missing := os.Open(filepath.Join(dir, "none"))
	_, folder := os.ReadFile(dir)
	for _, test := range []struct {
		err  error
		hint string
	}{{missing, "Check the path: it, or a folder in it, does not exist."}, {&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, "give yourself access"}, {folder, "Name another file"}} {
		err := FileError("read the heads", test.err)
		hint, ok := errors.AsType[*HintError](err)
		if !ok || !strings.Contains(hint.Hint, test.hint) || !strings.HasPrefix(err.Error(), "read the heads: ") || !errors.Is(err, test.err) {
			t.Errorf("%v: %+v", err, hint)
		}
	}
}
