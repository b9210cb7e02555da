package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// A call whose arguments name something of ThoughtGate's is asked about,
// whatever the rules say: each file, each spelling.
func TestOursIsAskedAbout(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(`schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "*", action: forward}
approval:
  you: {destination: {type: local}, timeout: 5m}
`)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	if err := os.Symlink(h.path("config"), h.path("work/link")); err != nil {
		t.Fatal(err)
	}
	var guarded []string
	for _, dir := range []string{"config/thoughtgate", "state/thoughtgate", "run/thoughtgate"} {
		err := filepath.WalkDir(h.path(dir), func(path string, _ os.DirEntry, err error) error {
			guarded = append(guarded, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Beside the wrapped configuration lie its copy and its lock.
	beside, err := os.ReadDir(h.path("work"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range beside {
		if strings.HasPrefix(e.Name(), "mcp.json") || strings.HasPrefix(e.Name(), ".mcp.json") {
			guarded = append(guarded, h.path("work", e.Name()))
		}
	}
	for _, want := range []string{"thoughtgate.yaml", "state.db", ".jsonl", "control.sock", "thoughtgated.lock", "work/mcp.json"} {
		if !slices.ContainsFunc(guarded, func(p string) bool { return strings.HasSuffix(p, want) }) {
			t.Errorf("no file %s among %q", want, guarded)
		}
	}
	yaml := h.path("config/thoughtgate/thoughtgate.yaml")
	guarded = append(guarded,
		h.path("work/../config/thoughtgate/thoughtgate.yaml"), h.path("work/link/thoughtgate/thoughtgate.yaml"), "link/thoughtgate/new.cedar", "../config/thoughtgate/thoughtgate.yaml",
		"~/../config/thoughtgate/thoughtgate.yaml", "$XDG_CONFIG_HOME/thoughtgate/thoughtgate.yaml", "file://"+yaml, strings.ReplaceAll(yaml, "config", "%63onfig"), "mcp.json", "./mcp.json",
		"cat "+yaml+" | tee /tmp/x", "echo '{}' >"+h.path("work/mcp.json"))

	for i, path := range guarded {
		_, result := a.begin(order{Server: "one", Tool: "echo", Arguments: map[string]any{"deep": []any{map[string]any{"path": path}}, "n": i}})
		q := h.asked(a, result, path)
		if q.ID == "" {
			continue
		}
		h.tgctl("approvals", "deny", q.ID)
		if r := a.await(result, path); !r.IsError {
			t.Errorf("%s: denied, and answered with %+v", path, r)
		}
	}
	// What is near, and not ours, passes.
	for _, path := range []string{h.path("work"), h.path("work/notes.txt"), "README.md", h.path("config/other"), h.path("run"), "thoughtgate"} {
		if r := a.call("one", "echo", map[string]any{"path": path}); r.IsError || r.Error != "" {
			t.Errorf("%s: %+v", path, r)
		}
	}
	a.leave()
	all, err := fake.ReadLog(h.path("one.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if strings.Contains(string(e.Arguments), "deep") {
			t.Errorf("executed: %s", e.Arguments)
		}
	}
	facts := 0
	for _, l := range h.log() {
		if l.Verdict == "hold" && slices.Contains(l.Facts, "ours") {
			facts++
		}
	}
	if facts != len(guarded) {
		t.Errorf("%d holds on record have the fact ours, want %d", facts, len(guarded))
	}
}

// asked returns the question that a call leads to; without one, the call has
// been answered, which is an error.
func (h *fixture) asked(a *agent, result <-chan reply, what string) question {
	h.t.Helper()
	var q question
	done := eventually(func() bool {
		if all := h.questions(); len(all) == 1 {
			q = all[0]
		}
		return q.ID != "" || len(result) > 0
	}, patience)
	if !done || q.ID == "" {
		h.t.Errorf("%s: not asked about: %s", what, fmt.Sprint(len(result), " answers"))
	}
	return q
}

// Secrets are asked about by the rules that come with the daemon, and never
// written into the record.
func TestSecretsStayOutOfTheRecord(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon() // no configuration: the built-in default
	a := h.wrap(config)
	const token, password = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4", "correct-horse-7"
	for _, arguments := range []map[string]any{
		{"to": "x@example.com", "text": "the token is " + token},
		{"to": "x@example.com", "login": map[string]any{"password": password}},
	} {
		_, result := a.begin(order{Server: "one", Tool: "echo", Arguments: arguments})
		q := h.question()
		if shown := h.tgctl("approvals", "show", q.ID); !strings.Contains(shown, "secret") {
			t.Errorf("approvals show does not say why:\n%s", shown)
		}
		h.tgctl("approvals", "approve", q.ID)
		if r := a.await(result, "an approved call"); r.IsError || !strings.Contains(r.Text, "x@example.com") {
			t.Errorf("approved: %+v", r)
		}
	}
	if r := a.call("one", "read_note", map[string]any{"name": "plan"}); r.IsError {
		t.Errorf("a read under the built-in default: %+v", r)
	}
	_, result := a.begin(order{Server: "one", Tool: "delete_note", Arguments: map[string]any{"name": "plan"}})
	h.tgctl("approvals", "deny", h.question().ID)
	a.await(result, "a deletion under the built-in default")
	a.leave()
	h.stopDaemon()
	wantNever(t, h, "one", "delete_note")
	err := filepath.WalkDir(h.path("state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, secret := range []string{token, password} {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s holds a secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
