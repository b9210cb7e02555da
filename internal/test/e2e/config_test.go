package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// A configuration that was named and can't be used makes wrap and thoughtgated
// refuse, and say where and what was expected; nothing is rewritten.
func TestBadConfiguration(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          []string // in what is said, besides the file
	}{
		{"missing", "", []string{"does not exist"}},
		{"a folder", "/", []string{"not a regular file"}},
		{"unreadable", "schema: 1\n", []string{"permission denied"}},
		{"malformed", "schema: 1\ngovernance: {defaults: ]}\n", []string{":2:", "YAML"}},
		{"an unknown key", "schema: 1\ngovernance:\n  defaults: {acton: deny}\n", []string{":3:", "acton", "action"}},
		{"a wrong value", "schema: 1\ngovernance:\n  defaults: {action: maybe}\n", []string{":3:", "maybe", "forward", "deny", "approve"}},
		{"a missing workflow", "schema: 1\ngovernance:\n  rules:\n    - {match: x, action: approve, approval: nobody}\n", []string{":4:", "nobody", "V-006"}},
		{"two errors", "schema: 1\nprofle: production\ngovernance:\n  defaults: {action: maybe}\n", []string{":2:", "profile", ":4:"}},
		{"empty", "", []string{"schema"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			path := h.path("config/thoughtgate/thoughtgate.yaml")
			switch test.name {
			case "missing":
			case "a folder":
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			case "unreadable":
				if os.Geteuid() == 0 {
					t.Skip("root reads everything")
				}
				h.write("config/thoughtgate/thoughtgate.yaml", test.content, 0)
			default:
				h.rules(test.content)
			}
			config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
			before := h.read("work/mcp.json")
			named := "THOUGHTGATE_CONFIG=" + path

			for who, r := range map[string]ran{
				"thoughtgated --config":           h.run(nil, "thoughtgated", "--config", path),
				"thoughtgated, by environment":    h.run([]string{named}, "thoughtgated"),
				"tgctl wrap, by environment":      h.run([]string{named}, "tgctl", "wrap", "--agent-type", "custom", "--config-path", config, "--", "touch", h.path("launched")),
				"tgctl wrap, at the usual place":  h.run(nil, "tgctl", "wrap", "--agent-type", "custom", "--config-path", config, "--", "touch", h.path("launched2")),
				"tgctl policy check, by argument": h.run(nil, "tgctl", "policy", "check", path),
			} {
				if who == "tgctl wrap, at the usual place" && test.name == "missing" {
					continue // where no file is named, the built-in default holds
				}
				if r.code == 0 {
					t.Errorf("%s does not refuse: %s%s", who, r.stdout, r.stderr)
				}
				said := r.stdout + r.stderr
				for _, want := range append(test.want, path) {
					if !strings.Contains(said, want) {
						t.Errorf("%s says\n%s\nwhich lacks %q", who, said, want)
					}
				}
			}
			if after := h.read("work/mcp.json"); after != before {
				t.Errorf("the agent's configuration was rewritten:\n%s", after)
			}
			if _, err := os.Stat(h.path("launched")); err == nil {
				t.Error("the agent was launched")
			}
			if test.name == "missing" {
				h.tgctl("daemon", "stop") // started for the wrap without a file
			}
		})
	}
}

// stateRules are those of the tests about a state folder that can't be written.
const stateRules = `schema: 1
governance:
  defaults: {action: forward}
audit: {sync: always}
`

// A state folder that is full: governed calls are refused, for one clear
// reason, until there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	state := h.path("state/thoughtgate")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tg-e2e", state).CombinedOutput(); err != nil {
		t.Skipf("can't mount a small file system (needs root): %s", out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	h.rules(stateRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	defer func() { h.stopDaemon() }()
	if r := a.call("one", "list_notes", nil); r.IsError || r.Error != "" {
		t.Fatalf("while there is room: %+v", r)
	}
	filler := filepath.Join(state, "filler")
	fill(t, filler)

	for range 3 {
		// Larger than what is left of the log's last page.
		r := a.call("one", "write_note", map[string]any{"name": "x", "text": strings.Repeat("y", 8000)})
		if !r.IsError || !strings.Contains(r.Text, "Not executed") || !strings.Contains(r.Text, "record") {
			t.Fatalf("on a full disk: %+v, want a refusal that says that it can't be recorded", r)
		}
		t.Log(r.Text)
	}
	// What is not governed goes on.
	_, list := a.begin(order{Server: "one"})
	a.await(list, "tools/list")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		r := a.call("one", "read_note", map[string]any{"name": "plan"})
		return !r.IsError && strings.Contains(r.Text, "Friday")
	}, patience) {
		t.Error("calls stay refused when there is room again")
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	wantNever(t, h, "one", "write_note")
	h.log() // verifies
}

// fill writes a file until there is no room left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func wantNever(t *testing.T, h *fixture, server, tool string) {
	t.Helper()
	all, err := fake.ReadLog(h.path(server + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Tool == tool {
			t.Errorf("%s executed %s", server, tool)
		}
	}
}

// A state folder that can't be written from the start: no daemon, and so no wrap.
func TestUnwritableState(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(stateRules)
	// A file where the folder should be: root may write to any folder.
	h.write("state/thoughtgate", "", 0o600)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	before := h.read("work/mcp.json")
	for who, r := range map[string]ran{
		"thoughtgated": h.run(nil, "thoughtgated"),
		"tgctl wrap":   h.run(nil, "tgctl", "wrap", "--agent-type", "custom", "--config-path", config, "--", "touch", h.path("launched")),
	} {
		if r.code == 0 || !strings.Contains(r.stdout+r.stderr, h.path("state/thoughtgate")) {
			t.Errorf("%s: exit %d\n%s%s", who, r.code, r.stdout, r.stderr)
		}
	}
	if h.read("work/mcp.json") != before {
		t.Error("the configuration was rewritten")
	}
	if _, err := os.Stat(h.path("launched")); err == nil {
		t.Error("the agent was launched")
	}
}
