package wrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// protectConsole returns a terminal in a home whose Claude Code has three servers.
func protectConsole(t *testing.T, answer string) (*consoletest.Console, *consoletest.Home, *consoletest.Daemon) {
	h := consoletest.NewHome(t)
	h.Write(".claude.json", consoletest.SomeServers, 0o600)
	f := consoletest.Start(t)
	f.Status = consoletest.Healthy()
	c := consoletest.New(f.Socket, commands...)
	c.App.In = strings.NewReader(answer)
	c.Env["HOME"] = h.Dir
	c.App.Executable = func() (string, error) { return filepath.Join(h.Dir, "bin", "tgctl"), nil }
	return c, h, f
}

func claude(h *consoletest.Home) string {
	text, err := os.ReadFile(filepath.Join(h.Dir, ".claude.json"))
	if err != nil {
		h.T.Fatal(err)
	}
	return string(text)
}

// Only a y changes anything.
func TestProtectAsks(t *testing.T) {
	for answer, agreed := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yikes\n": false} {
		c, h, f := protectConsole(t, answer)
		code := c.Run(t, "protect", "claude-code")
		if (code == 0) != agreed || (claude(h) != consoletest.SomeServers) != agreed || (len(f.Protected) == 1) != agreed {
			t.Errorf("%q: exit %d, %d kept:\n%s\n%s", answer, code, len(f.Protected), claude(h), c.Err.String())
		}
		talk := c.Err.String()
		for _, want := range []string{"claude-code: 2 servers governed at every start: clock, files\n", "claude-code: not governed: web (a remote server (ws), left as it is: its transport \"ws\" is not supported)\n",
			"Rewrite ~/.claude.json, ~/.claude/settings.json permanently? The daemon restores lost entries;\ntgctl unprotect restores the file. [y/N] "} {
			if !strings.Contains(talk, want) {
				t.Errorf("%q: no %q in:\n%s", answer, want, talk)
			}
		}
		if !strings.Contains(c.Out.String(), "+++ ") || !agreed && !strings.Contains(talk, "Nothing was changed.") {
			t.Errorf("%q: %s%s", answer, c.Out.String(), talk)
		}
	}
}

// Without a terminal to ask at, nothing happens, and no daemon is started.
func TestProtectWithoutATerminal(t *testing.T) {
	c, h, f := protectConsole(t, "y\n")
	c.Pipe()
	h.Write(".cursor/mcp.json", `{"mcpServers":{}}`, 0o600)
	h.Write("src/shop/.mcp.json", consoletest.SomeServers, 0o600) // belongs to a project, not to an agent
	if code := c.Run(t, "protect", "claude-code"); code != ui.ExitFailed || claude(h) != consoletest.SomeServers || len(f.Protected) > 0 {
		t.Errorf("exit %d", code)
	}
	if talk := c.Err.String(); !strings.Contains(talk, "nothing was changed\nReview the changes with --dry-run, then use --yes.") {
		t.Errorf("%s", talk)
	}
	if code := c.Run(t, "protect", "nosuch"); code != ui.ExitFailed || !strings.Contains(c.Err.String(), "nosuch") || strings.Contains(c.Err.String(), "--dry-run") {
		t.Errorf("exit %d: %s", code, c.Err.String()) // what is wrong comes first
	}
	if code := c.Run(t, "protect", "--yes", "--all"); code != 0 || len(f.Protected) != 1 || !strings.Contains(c.Err.String(), "cursor: No MCP servers found in config: ~/.cursor/mcp.json\n") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// If the daemon refuses the protection, the file is not changed.
func TestProtectRefused(t *testing.T) {
	c, h, f := protectConsole(t, "")
	f.ProtectErr = client.NewError(client.ReasonForbidden, "not allowed to an agent")
	if code := c.Run(t, "protect", "--yes", "claude-code"); code != ui.ExitFailed || claude(h) != consoletest.SomeServers || len(f.Undone) != 1 {
		t.Errorf("exit %d, undone %q: %s", code, f.Undone, c.Err.String())
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, ".claude.json.*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// An unusable configuration does not keep others from being protected. Only --all ignores a
// missing one.
func TestProtectProblems(t *testing.T) {
	c, h, f := protectConsole(t, "")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"protect", "--yes", "nobody"}, `unsupported agent type "nobody"`},
		{[]string{"protect", "--yes", "custom"}, "--config-path FILE"},
		{[]string{"protect", "--yes", "--config-path", h.Dir + "/none.json", "custom"}, "no configuration of custom was found"},
		{[]string{"protect", "--repair"}, "nothing to protect: no agent is protected"},
		{[]string{"protect", "--repair", "claude-code"}, "claude-code is not protected; run `tgctl protect claude-code`"},
	} {
		c.Run(t, test.args...)
		if !strings.Contains(c.Err.String(), test.want) || len(f.Protected) > 0 {
			t.Errorf("%q: %s", test.args, c.Err.String())
		}
	}
	// All are checked before anything is done.
	if code := c.Run(t, "protect", "--yes", "nobody", "claude-code"); code != ui.ExitFailed || len(f.Protected) != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// TestUnprotectTells checks that unprotect reports what it could not undo with the daemon, and
// which servers still run.
func TestUnprotectTells(t *testing.T) {
	c, _, f := protectConsole(t, "")
	c.Run(t, "protect", "--yes", "claude-code")
	f.Sessions = consoletest.OpenSessions()[:1]
	if code := c.Run(t, "unprotect", "claude-code"); code != ui.ExitFailed || len(f.Undone) > 0 || !strings.Contains(c.Err.String(), "a running wrap (process 4000)") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	f.Sessions = nil
	if code := c.Run(t, "unprotect", "claude-code"); code != 0 || len(f.Undone) != 1 ||
		!strings.Contains(c.Err.String(), "1 server of claude-code stays governed until the agent is restarted") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
