package agentconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/edit/jsonc"
)

// place is a list of servers in a file of an agent.
type place struct {
	agent    string
	file     string   // path below the home
	list     []string // path of the list in the file; ~ stands for the project's path
	comments bool     // the agent accepts comments and trailing commas
}

const workspaceFile = "src/shop/all.code-workspace"

// places are all scopes of the agents with JSON files.
var places = []place{
	{"claude-code", ".claude.json", []string{"mcpServers"}, false},
	{"claude-code", ".claude.json", []string{"projects", "~", "mcpServers"}, false},
	{"claude-code", "src/shop/.mcp.json", []string{"mcpServers"}, false},
	{"claude-code", "src/.mcp.json", []string{"mcpServers"}, false},
	{"claude-desktop", ".config/Claude/claude_desktop_config.json", []string{"mcpServers"}, false},
	{"cursor", ".cursor/mcp.json", []string{"mcpServers"}, false},
	{"cursor", "src/shop/.cursor/mcp.json", []string{"mcpServers"}, false},
	{"windsurf", ".codeium/windsurf/mcp_config.json", []string{"mcpServers"}, false},
	{"vscode", "src/shop/.vscode/mcp.json", []string{"servers"}, true},
	{"vscode", "src/shop/.vscode/settings.json", []string{"mcp", "servers"}, true},
	{"vscode", "src/shop/.mcp.json", []string{"mcpServers"}, true},
	{"vscode", "src/shop/.mcp.json", nil, true},
	{"vscode", workspaceFile, []string{"settings", "mcp", "servers"}, true},
	{"vscode", ".config/Code/User/mcp.json", []string{"servers"}, true},
	{"vscode", ".config/Code/User/settings.json", []string{"mcp.servers"}, true},
	{"vscode", ".config/Code/User/profiles/a b/mcp.json", []string{"servers"}, true},
	{"vscode", ".config/Code/User/profiles/a b/settings.json", []string{"mcp", "servers"}, true},
	{"vscode", ".copilot/mcp-config.json", []string{"mcpServers"}, true},
	{"zed", ".config/zed/settings.json", []string{"context_servers"}, true},
	{"zed", ".config/zed/settings.json", []string{"linux", "context_servers"}, true},
	{"zed", ".config/zed/settings.json", []string{"nightly", "context_servers"}, true},
	{"zed", ".config/zed/settings.json", []string{"profiles", "work", "context_servers"}, true},
	{"zed", "src/shop/.zed/settings.json", []string{"context_servers"}, true},
	{"gemini", ".gemini/settings.json", []string{"mcpServers"}, false},
	{"gemini", "src/shop/.gemini/settings.json", []string{"mcpServers"}, false},
	{"qwen", ".qwen/settings.json", []string{"mcpServers"}, false},
	{"qwen", "src/shop/.qwen/settings.json", []string{"mcpServers"}, false},
	{"copilot-cli", ".copilot/mcp-config.json", []string{"mcpServers"}, true},
	{"copilot-cli", "src/shop/.mcp.json", []string{"mcpServers"}, true},
	{"crush", ".config/crush/crush.json", []string{"mcp"}, false},
	{"crush", ".local/share/crush/crush.json", []string{"mcp"}, false},
	{"crush", "src/crush.json", []string{"mcp"}, false},
	{"crush", "src/shop/.crush.json", []string{"mcp"}, false},
	{"droid", ".factory/mcp.json", []string{"mcpServers"}, false},
	{"droid", "src/shop/.factory/mcp.json", []string{"mcpServers"}, false},
	{"kiro", ".kiro/settings/mcp.json", []string{"mcpServers"}, false},
	{"kiro", "src/shop/.kiro/settings/mcp.json", []string{"mcpServers"}, false},
	{"amp", ".config/amp/settings.json", []string{"amp.mcpServers"}, true},
	{"amp", "src/.amp/settings.json", []string{"amp.mcpServers"}, true},
	{"antigravity", ".gemini/config/mcp_config.json", []string{"mcpServers"}, false},
	{"antigravity", ".gemini/antigravity/mcp_config.json", []string{"mcpServers"}, false},
	{"antigravity", "src/shop/.agents/mcp_config.json", []string{"mcpServers"}, false},
	{"devin", ".config/devin/config.json", []string{"mcpServers"}, true},
	{"devin", ".config/devin/mcp_config.json", []string{"mcpServers"}, true},
	{"devin", "src/shop/.devin/config.local.json", []string{"mcpServers"}, true},
	{"cline", ".cline/data/settings/cline_mcp_settings.json", []string{"mcpServers"}, false},
}

// listPlaces are those where a command is a list.
var listPlaces = []place{
	{"opencode", ".config/opencode/config.json", []string{"mcp"}, true},
	{"opencode", ".config/opencode/opencode.json", []string{"mcp"}, true},
	{"opencode", ".opencode/opencode.jsonc", []string{"mcp"}, true},
	{"opencode", "src/opencode.json", []string{"mcp"}, true},
	{"opencode", "src/shop/opencode.jsonc", []string{"mcp"}, true},
	{"opencode", "src/shop/.opencode/opencode.json", []string{"mcp"}, true},
}

