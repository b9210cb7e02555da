package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A protected agent that is started by itself, and rewrites its file all the
// time, is governed; what it wrote stays when it is unprotected.
func TestProtectedClaudeCode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(claudeRules)
	path := h.claudeState()
	before := h.claudeFile()
	h.startDaemon()
	h.tgctl("protect", "--yes", "claude-code")
	if err := os.Symlink(testBinary(t), filepath.Join(h.bin, "claude")); err != nil {
		t.Fatal(err)
	}
	a := h.client("claude", nil, roleVar+"=claude")
	for range 5 {
		if r := a.call("one", "read_note", map[string]any{"name": "plan"}); !strings.Contains(r.Text, "Friday") {
			t.Errorf("a read: %+v", r)
		}
		if r := a.call("two", "delete_note", map[string]any{"name": "plan"}); !r.IsError || !strings.Contains(r.Text, "delete_*") {
			t.Errorf("a deletion: %+v", r)
		}
	}
	if sessions := h.tgctl("sessions", "--json"); strings.Count(sessions, `"protection":"`) != 1 || strings.Contains(sessions, `"protection":""`) || !strings.Contains(sessions, `"attached":2`) {
		t.Errorf("its servers are not one session: %s", sessions)
	}
	if code := a.leave(); code != 0 {
		t.Errorf("claude: exit %d\n%s", code, a.talk())
	}
	if text := h.read("home/.claude.json"); strings.Count(text, "tg-shim") != 2 {
		t.Errorf("not protected any more:\n%s", text)
	}
	h.tgctl("unprotect", "claude-code")
	h.wantUnwrapped(before)
	wantMode(t, path, 0o600)
	wantNever(t, h, "two", "delete_note")
	if n := count(h.log(), "call", "read_note", "forward"); n != 5 {
		t.Errorf("%d reads on record, want 5", n)
	}
}

// Without its daemon no server of a protected agent runs.
func TestProtectedWithoutADaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(claudeRules)
	h.claudeState()
	h.startDaemon()
	h.tgctl("protect", "--yes", "claude-code")
	h.stopDaemon()
	entry := h.claudeFile().Servers["one"]
	var env []string
	for name, value := range entry.Env {
		env = append(env, name+"="+value)
	}
	if filepath.Base(entry.Command) != "tg-shim" {
		t.Fatalf("not protected: %+v", entry)
	}
	r := h.run(env, "tg-shim", entry.Args...) // which looks for the daemon for a while
	if r.code != 0 || !strings.Contains(r.stderr, "Server \"one\" is not started: nothing may pass unjudged") || !strings.Contains(r.stderr, "tgctl daemon start") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(h.path("one.log")); err == nil {
		t.Error("the server ran")
	}
}
