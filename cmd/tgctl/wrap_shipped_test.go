package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// At a terminal, wrap shows what a project's server would run, and asks.
func TestWrapAsksAboutServersOfTheProject(t *testing.T) {
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	home, err := filepath.EvalSymlinks(consoletest.ShortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(home, "repo")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(repo, ".git", "HEAD"), "")
	write(filepath.Join(repo, "mcp.json"), `{"mcpServers": {"notes": {"command": "fake-server", "args": ["x.log"]}}}`)
	write(filepath.Join(repo, "steps"), "call notes echo {\"text\": \"said\"}\n")
	env := append(os.Environ(), "HOME="+filepath.Join(home, "h"), "XDG_CONFIG_HOME="+home+"/c", "XDG_STATE_HOME="+home+"/s", "XDG_RUNTIME_DIR="+home+"/run",
		"PATH="+bin+":"+os.Getenv("PATH"))
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	tgctl := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "tgctl"), args...)
		cmd.Dir, cmd.Env = repo, env
		return cmd
	}
	t.Cleanup(func() {
		if out, err := tgctl("daemon", "stop").CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, out)
		}
		nothingLeft(t, home)
	})
	wrap := func(answer string) (shown string) {
		cmd := tgctl("wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "steps")
		terminal, err := pty.StartWithAttrs(cmd, nil, &syscall.SysProcAttr{Setsid: true, Setctty: true})
		if err != nil {
			t.Skipf("no terminal to be had: %v", err)
		}
		defer terminal.Close()
		buffer := make([]byte, 4096)
		for asked := false; ; {
			n, err := terminal.Read(buffer)
			shown += string(buffer[:n])
			if !asked && strings.Contains(shown, "[y/N] ") {
				asked = true
				terminal.WriteString(answer + "\n")
			}
			if err != nil { // the terminal was closed
				break
			}
		}
		_ = cmd.Wait() // the exit code is not tested here
		return shown
	}
	want := func(shown string, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(shown) {
				t.Errorf("%q was not shown:\n%s", p, shown)
			}
		}
	}
	want(wrap("n"), `server notes comes with this project`, `runs +fake-server x.log`, `sha256 +[0-9a-f]{64}`,
		`server notes is withheld`, `initialize: Not executed: server "notes" is withheld until a person accepts it`)
	want(wrap("yes"), `Accept it, now and as long as none of this changes\?`, `echo: error false`)
	if shown := wrap("no"); strings.Contains(shown, "[y/N]") || !strings.Contains(shown, "echo: error false") {
		t.Errorf("what was agreed to is asked about again:\n%s", shown)
	}
}
