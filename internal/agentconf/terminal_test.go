package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Expected servers of the agents for terminals.
var (
	geminiManaged = []string{
		"no-administrator/settings.json system boss: managed (set by an administrator in ~/no-administrator/settings.json)",
		"no-administrator/settings.json system far:  (a remote server)",
	}
	geminiDefaults = []string{
		"no-administrator/system-defaults.json system defaults default: d (set by an administrator in ~/no-administrator/system-defaults.json)",
		"no-administrator/system-defaults.json system defaults search: d [another scope has the name too] (set by an administrator in ~/no-administrator/system-defaults.json)",
	}
	geminiUser = []string{
		".gemini/settings.json user search: $SEARCH_HOME/search ${QUERY:-all}",
		".gemini/settings.json user shared: user-shared [another scope has the name too]",
		".gemini/settings.json user blocked: b [disabled]",
		".gemini/settings.json user switched: s [disabled]",
		".gemini/settings.json user stream: not this (a remote server)",
		".gemini/settings.json user sse:  (a remote server)",
		".gemini/settings.json user boss: mine [another scope has the name too]",
	}
	geminiExtensions = []string{
		"dev/linked/gemini-extension.json extension dev: dev-mcp",
		".gemini/extensions/notes/gemini-extension.json extension notes: node ${extensionPath}/s.js",
		".gemini/extensions/notes/gemini-extension.json extension shared: x [another scope has the name too]",
	}
	geminiWarnings = []string{
		"servers that an administrator set in ~/no-administrator/settings.json are not governed: boss",
		"servers that an administrator set in ~/no-administrator/system-defaults.json are not governed: default, search",
		"the servers of the extension broken are not governed: ~/.gemini/extensions/broken/gemini-extension.json: line 2, column 1: parsing value: unexpected EOF",
		"the server named by mcp.serverCommand in ~/no-administrator/settings.json is not governed",
	}
	opencodeUser = []string{
		".config/opencode/opencode.json user files: npx -y files {env:HOME}/src",
		".config/opencode/opencode.json user off: off-mcp [disabled]",
		".config/opencode/opencode.json user on again: again",
		".config/opencode/opencode.json user remote:  (a remote server)",
		".config/opencode/opencode.json user string:  (not a server: command is not a list of strings)",
		".config/opencode/opencode.json user moved away: away (a remote server, by another file)",
		".config/opencode/config.json user old: old-mcp [disabled]",
	}
	opencodeManaged  = []string{"no-administrator/opencode.json managed managed: managed-mcp (set by an administrator in ~/no-administrator/opencode.json)"}
	opencodeWarnings = []string{"servers set by an administrator are not governed: managed"}
	copilotUser      = []string{
		".copilot/mcp-config.json user local: ${TOOLS}/local $TOOLS",
		".copilot/mcp-config.json user stdio: s",
		".copilot/mcp-config.json user off: o [disabled]",
		".copilot/mcp-config.json user switched: s [disabled]",
	}
	copilotRest = []string{
		".copilot/mcp-config.json user http:  (a remote server (http))",
		".copilot/mcp-config.json user array:  (not a server: no command)",
	}
	copilotPlugins = "servers of plugins are not governed: notes"
)

