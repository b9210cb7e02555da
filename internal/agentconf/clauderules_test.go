package agentconf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// For any combination of rules by an administrator, the person and the project, Claude Code's
// decision about each server is predicted, with the rule that causes it.
func TestClaudeCodeLists(t *testing.T) {
	const (
		administrators = "no-administrator/managed-settings.json"
		more           = "no-administrator/managed-settings.d/10.json"
		users          = ".claude/settings.json"
		projects       = "src/shop/.claude/settings.json"
		unlisted       = "denied by the agent's own rules: it is not on the list of allowed servers"
	)
	denies := func(path string) string {
		return "denied by the agent's own rules: deniedMcpServers in ~/" + path + " denies it"
	}
	for _, test := range []struct {
		name     string
		settings map[string]string
		want     map[string]string // servers that do not start
		left     string            // servers that stay as they are, separated by blanks
	}{
		{"nothing", nil, nil, "web"},
		{"by command", map[string]string{administrators: `{"deniedMcpServers":[{"serverCommand":["npx","-y","files"]}]}`},
			map[string]string{"files": denies(administrators)}, "files web"},
		{"by another command", map[string]string{administrators: `{"deniedMcpServers":[{"serverCommand":["npx","files"]}]}`}, nil, "web"},
		{"by name", map[string]string{more: `{"deniedMcpServers":[{"serverName":"clock"}]}`}, map[string]string{"clock": denies(more)}, "web"},
		{"by URL", map[string]string{users: `{"deniedMcpServers":[{"serverUrl":"https://*.test/*"}]}`}, map[string]string{"web": denies(users)}, "web"},
		{"a project can deny", map[string]string{projects: `{"deniedMcpServers":[{"serverCommand":["clock-mcp"]}]}`},
			map[string]string{"clock": denies(projects)}, "clock web"},
		{"nothing is allowed", map[string]string{administrators: `{"allowedMcpServers":[]}`},
			map[string]string{"files": unlisted, "clock": unlisted, "web": unlisted}, "web"},
		{"one is allowed by name", map[string]string{administrators: `{"allowedMcpServers":[{"serverName":"files"}]}`},
			map[string]string{"clock": unlisted, "web": unlisted}, "web"},
		{"one is allowed by command", map[string]string{administrators: `{"allowedMcpServers":[{"serverName":"clock"},{"serverCommand":["npx","-y","files"]}]}`},
			map[string]string{"clock": unlisted, "web": unlisted}, "web"},
		{"others allow more", map[string]string{administrators: `{"allowedMcpServers":[{"serverName":"files"}]}`, users: `{"allowedMcpServers":[{"serverName":"clock"}]}`},
			map[string]string{"web": unlisted}, "web"},
		{"others may not", map[string]string{administrators: `{"allowManagedMcpServersOnly":true,"allowedMcpServers":[{"serverName":"files"}]}`, users: `{"allowedMcpServers":[{"serverName":"clock"}]}`},
			map[string]string{"clock": unlisted, "web": unlisted}, "web"},
		{"only an administrator can say so", map[string]string{administrators: `{"allowedMcpServers":[{"serverName":"files"}]}`,
			users: `{"allowManagedMcpServersOnly":true,"allowedMcpServers":[{"serverName":"clock"}]}`}, map[string]string{"web": unlisted}, "web"},
		{"denied and allowed", map[string]string{administrators: `{"allowedMcpServers":[{"serverName":"files"},{"serverName":"clock"},{"serverName":"web"}]}`,
			users: `{"deniedMcpServers":[{"serverName":"files"}]}`}, map[string]string{"files": denies(users)}, "web"},
		{"lines that say nothing", map[string]string{users: `{"deniedMcpServers":[{},7,{"serverCommand":[]},{"serverCommand":"npx"},{"serverName":null}]}`}, nil, "web"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			const servers = `{"mcpServers":{"files":{"command":"npx","args":["-y","files"]},"clock":{"command":"clock-mcp"},"web":{"type":"http","url":"https://x.test/mcp"}}}`
			w.write(w.state(), servers)
			for path, text := range test.settings {
				w.write(filepath.Join(w.home, path), text)
			}
			f, err := claudeCode.Find(claudeCode{}, w.env())
			if err != nil {
				t.Fatal(err)
			}
			got, want := map[string]string{}, map[string]string{}
			var left []string
			for _, e := range f.Sources[0].Entries {
				if why := e.NotStarted(); why != "" {
					got[e.ID] = strings.ReplaceAll(why, w.home, "~")
				}
				if e.Ungoverned != "" {
					left = append(left, e.ID)
				}
			}
			for id, why := range test.want {
				want[id] = why
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not started (-want +got):\n%s", diff)
			}
			if strings.Join(left, " ") != test.left {
				t.Errorf("left as they are: %s, want %s", left, test.left)
			}
		})
	}
}

// A server denied by its command is not rewritten, so that it stays denied.
func TestDeniedStaysAsItIs(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.home, ".claude", "settings.json"), `{"deniedMcpServers":[{"serverCommand":["evil","-x"]}]}`)
	w.write(w.project(), `{"mcpServers":{"evil":{"command":"evil","args":["-x"]},"files":{"command":"files"}}}`)
	p, _ := w.wrapped()
	text := w.read(w.project())
	if !strings.Contains(text, `"evil":{"command":"evil","args":["-x"]}`) || strings.Count(text, "tg-shim") != 1 {
		t.Errorf("rewritten:\n%s", text)
	}
	if s := p.Shipped(); len(s) != 1 || s[0].ID != "files" {
		t.Errorf("asked about: %+v", s)
	}
}