// text draws a file with servers at the place.
func (p place) text(t *rapid.T, w *world) string {
	l := drawLayout(t, p.comments)
	var servers []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(t, "servers") {
		server := l.server(len(p.list) + 1)
		if p.agent == "opencode" {
			server = l.listServer(len(p.list) + 1)
		}
		if p.agent == "cline" && rapid.Bool().Draw(t, "nested") {
			server = l.list("{", "}", 1, []string{l.member(`"transport"`, server), l.member(`"disabled"`, "false")})
		}
		if p.agent == "zed" && rapid.Bool().Draw(t, "nested") {
			server = l.list("{", "}", 1, []string{
				l.member(`"source"`, `"custom"`),
				l.member(`"command"`, strings.Replace(server, `"command"`, `"path"`, 1)),
				l.member(`"settings"`, "{}"),
			})
		}
		servers = append(servers, l.member(name, server))
	}
	text := l.list("{", "}", len(p.list), rapid.Permutation(servers).Draw(t, "order"))
	for depth := len(p.list) - 1; depth >= 0; depth-- {
		parts := []string{
			l.member(jsonc.Syntax{}.Quote(strings.ReplaceAll(p.list[depth], "~", w.cwd)), text),
			l.member(fmt.Sprintf(`"other %d"`, depth), l.list("[", "]", depth+1, []string{"1.0", "null", `{"command": "x"}`})),
		}
		text = l.list("{", "}", depth, rapid.Permutation(parts).Draw(t, "order"))
	}
	return l.mark + text + l.end
}

// writtenFile is a file as it was before the wrap.
type writtenFile struct {
	path, text string
	target     string // target of a link at path, empty for none
	mode       os.FileMode
}

// put writes a file with a drawn mode, maybe behind a link.
func (p place) put(t *rapid.T, w *world) writtenFile {
	f := writtenFile{path: filepath.Join(w.home, p.file), text: p.text(t, w)}
	f.mode = rapid.SampledFrom([]os.FileMode{0o600, 0o640, 0o644, 0o664, 0o400}).Draw(t, "mode")
	at := f.path
	if rapid.IntRange(0, 3).Draw(t, "link") == 0 {
		f.target = filepath.Join(w.home, "dotfiles", strings.ReplaceAll(p.file, "/", "-"))
		at = f.target
	}
	w.write(at, f.text)
	if err := os.Chmod(at, f.mode); err != nil {
		t.Fatal(err)
	}
	if f.target != "" {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(f.target, f.path); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// wantBack fails the test if the file is not as it was.
func (f writtenFile) wantBack(t *rapid.T, wrapped string) {
	got, err := os.ReadFile(f.path)
	if err != nil || string(got) != f.text {
		t.Fatalf("%s is not the same: %v\nbefore  %q\nwrapped %q\nafter   %q", f.path, err, f.text, wrapped, got)
	}
	link, _ := os.Readlink(f.path)
	if info, err := os.Stat(f.path); err != nil || info.Mode() != f.mode || link != f.target {
		t.Fatalf("%s: %v, mode %v, want %v; it leads to %q, want %q", f.path, err, info.Mode(), f.mode, link, f.target)
	}
}

// commandOf returns a command that makes the agent read all its places.
func commandOf(agent string, w *world) []string {
	switch agent {
	case "claude-code":
		return []string{"claude"}
	case "vscode":
		return []string{"code", w.cwd, filepath.Join(w.home, workspaceFile)}
	}
	if words := strings.Fields(kindOf(agent).commands); len(words) > 0 {
		return words[:1]
	}
	return []string{agent}
}

// For any file in any place of any agent, wrapping inserts tg-shim before every server and
// changes nothing else. Undoing that, by journal or by hand, restores the files with their
// bytes, modes and links.
func TestEveryPlaceComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		all := slices.Concat(places, listPlaces)
		first := rapid.SampledFrom(all).Draw(rt, "place")
		files := []writtenFile{first.put(rt, w)}
		for _, p := range all {
			if p.agent == first.agent && !fileExists(filepath.Join(w.home, p.file)) && rapid.IntRange(0, 2).Draw(rt, "too") == 0 {
				files = append(files, p.put(rt, w))
			}
		}
		env := w.env()
		env.OS, env.Command = "linux", commandOf(first.agent, w)
		agent, err := AgentFor(first.agent, nil)
		if err != nil {
			rt.Fatal(err)
		}
		p, err := NewPlan(agent, env, w.shim)
		if err != nil {
			rt.Fatalf("%v\n%+v", err, files)
		}
		defer p.Unlock()
		for _, do := range []func() error{
			func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
		} {
			if err := do(); err != nil {
				rt.Fatalf("%v\n%+v", err, files)
			}
		}
		if drift, err := p.Drift(); err != nil || len(drift) > 0 || len(p.files) != len(files) {
			rt.Fatalf("%d files of %d are rewritten, drift %+v, %v\n%+v", len(p.files), len(files), drift, err, files)
		}
		wrapped := map[string]string{}
		for _, f := range files {
			wrapped[f.path] = w.read(f.path)
		}
		if rapid.Bool().Draw(rt, "by hand") {
			p.Unlock()
			for _, f := range files {
				if _, err := Unwrap(f.path, w.notes()); err != nil {
					rt.Fatalf("%v\n%s", err, wrapped[f.path])
				}
			}
		} else if _, err := p.Restore(); err != nil {
			rt.Fatal(err)
		}
		for _, f := range files {
			f.wantBack(rt, wrapped[f.path])
		}
		p.Unlock()
		if left := w.leftovers(); len(left) > 0 {
			rt.Fatalf("left behind: %q", left)
		}
	})
}
