package fake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each agent starts the servers that are enabled in its file.
func TestReadConfig(t *testing.T) {
	want := map[string]entry{"a": {Command: "x", Args: []string{"y", "z"}, Env: map[string]string{"K": "v"}}}
	tests := []struct{ name, text string }{
		{"mcp.json", `{"mcpServers": {"a": {"command": "x", "args": ["y", "z"], "env": {"K": "v"}}}}`},
		{"config.toml", "[mcp_servers.a]\ncommand = 'x'\nargs = ['y', 'z']\nenv.K = 'v'\n[mcp_servers.off]\ncommand = 'x'\nenabled = false\n[mcp_servers.cloud]\nurl = 'https://example.test'\n"},
		{"config.yaml", "extensions:\n  a: {type: stdio, enabled: true, cmd: x, args: [y, z], envs: {K: v}, timeout: 5}\n  off: {type: stdio, enabled: false, cmd: x}\n  inside: {type: builtin, enabled: true}\n"},
	}
	for _, test := range tests {
		path := filepath.Join(t.TempDir(), test.name)
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readConfig(path)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	for _, name := range []string{"mcp.json", "config.toml", "config.yaml"} {
		path := filepath.Join(t.TempDir(), name)
		for text, want := range map[string]string{"{": "read " + path, "{}": ""} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %q: %v", name, text, err)
			}
		}
	}
}
