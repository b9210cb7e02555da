package agentconf

import (
	"path/filepath"
	"strings"
	"testing"
)

// Servers added to files that are not JSON are adopted and restored like any others.
func TestAdoptFormats(t *testing.T) {
	tests := []struct{ agent, file, before, added string }{
		{"codex", ".codex/config.toml",
			"model = \"o\" # mine\n\n[mcp_servers.a]\ncommand = \"a\"\n",
			"\n[mcp_servers.new]   # added\ncommand = 'n'\nargs = [\n  \"-y\",\n]\n"},
		{"goose", ".config/goose/config.yaml",
			"extensions:\n  a:\n    type: stdio\n    enabled: true\n    cmd: a\n    args: []\n",
			"  new: # added\n    type: stdio\n    enabled: true\n    cmd: n\n    args:\n      - \"-y\"\n    timeout: 300\n"},
		{"opencode", ".config/opencode/opencode.json",
			"{\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"a\"]}\n", ",\"new\":{\"type\":\"local\",\"command\":[\"n\",\"-y\"]}\n"},
	}
	for _, test := range tests {
		t.Run(test.agent, func(t *testing.T) {
			w := newWorld(t)
			path, end := filepath.Join(w.home, test.file), ""
			if strings.HasSuffix(path, ".json") {
				end = "}}\n"
			}
			w.write(path, test.before+end)
			agent, err := AgentFor(test.agent, nil)
			if err != nil {
				t.Fatal(err)
			}
			env := w.env()
			env.Command = []string{test.agent}
			p, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{p.Lock(w.line().Session), p.Backup(), p.Prepare(w.line()), p.Apply()} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.write(path, strings.TrimSuffix(w.read(path), end)+test.added+end)
			if got := drift(t, p); got != "new added" {
				t.Fatalf("drift: %s\n%s", got, w.read(path))
			}
			if err := p.Adopt(daemonKeeps{}.commit); err != nil {
				t.Fatal(err)
			}
			if got := drift(t, p); got != "" || strings.Count(w.read(path), w.line().Session) != 2 {
				t.Errorf("adopted, and still: %s\n%s", got, w.read(path))
			}
			w.restore(p)
			w.wantFile(path, test.before+test.added+end)
			w.wantClean()
		})
	}
}