var terminalTests = []adapterTest{
	{agent: "gemini", command: "gemini", want: slices.Concat(geminiManaged,
		[]string{"src/shop/.gemini/settings.json project shared: project-shared"}, geminiUser, geminiDefaults, geminiExtensions,
		[]string{".gemini/extensions/off/gemini-extension.json extension offered: o [disabled]"}), warnings: geminiWarnings},
	{agent: "gemini", command: "gemini --allowed-mcp-server-names blocked -e off", vars: "GEMINI_CLI_SYSTEM_SETTINGS_PATH=~/none/s.json", want: []string{
		"src/shop/.gemini/settings.json project shared: project-shared [disabled]",
		".gemini/settings.json user search: $SEARCH_HOME/search ${QUERY:-all} [disabled]",
		".gemini/settings.json user shared: user-shared [disabled]",
		".gemini/settings.json user blocked: b",
		".gemini/settings.json user switched: s [disabled]",
		".gemini/settings.json user stream: not this [disabled] (a remote server)",
		".gemini/settings.json user sse:  [disabled] (a remote server)",
		".gemini/settings.json user boss: mine [disabled]",
		"dev/linked/gemini-extension.json extension dev: dev-mcp [disabled]",
		".gemini/extensions/notes/gemini-extension.json extension notes: node ${extensionPath}/s.js [disabled]",
		".gemini/extensions/notes/gemini-extension.json extension shared: x [disabled]",
		".gemini/extensions/off/gemini-extension.json extension offered: o [disabled]",
	}, warnings: geminiWarnings[2:3]},
	{agent: "gemini", command: "gemini", vars: "GEMINI_CLI_HOME=~/moved GEMINI_CLI_SYSTEM_SETTINGS_PATH=~/none/s.json GEMINI_CLI_TRUST_WORKSPACE=false", want: []string{
		"src/shop/.gemini/settings.json project shared: project-shared [not approved yet]",
		"moved/.gemini/settings.json user moved: m [not approved yet]",
	}, warnings: []string{"gemini does not trust this folder yet and starts no servers until you trust it"}},

	{agent: "opencode", command: "opencode", want: slices.Concat(opencodeManaged,
		[]string{"src/shop/opencode.jsonc project files: ./files", "src/shop/opencode.jsonc project moved away:  (a remote server)",
			"src/opencode.json project above: above"}, opencodeUser), warnings: opencodeWarnings},
	{agent: "opencode", command: "opencode web", vars: "OPENCODE_CONFIG=~/var.json OPENCODE_CONFIG_DIR=~/dir",
		want: slices.Concat(opencodeManaged, []string{"dir/opencode.jsonc OPENCODE_CONFIG_DIR dir: dir", "src/shop/web/opencode.json project web: web",
			"src/shop/opencode.jsonc project files: ./files", "src/shop/opencode.jsonc project moved away:  (a remote server)",
			"src/opencode.json project above: above", "var.json OPENCODE_CONFIG var: var"}, opencodeUser), warnings: opencodeWarnings},
	{agent: "opencode", command: "opencode run --dir ~/src/shop/web hello", vars: "XDG_CONFIG_HOME=~/none", want: slices.Concat(opencodeManaged,
		[]string{"src/shop/web/opencode.json project web: web", "src/shop/opencode.jsonc project files: ./files",
			"src/shop/opencode.jsonc project moved away:  (a remote server)", "src/opencode.json project above: above"}), warnings: opencodeWarnings},
	{agent: "opencode", command: "opencode run hello", vars: "XDG_CONFIG_HOME=~/none OPENCODE_DISABLE_PROJECT_CONFIG=1", want: opencodeManaged, warnings: opencodeWarnings},

	{agent: "copilot-cli", command: "copilot", want: slices.Concat(
		[]string{"src/shop/.mcp.json project shared: project-shared [not approved yet]"}, copilotUser,
		[]string{".copilot/mcp-config.json user shared: user-shared [another scope has the name too]"}, copilotRest),
		warnings: []string{copilotPlugins, "copilot does not trust this folder yet and starts none of its servers until you trust it"}},
	{agent: "copilot-cli", command: "copilot --trust-folder --disable-mcp-server stdio --additional-mcp-config=@~/more.json", want: slices.Concat(
		[]string{"more.json --additional-mcp-config shared: more-shared", "src/shop/.mcp.json project shared: project-shared [another scope has the name too]"},
		copilotUser[:1], []string{".copilot/mcp-config.json user stdio: s [disabled]"}, copilotUser[2:],
		[]string{".copilot/mcp-config.json user shared: user-shared [another scope has the name too]"}, copilotRest),
		warnings: []string{copilotPlugins}},
	{agent: "copilot-cli", command: "copilot -C ~/trusted", want: slices.Concat(
		[]string{"trusted/.github/mcp.json project github: g"}, copilotUser,
		[]string{".copilot/mcp-config.json user shared: user-shared"}, copilotRest), warnings: []string{copilotPlugins}},
	{agent: "copilot-cli", command: "copilot", vars: "COPILOT_HOME=~/moved COPILOT_ALLOW_ALL=true",
		want: []string{"src/shop/.mcp.json project shared: project-shared", "moved/mcp-config.json user moved: m"}},

	{agent: "cline", command: "cline", want: []string{
		".cline/data/settings/cline_mcp_settings.json user flat: node ${HOME}/s.js",
		".cline/data/settings/cline_mcp_settings.json user nested: uvx notes",
		".cline/data/settings/cline_mcp_settings.json user off: o [disabled]",
		".cline/data/settings/cline_mcp_settings.json user far:  (a remote server (sse))",
		".cline/data/settings/cline_mcp_settings.json user stream:  (a remote server (streamableHttp))",
		".cline/data/settings/cline_mcp_settings.json user older: older",
		".cline/data/settings/cline_mcp_settings.json user oldest: c (a remote server (http))",
	}},
	{agent: "cline", command: "cline", vars: "CLINE_DIR=~/dir", want: []string{"dir/data/settings/cline_mcp_settings.json user dir: d"}},
	{agent: "cline", command: "cline", vars: "CLINE_DIR=~/dir CLINE_DATA_DIR=~/data", want: []string{"data/settings/cline_mcp_settings.json user data: d"}},
	{agent: "cline", command: "cline", vars: "CLINE_DATA_DIR=~/data CLINE_MCP_SETTINGS_PATH=~/named.json", want: []string{"named.json user named: n"}},
}

