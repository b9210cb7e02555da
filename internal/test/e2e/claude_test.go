package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const claudeRules = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "delete_*", action: deny}
`

// claudeState is a ~/.claude.json with servers of the user in it.
func (h *fixture) claudeState() (path string) {
	h.t.Helper()
	servers, err := json.MarshalIndent(map[string]any{"one": h.fakeServer("one"), "two": h.fakeServer("two")}, "  ", "  ")
	if err != nil {
		h.t.Fatal(err)
	}
	return h.write("home/.claude.json", `{
  "numStartups": 0,
  "userID": "5f2b0c",
  "mcpServers": `+string(servers)+`,
  "projects": {}
}`, 0o600)
}

// wrapClaude wraps a program called claude that rewrites that file all the
// time, as the real one does.
func (h *fixture) wrapClaude() *agent {
	h.t.Helper()
	if err := os.Symlink(testBinary(h.t), filepath.Join(h.bin, "claude")); err != nil && !os.IsExist(err) {
		h.t.Fatal(err)
	}
	return h.agent([]string{"wrap", "--", "claude"}, roleVar+"=claude")
}

type claudeFile struct {
	NumStartups int              `json:"numStartups"`
	UserID      string           `json:"userID"`
	TipsHistory map[string]int   `json:"tipsHistory"`
	Servers     map[string]entry `json:"mcpServers"`
}

func (h *fixture) claudeFile() claudeFile {
	h.t.Helper()
	var f claudeFile
	if err := json.Unmarshal([]byte(h.read("home/.claude.json")), &f); err != nil {
		h.t.Fatalf("~/.claude.json: %v\n%s", err, h.read("home/.claude.json"))
	}
	return f
}

// wantUnwrapped fails unless the servers are as they were and what claude wrote
// meanwhile is there.
func (h *fixture) wantUnwrapped(before claudeFile) {
	h.t.Helper()
	var after claudeFile
	if !eventually(func() bool { after = h.claudeFile(); return !strings.Contains(h.read("home/.claude.json"), "tg-shim") }, patience) {
		h.t.Fatalf("~/.claude.json stays rewritten:\n%s", h.read("home/.claude.json"))
	}
	for name, want := range before.Servers {
		got, _ := json.Marshal(after.Servers[name])
		if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
			h.t.Errorf("server %s is %s now, was %s", name, got, wanted)
		}
	}
	if len(after.Servers) != len(before.Servers) || after.UserID != before.UserID {
		h.t.Errorf("~/.claude.json is %+v now", after)
	}
	if after.NumStartups == 0 || len(after.TipsHistory) == 0 {
		h.t.Errorf("what claude wrote meanwhile is lost: %+v", after)
	}
}

func TestClaudeCode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(claudeRules)
	path := h.claudeState()
	before := h.claudeFile()
	h.startDaemon()
	a := h.wrapClaude()
	for range 5 {
		if r := a.call("one", "read_note", map[string]any{"name": "plan"}); !strings.Contains(r.Text, "Friday") {
			t.Errorf("a read: %+v", r)
		}
		if r := a.call("two", "delete_note", map[string]any{"name": "plan"}); !r.IsError || !strings.Contains(r.Text, "delete_*") {
			t.Errorf("a deletion: %+v", r)
		}
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	h.wantUnwrapped(before)
	wantMode(t, path, 0o600)
	wantNever(t, h, "two", "delete_note")
	if n := count(h.log(), "call", "read_note", "forward"); n != 5 {
		t.Errorf("%d reads on record, want 5", n)
	}
}

// The same when tgctl is killed while claude goes on writing.
func TestClaudeCodeWhenTgctlIsKilled(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(claudeRules)
	h.claudeState()
	before := h.claudeFile()
	h.startDaemon()
	a := h.wrapClaude()
	if r := a.call("one", "list_notes", nil); r.IsError {
		t.Errorf("%+v", r)
	}
	if err := syscall.Kill(a.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.ended
	h.wantUnwrapped(before)
	a.stdin.Close()
	if !eventually(func() bool { return len(h.pids()) == 1 }, patience) {
		t.Errorf("processes stay behind: %q", h.processes())
	}
	h.wantUnwrapped(before)
}
