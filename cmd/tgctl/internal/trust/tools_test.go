package trust

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, ToolsCommand, ServersCommand)
}

func consoleWithPins(t *testing.T) (*consoletest.Daemon, *consoletest.Console) {
	f := consoletest.Start(t)
	f.Pins, f.Diffs, f.Servers = consoletest.SeenPins(), consoletest.SeenDiffs(), consoletest.SeenServers()
	return f, newConsole(f.Socket)
}

func TestToolsOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"tools", []string{"tools"}},
		{"tools-waiting", []string{"tools", "list", "--waiting", "--server", "files"}},
		{"tools-json", []string{"tools", "--json"}},
		{"tools-diff", []string{"tools", "diff", "files/echo"}},
		{"tools-diff-json", []string{"tools", "diff", "files/echo", "--json"}},
		{"tools-diff-smelly", []string{"tools", "diff", "games/lucky_number"}},
		{"tools-diff-accepted", []string{"tools", "diff", "files/read_file"}},
		{"tools-diff-look-alike", []string{"tools", "diff", `games/r\u{435}ad_file`}},
		{"tools-accept", []string{"tools", "accept", "files/echo", "games"}},
		{"servers", []string{"servers"}},
		{"servers-json", []string{"servers", "--json"}},
		{"servers-accept", []string{"servers", "accept", "files"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			_, c := consoleWithPins(t)
			if code := c.Run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			if strings.Contains(test.golden, "json") {
				for line := range strings.SplitSeq(strings.TrimSpace(c.Out.String()), "\n") {
					if !json.Valid([]byte(line)) || strings.ContainsAny(line, "\x1b\u202e") {
						t.Errorf("no JSON, or with what a terminal obeys: %s", line)
					}
				}
			} else {
				consoletest.MustFit(t, c.Out.String(), 80)
			}
			consoletest.Golden(t, test.golden, c.Out.String()+"--- stderr\n"+c.Err.String())
		})
	}
}

func TestNothingSeen(t *testing.T) {
	for _, test := range []struct{ line, says string }{
		{"tools", "No server has listed its tools yet."},
		{"tools --server files", "The server files has not listed its tools yet."},
		{"servers", "No server has listed its tools yet."},
	} {
		c := newConsole(consoletest.Start(t).Socket)
		if code := c.Run(t, strings.Fields(test.line)...); code != 0 || c.Out.Len() > 0 || !strings.Contains(c.Err.String(), test.says) {
			t.Errorf("tgctl %s: exit %d, %q, %q", test.line, code, c.Out.String(), c.Err.String())
		}
	}
	f, c := consoleWithPins(t)
	f.Pins = f.Pins[1:3]
	if code := c.Run(t, "tools", "--waiting"); code != 0 || !strings.Contains(c.Err.String(), "No definition is waiting") {
		t.Errorf("exit %d, %q", code, c.Err.String())
	}
}

// Accepting sends back the digest that was read, and the surface.
func TestAcceptNamesWhatWasShown(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"files/echo"}, "files/echo"},
		{[]string{"files"}, "files/echo"},
		{[]string{"games"}, "games/lucky_number games/r\u0435ad_file"},
		{[]string{"games/lucky_number", "files/echo", "files"}, "games/lucky_number files/echo"},
		{[]string{"files/echo", "--definition", "B2B2B2B2", "--kind", "tool", "--launch", "AB12"}, "files/echo"},
	} {
		f, c := consoleWithPins(t)
		if code := c.Run(t, append([]string{"tools", "accept"}, test.args...)...); code != 0 {
			t.Errorf("%q: exit %d: %s", test.args, code, c.Err.String())
			continue
		}
		var got []string
		for _, a := range f.Accepted[0].GetPins() {
			got = append(got, a.GetRef().GetServer()+"/"+a.GetRef().GetName())
			if !bytes.Equal(a.GetDefinition(), consoletest.Digest(0xb2)) {
				t.Errorf("%q: definition %x", test.args, a.GetDefinition())
			}
		}
		if strings.Join(got, " ") != test.want || len(f.Accepted) != 1 || f.Accepted[0].GetSurface() != "terminal" {
			t.Errorf("%q: accepted %q from %q, want %q", test.args, got, f.Accepted[0].GetSurface(), test.want)
		}
	}
	f, c := consoleWithPins(t)
	if code := c.Pipe().Run(t, "servers", "accept", "files", "--launch", "FF00", "--json"); code != 0 || f.Servants[0].GetSurface() != "script" {
		t.Errorf("exit %d, %v", code, f.Servants)
	}
	if got := f.Servants[0]; got.GetId() != "files" || got.GetLaunch() != strings.Repeat("ff00ee11", 8) {
		t.Errorf("accepted %v", got)
	}
}