// The folder of a rule, the last matching rule, and the longest path that trusts.
func TestGeminiFolders(t *testing.T) {
	w := newWorld(t)
	w.unpack("gemini")
	for dir, want := range map[string]bool{"": true, "src": true, "src/shop/deep": true, "src/shop/secret/y": true, "src/shop/foreign/z": false, "elsewhere": false} {
		env := w.env()
		env.Cwd = filepath.Join(w.home, dir)
		if dir == "" {
			env.Cwd = filepath.Join(w.home, "src")
		}
		if got := (gemini{}).trusted(env, true); got != want {
			t.Errorf("%s is trusted: %v", dir, got)
		}
	}
	for _, test := range []struct {
		rules string
		want  bool
	}{
		{"", true}, {"!/a/b/", false}, {"!/a/", true}, {"!/a/*", false}, {"!/a/* /a/b/", true}, {"/a/b/ !/*", false}, {"!/a/bc*", true},
	} {
		if got := geminiEnabled(strings.Fields(test.rules), "/a/b"); got != test.want {
			t.Errorf("%q: %v", test.rules, got)
		}
	}
}

// A file that is only read may belong to anyone, and must not block.
func TestLookAt(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, "settings.json")
	if n, err := readSettings(path, strict); n.Exists() || err != nil {
		t.Errorf("nothing there: %v, %v", n, err)
	}
	w.write(filepath.Join(w.home, "target.json"), `{"a":true}`)
	if err := os.Symlink("target.json", path); err != nil {
		t.Fatal(err)
	}
	if n, err := readSettings(path, strict); !n.Member("a").IsTrue() || err != nil {
		t.Errorf("a link: %v, %v", n, err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := readSettings(path, strict); !n.Member("a").IsTrue() || err != nil {
		t.Errorf("somebody else's: %v, %v", n, err)
	}
	w.write(path, `{"a":`)
	_, err := readSettings(path, strict)
	wantError(t, err, path+": line 1, column ")
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = readSettings(path, strict)
	wantError(t, err, path, "is not a regular file")
}

// In the home folder there is only one file.
func TestGeminiAtHome(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.home, ".gemini", "settings.json"), `{"mcpServers":{"a":{"command":"x"}}}`)
	env := w.env()
	env.Cwd = w.home
	w.vars["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
	got := find(t, gemini{}, w, env)
	if want := []string{".gemini/settings.json user a: x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Servers on a command line or in a variable can't be rewritten.
func TestSpeltOut(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	env.Command = []string{"copilot", "--additional-mcp-config", `{"mcpServers":{}}`}
	_, err := copilot{}.Find(env)
	wantError(t, err, "defines servers on the command line")

	w.write(filepath.Join(w.cwd, "opencode.json"), `{"mcp":{"a":{"type":"local","command":["x"]}}}`)
	env.Command = []string{"opencode"}
	w.vars[scopeContent] = `{"mcp":{"b":{"type":"local","command":["y"]}}}`
	p, err := NewPlan(opencode{}, env, w.shim)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, p.CheckUnreached(), "OPENCODE_CONFIG_CONTENT defines servers (b), which a rewrite of files does not change")
}
