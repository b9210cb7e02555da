package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Colours are only for terminals that have them and for people who want them.
func TestTheme(t *testing.T) {
	for _, test := range []struct {
		name   string
		piped  bool
		vars   map[string]string
		denied string // how a denial is printed
		faint  string
	}{
		{"terminal", false, map[string]string{"TERM": "xterm"}, "\x1b[31mdeny\x1b[m", "\x1b[2mID\x1b[m"},
		{"pipe", true, map[string]string{"TERM": "xterm"}, "deny", "ID"},
		{"dumb", false, map[string]string{"TERM": "dumb"}, "deny", "ID"},
		{"no TERM", false, nil, "deny", "ID"},
		{"NO_COLOR", false, map[string]string{"TERM": "xterm-256color", "NO_COLOR": "yes"}, "deny", "\x1b[2mID\x1b[m"},
		{"dark", false, map[string]string{"TERM": "xterm-256color", "COLORFGBG": "15;0"}, "\x1b[31mdeny\x1b[m", "\x1b[2mID\x1b[m"},
		{"light", false, map[string]string{"TERM": "xterm-256color", "COLORFGBG": "0;default;15"}, "\x1b[38;5;124mdeny\x1b[m", "\x1b[2mID\x1b[m"},
		{"light with 16 colours", false, map[string]string{"TERM": "xterm", "COLORFGBG": "0;15"}, "\x1b[31mdeny\x1b[m", "\x1b[2mID\x1b[m"},
		{"nonsense", false, map[string]string{"TERM": "xterm-256color", "COLORFGBG": "\x1b[31m;999"}, "\x1b[31mdeny\x1b[m", "\x1b[2mID\x1b[m"},
	} {
		var out bytes.Buffer
		a := &App{Out: &out, OutTerminal: !test.piped, Getenv: func(name string) string { return test.vars[name] }}
		table := &display.Table{Columns: []display.Column{{Head: "ID", Tone: ToneOf}}}
		table.Add("deny")
		sheet := &Sheet{}
		sheet.AddIn(display.Deny, "ID", "deny")
		if err := a.PrintTable(table); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), test.faint+"\n"+test.denied+"\n"; got != want {
			t.Errorf("%s: table %q, want %q", test.name, got, want)
		}
		out.Reset()
		if err := a.PrintSheet(sheet); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), strings.Replace(test.faint, "ID", "ID  ", 1)+test.denied+"\n"; got != want {
			t.Errorf("%s: sheet %q, want %q", test.name, got, want)
		}
		if got := ansi.Strip(out.String()); got != "ID  deny\n" {
			t.Errorf("%s: without colours it reads %q", test.name, got)
		}
	}
}
