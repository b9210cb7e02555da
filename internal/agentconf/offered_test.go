package agentconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOffered checks that an entry that starts tg-shim for an extension is left alone beside
// servers that are rewritten, and that similar entries are refused.
func TestOffered(t *testing.T) {
	const socket = "/run/user/1000/thoughtgate/shim.sock"
	tests := []struct {
		name    string
		entry   string // %s is tg-shim
		offered bool
	}{
		{"with the socket", `{"command": %q, "args": ["--extension", "notes"], "env": {"THOUGHTGATE_SOCKET": "` + socket + `"}}`, true},
		{"without a socket", `{"command": %q, "args": ["--extension", "notes"]}`, true},
		{"with another socket", `{"command": %q, "args": ["--extension", "notes"], "env": {"THOUGHTGATE_SOCKET": "/tmp/mine.sock"}}`, false},
		{"with another variable", `{"command": %q, "args": ["--extension", "notes"], "env": {"LD_PRELOAD": "/tmp/mine.so"}}`, false},
		{"with a server behind it", `{"command": %q, "args": ["--extension", "notes", "--", "sh"]}`, false},
		{"without a name", `{"command": %q, "args": ["--extension", ""]}`, false},
		{"with more", `{"command": %q, "args": ["--extension", "notes", "--profile", "development"]}`, false},
		{"another program of the name", `{"command": "OTHER", "args": ["--extension", "notes"]}`, false},
		{"a bare name", `{"command": "tg-shim", "args": ["--extension", "notes"]}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			other := filepath.Join(w.home, "bin", shimName)
			w.write(other, "#!/bin/sh\n# another\n")
			if err := os.Chmod(other, 0o755); err != nil {
				t.Fatal(err)
			}
			entry := strings.ReplaceAll(test.entry, "OTHER", other)
			if strings.Contains(entry, "%q") {
				entry = fmt.Sprintf(entry, w.shim)
			}
			text := `{"mcpServers": {"notes": ` + entry + `, "git": {"command": "git-server"}}}` + "\n"
			w.write(w.state(), text)
			agent, err := AgentFor("claude-code", nil)
			if err != nil {
				t.Fatal(err)
			}
			env := w.env()
			env.Socket = socket
			plan, err := NewPlan(agent, env, w.shim)
			if !test.offered {
				if !errors.Is(err, ErrWrapped) {
					t.Fatalf("error %v, want %v", err, ErrWrapped)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Prepare(w.line()); err != nil {
				t.Fatal(err)
			}
			diff := plan.Diff()
			if !strings.Contains(diff, `"--server-id", "git"`) || strings.Contains(diff, `"--server-id", "notes"`) {
				t.Errorf("the rewrite is\n%s", diff)
			}
			for _, e := range plan.Entries() {
				if e.ID == "notes" && (e.Ungoverned != offersTools || !e.Offers()) || e.ID == "git" && e.Offers() {
					t.Errorf("left alone because %q", e.Ungoverned)
				}
			}
			if report, err := Unwrap(w.state(), w.notes()); err != nil || report.State != Untouched || w.read(w.state()) != text {
				t.Errorf("unwrapped: %+v, %v\n%s", report, err, w.read(w.state()))
			}
			env.Shim = w.shim
			for _, s := range Look(env) {
				for _, server := range s.Servers {
					if server.ID == "notes" && (server.Governed != ByItself || server.Why != "") {
						t.Errorf("shown as %q, %q", server.Governed, server.Why)
					}
				}
			}
		})
	}
}
