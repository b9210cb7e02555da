package agentconf

import (
	"path/filepath"
	"strings"
	"testing"
)

// VS Code reads Copilot CLI's file. The file does not mean that VS Code is present, and is
// counted and protected once.
func TestFilesOfAnotherAgent(t *testing.T) {
	w := newWorld(t)
	borrowed := filepath.Join(w.home, ".copilot", "mcp-config.json")
	w.write(borrowed, `{"mcpServers":{"files":{"command":"f"}}}`)
	env := w.env()
	env.Command, env.OS = nil, "linux"
	var seen []string
	for _, s := range Look(env) {
		for _, server := range s.Servers {
			seen = append(seen, s.Agent+" "+server.ID)
		}
	}
	if got := strings.Join(seen, ", "); got != "copilot-cli files" {
		t.Errorf("found: %s", got)
	}
	if HasOwn(vscode{}, env) || !HasOwn(copilot{}, env) {
		t.Error("Copilot CLI's file is taken for one of VS Code")
	}
	own := filepath.Join(w.home, ".config", "Code", "User", "mcp.json")
	w.write(own, `{"servers":{"clock":{"command":"c"}}}`)
	env.OwnOnly = true
	var kept []*Protection
	for i, agent := range []Agent{vscode{}, copilot{}} {
		if !HasOwn(agent, env) {
			t.Fatalf("%s is not found", agent.Name())
		}
		id := strings.Repeat(string("ab"[i]), 32)
		is := NewProtection(id, agent, env, w.line())
		in := is.Env(env.LookupEnv)
		in.OS = env.OS
		p, err := NewPlan(agent, in, w.shim)
		if err != nil {
			t.Fatal(err)
		}
		next := is
		if _, err := p.Protect(is, func(made *Protection) error { next = made; return nil }); err != nil {
			t.Fatalf("%s: %v", agent.Name(), err)
		}
		kept = append(kept, next)
	}
	for i, path := range []string{own, borrowed} {
		if got := kept[i].Paths(); len(got) != 1 || got[0] != path || !strings.Contains(w.read(path), kept[i].ID) {
			t.Errorf("%s protects %q", kept[i].Agent, got)
		}
		if _, err := kept[i].Restore(); err != nil {
			t.Fatal(err)
		}
	}
}
