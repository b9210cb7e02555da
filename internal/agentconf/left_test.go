package agentconf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What stays ungoverned although the agent may start it, in an entry or elsewhere, is listed, and
// nothing else is.
func TestLeft(t *testing.T) {
	for _, test := range []struct {
		name, agent, file, text string
		more                    string // another file, relative to the home, and its text
		only                    bool   // only the agent's own tools
		off                     string // a variable of the agent that is false
		want                    []string
	}{
		{name: "nothing", agent: "claude-code", file: ".claude.json", text: `{"mcpServers":{"a":{"command":"x"}}}`},
		{
			name: "an address", agent: "claude-code", file: ".claude.json",
			text: `{"mcpServers":{"a":{"command":"x"},"b":{"type":"http","url":"ftp://x.test"}}}`, want: []string{"b a remote server (http), left as it is: its address is neither http, https nor unix://"},
		},
		{
			name: "a project's, not approved yet", agent: "claude-code", file: ".claude.json", text: `{"mcpServers":{"a":{"command":"x"}}}`,
			more: `src/shop/.mcp.json {"mcpServers":{"b":{"url":"ftp://x.test"}}}`, want: []string{"b a remote server, left as it is: its address is neither http, https nor unix://"},
		},
		{
			name: "off, and no server", agent: "claude-code", file: ".claude.json",
			text: `{"projects":{"~":{"disabledMcpServers":["b"]}},"mcpServers":{"a":{"command":"x"},"b":{"url":"https://x.test"},"c":{},"d":{"command":"y","args":7}}}`,
		},
		{
			name: "connectors", agent: "claude-code", file: ".claude.json",
			text: `{"claudeAiMcpEverConnected":["claude.ai Mail"],"mcpServers":{"a":{"command":"x"}}}`,
			want: []string{"connectors of the account at claude.ai, to which the agent itself logs in, are not governed; add each as a server with an address, use `tgctl login ID`, and set ENABLE_CLAUDEAI_MCP_SERVERS=false: claude.ai Mail"},
		},
		{
			name: "connectors that are turned off", agent: "claude-code", file: ".claude.json", off: "ENABLE_CLAUDEAI_MCP_SERVERS",
			text: `{"claudeAiMcpEverConnected":["claude.ai Mail"],"mcpServers":{"a":{"command":"x"}}}`,
		},
		{
			name: "plugins", agent: "claude-code", file: ".claude.json", text: `{"mcpServers":{"a":{"command":"x"}}}`,
			more: `.claude/settings.json {"enabledPlugins":{"p":true}}`, want: []string{"servers of plugins are not governed: p"},
		},
		{
			name: "only its own tools", agent: "claude-code", file: ".claude.json", text: `{"mcpServers":{"a":{"command":"x"}}}`, only: true,
			want: []string{"only the agent's own tools are to be governed"},
		},
		{
			name: "parts of the agent", agent: "goose", file: ".config/goose/config.yaml",
			text: "extensions:\n  a: {type: stdio, cmd: x, args: []}\n  b: {type: builtin}\n  c: {type: streamable_http, uri: ftp://x.test}\n",
			want: []string{"c a remote server (streamable_http), left as it is: its address is neither http, https nor unix://"},
		},
		{
			name: "an extension", agent: "zed", file: ".config/zed/settings.json",
			text: `{"context_servers":{"a":{"command":"x","args":[]},"b":{"settings":{}}}}`, want: []string{"b started by a Zed extension"},
		},
		{
			name: "an entry that can't be rewritten", agent: "codex", file: ".codex/config.toml",
			text: "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b]\ncommand = \"y\"\ncommand = \"z\"\n",
			want: []string{"b an entry that can't be rewritten: line 5, column 1: the name \"command\" is there twice; first at line 4, column 1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(filepath.Join(w.home, test.file), strings.ReplaceAll(test.text, "~", w.cwd))
			if path, text, is := strings.Cut(test.more, " "); is {
				w.write(filepath.Join(w.home, path), text)
			}
			if test.off != "" {
				w.vars[test.off] = "false"
			}
			agent, env := place{agent: test.agent}.start(w)
			env.Tools, env.NoServers = test.only, test.only
			p, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range p.Left() {
				got = append(got, strings.TrimSpace(l.ID+" "+l.Why))
				if (l.ID == "") != (l.Path == "") {
					t.Errorf("%+v", l)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
