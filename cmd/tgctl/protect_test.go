package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// protectConsole returns a terminal in a home whose Claude Code has three servers.
func protectConsole(t *testing.T, answer string) (*console, *consoletest.Home, *consoletest.Daemon) {
	h := consoletest.NewHome(t)
	h.Write(".claude.json", consoletest.SomeServers, 0o600)
	f := consoletest.Start(t)
	f.Status = consoletest.Healthy()
	c := newConsole(f.Socket)
	c.app.In = strings.NewReader(answer)
	c.Env["HOME"] = h.Dir
	c.app.Executable = func() (string, error) { return filepath.Join(h.Dir, "bin", "tgctl"), nil }
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
		code := c.run(t, "protect", "claude-code")
		if (code == 0) != agreed || (claude(h) != consoletest.SomeServers) != agreed || (len(f.Protected) == 1) != agreed {
			t.Errorf("%q: exit %d, %d kept:\n%s\n%s", answer, code, len(f.Protected), claude(h), c.Err.String())
		}
		talk := c.Err.String()
		for _, want := range []string{"claude-code: 2 servers governed at every start: clock, files\n", "claude-code: not governed: web (a remote server (http))\n",
			"Rewrite ~/.claude.json permanently? The daemon restores lost entries;\ntgctl unprotect restores the file. [y/N] "} {
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
	c.pipe()
	h.Write(".cursor/mcp.json", `{"mcpServers":{}}`, 0o600)
	h.Write("src/shop/.mcp.json", consoletest.SomeServers, 0o600) // belongs to a project, not to an agent
	if code := c.run(t, "protect", "claude-code"); code != ui.ExitFailed || claude(h) != consoletest.SomeServers || len(f.Protected) > 0 {
		t.Errorf("exit %d", code)
	}
	if talk := c.Err.String(); !strings.Contains(talk, "nothing was changed\nReview the changes with --dry-run, then use --yes.") {
		t.Errorf("%s", talk)
	}
	if code := c.run(t, "protect", "--yes", "--all"); code != 0 || len(f.Protected) != 1 || !strings.Contains(c.Err.String(), "cursor: No MCP servers found in config: ~/.cursor/mcp.json\n") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// If the daemon refuses the protection, the file is not changed.
func TestProtectRefused(t *testing.T) {
	c, h, f := protectConsole(t, "")
	f.ProtectErr = client.NewError(client.ReasonForbidden, "not allowed to an agent")
	if code := c.run(t, "protect", "--yes", "claude-code"); code != ui.ExitFailed || claude(h) != consoletest.SomeServers || len(f.Undone) != 1 {
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
		c.run(t, test.args...)
		if !strings.Contains(c.Err.String(), test.want) || len(f.Protected) > 0 {
			t.Errorf("%q: %s", test.args, c.Err.String())
		}
	}
	if code := c.run(t, "protect", "--yes", "nobody", "claude-code"); code != ui.ExitFailed || len(f.Protected) != 1 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// TestUnprotectTells checks that unprotect reports what it could not undo with the daemon, and
// which servers still run.
func TestUnprotectTells(t *testing.T) {
	c, _, f := protectConsole(t, "")
	c.run(t, "protect", "--yes", "claude-code")
	f.Sessions = consoletest.OpenSessions()[:1]
	if code := c.run(t, "unprotect", "claude-code"); code != ui.ExitFailed || len(f.Undone) > 0 || !strings.Contains(c.Err.String(), "a running wrap (process 4000)") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	f.Sessions = nil
	if code := c.run(t, "unprotect", "claude-code"); code != 0 || len(f.Undone) != 1 ||
		!strings.Contains(c.Err.String(), "1 server of claude-code stays governed until the agent is restarted") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

func TestLastingShim(t *testing.T) {
	dir := filepath.Join(consoletest.ShortDir(t), "home")
	make := func(path string) string {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(path, to string) {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
			t.Fatal(err)
		}
	}
	// One version of a package, and the links that every version has.
	self, shim := make("Cellar/thoughtgate/0.1.0/bin/tgctl"), make("Cellar/thoughtgate/0.1.0/libexec/thoughtgate/tg-shim")
	link("opt/thoughtgate", filepath.Join(dir, "Cellar/thoughtgate/0.1.0"))
	link("bin/tgctl", self)
	link("libexec/thoughtgate/tg-shim", shim)
	link("here/tgctl", self)
	link("here/tg-shim", shim)
	// The test's own directory is temporary, so only the part below it is checked.
	below := func(path string) string { return whyUnstable(strings.TrimPrefix(path, dir)) }
	for _, test := range []struct {
		name, path, want, why string
		gone                  string
	}{
		{name: "a link in PATH", path: "bin", want: "libexec/thoughtgate/tg-shim"},
		{name: "both linked", path: "here", want: "here/tg-shim"},
		{name: "not in PATH", want: "opt/thoughtgate/libexec/thoughtgate/tg-shim"},
		{name: "no link", want: "Cellar/thoughtgate/0.1.0/libexec/thoughtgate/tg-shim", why: "one version (0.1.0)", gone: "opt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.gone != "" {
				if err := os.RemoveAll(filepath.Join(dir, test.gone)); err != nil {
					t.Fatal(err)
				}
			}
			a := newConsole("").app
			a.Executable = func() (string, error) { return self, nil }
			a.Getenv = func(string) string { return filepath.Join(dir, test.path) }
			got, why := firstStable(a.pathsTo("tg-shim", shim), below)
			if got != filepath.Join(dir, test.want) || !strings.Contains(why, test.why) || test.why == "" && why != "" {
				t.Errorf("got %s (%s), want %s (%s)", got, why, test.want, test.why)
			}
			if path, warning, err := a.lastingShim(); path == "" || !strings.Contains(warning, "temporary") || err != nil {
				t.Errorf("%s, %q, %v", path, warning, err)
			}
		})
	}
}

func TestFleeting(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/libexec/thoughtgate/tg-shim":                            "",
		"/home/ana/.local/libexec/thoughtgate/tg-shim":                "",
		"/opt/homebrew/opt/thoughtgate/libexec/tg-shim":               "",
		"/home/ana/python3.12/bin/tg-shim":                            "",
		"/opt/homebrew/Cellar/thoughtgate/0.1.0/libexec/tg-shim":      "one version (0.1.0)",
		"/home/ana/thoughtgate-v1.2.3/tg-shim":                        "one version (thoughtgate-v1.2.3)",
		"/home/ana/.asdf/installs/thoughtgate/1.2.3-rc.1/bin/tg-shim": "one version (1.2.3-rc.1)",
		"/nix/store/5k2l-thoughtgate/libexec/tg-shim":                 "one version of a package",
		"/tmp/go-build123/b001/exe/tg-shim":                           "temporary",
		"/private/var/folders/xx/T/thoughtgate/tg-shim":               "temporary",
	} {
		got := whyUnstable(path)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := whyUnstable(filepath.Join(here, "tg-shim")); got == "" {
		t.Error("where it is built it would stay")
	}
}