func TestAcceptanceThatFails(t *testing.T) {
	otherLaunch := func(f *consoletest.Daemon) {
		again := consoletest.SeenPins()[0]
		again.Ref.Launch = strings.Repeat("cc", 32)
		f.Pins = append(f.Pins, again)
	}
	for _, test := range []struct {
		name string
		line string
		fill func(*consoletest.Daemon)
		says []string
	}{
		{"not there", "tools accept files/nothing", nil, []string{"files/nothing: not found", "tgctl tools --waiting"}},
		{"diff of nothing", "tools diff files/nothing", nil, []string{"files/nothing: not found", "tgctl tools"}},
		{"nothing waits", "tools accept files/read_file", nil, []string{"files/read_file: no definition of it is waiting"}},
		{"another definition", "tools accept files/echo --definition 00000000", nil, []string{"not the question that was shown", "changed again"}},
		{"two of them", "tools accept files/echo", otherLaunch, []string{"files/echo is ambiguous: it matches 2", "--kind tool --launch cccccccc"}},
		{"diff of two", "tools diff files/echo", otherLaunch, []string{"is ambiguous: it matches 2", "--launch ab12cd34"}},
		{"by an agent", "tools accept files/echo", func(f *consoletest.Daemon) {
			f.AcceptErr = client.NewError(client.ReasonForbidden, "the caller descends from an agent")
		}, []string{"descends from an agent", "Use another terminal"}},
		{"no stranger", "servers accept games", nil, []string{"games: no new server of that id is waiting"}},
		{"no server", "servers accept nothing", nil, []string{"nothing: not found", "tgctl servers"}},
		{"another launch", "servers accept files --launch 00", nil, []string{"no new server of that id"}},
		{"two strangers", "servers accept files", func(f *consoletest.Daemon) {
			f.Servers[0].New = true
		}, []string{"files is ambiguous: it matches 2 new servers", "--launch ab12cd34  npx -y server-files"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := consoleWithPins(t)
			if test.fill != nil {
				test.fill(f)
			}
			if code := c.Run(t, strings.Fields(test.line)...); code != ui.ExitFailed {
				t.Errorf("exit %d: %s", code, c.Err.String())
			}
			for _, want := range test.says {
				if !strings.Contains(c.Err.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, c.Err.String())
				}
			}
		})
	}
}

// TestToolCompletion runs the commands that a shell runs for completion.
func TestToolCompletion(t *testing.T) {
	for _, test := range []struct{ line, want, not string }{
		{"tools diff", "files/read_file\taccepted\n", "\x1b"},
		{"tools accept", "files/echo\tit differs from the accepted definition\n", "read_file\t"},
		{"servers accept", "files\tsh -c ", "games"},
		{"tools list --server", "games\tgames\n", "\x1b"},
	} {
		_, c := consoleWithPins(t)
		c.Run(t, append(append([]string{"__complete"}, strings.Fields(test.line)...), "")...)
		if !strings.Contains(c.Out.String(), test.want) || strings.Contains(c.Out.String(), test.not) {
			t.Errorf("%s: completes to %q, want %q and not %q", test.line, c.Out.String(), test.want, test.not)
		}
		c = newConsole("/nonexistent/control.sock")
		if c.Run(t, append(append([]string{"__complete"}, strings.Fields(test.line)...), "")...); !strings.HasPrefix(c.Out.String(), ":") {
			t.Errorf("%s: without a daemon: %q", test.line, c.Out.String())
		}
	}
}
