package agentconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const listOfServers = `name: Ada's assistant
mcpServers:
  - name: SQL ite          # a list, not a map
    command: npx
    args: ["-y", "größe.sqlite"]
    connectionTimeout: 10000
  - name: Remote
    type: streamable-http
    url: https://mcp.example.test/mcp
  -   command: 'x'
      name: second
      args:
      - "@x/y"
  - uses: some/block
`

// The file may be in any syntax, and its servers may be in a list, where an index does not
// identify a server.
func TestCustomList(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	env.Config = filepath.Join(w.home, "config.yaml")
	w.write(env.Config, listOfServers)
	p := w.governedBy(custom{}, env)
	now := w.read(env.Config)
	for _, part := range []string{
		`    args: ["--server-id", "SQL ite", "--", npx, "-y", "größe.sqlite"]`,
		"      args:\n      - \"--server-id\"\n      - \"second\"\n      - \"--\"\n      - 'x'\n      - \"@x/y\"\n",
	} {
		if !strings.Contains(now, part) {
			t.Errorf("%q is missing in\n%s", part, now)
		}
	}
	added := "  - name: first\n    command: new\n"
	w.write(env.Config, strings.Replace(now, "mcpServers:\n", "mcpServers:\n"+added, 1))
	w.restore(p)
	w.wantFile(env.Config, strings.Replace(listOfServers, "mcpServers:\n", "mcpServers:\n"+added, 1))
	w.wantClean()
}

func TestCustomTOML(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	env.Config = filepath.Join(w.home, "agent.toml")
	before := "[mcp_servers.a]\r\ncommand = 'x'"
	w.write(env.Config, before)
	p := w.governedBy(custom{}, env)
	if now := w.read(env.Config); !strings.HasSuffix(now, `command = "`+w.shim+`"`) {
		t.Errorf("while wrapped: %s", now)
	}
	w.restore(p)
	w.wantFile(env.Config, before)
}

// Without a journal the original limits come from a backup. Without a backup they are unknown:
// the raised limits stay, with a note.
func TestUnwrapLimits(t *testing.T) {
	const before = "extensions:\n  a:\n    type: stdio\n    cmd: 'x y'\n    timeout: 300 # s\n"
	for _, backup := range []bool{true, false} {
		w := newWorld(t)
		path := gooseConfig(w)
		w.write(path, before)
		w.governedBy(goose{}, codexEnv(w, "goose")).Unlock()
		want := before
		if !backup {
			if err := os.Remove(path + backupSuffix); err != nil {
				t.Fatal(err)
			}
			want = "extensions:\n  a:\n    args: []\n    envs: {}\n    type: stdio\n    cmd: 'x y'\n    timeout: 660 # s\n"
		}
		report, err := Unwrap(path, w.notes())
		if err != nil {
			t.Fatal(err)
		}
		w.wantFile(path, want)
		if said := strings.Contains(report.String(), "/extensions/a/timeout"); said == backup {
			t.Errorf("with a backup %v: %s", backup, report)
		}
		w.wantClean()
	}
}
