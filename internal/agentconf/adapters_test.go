package agentconf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpack writes the files in a testdata file to the world. Each follows a line with its name,
// home/... or project/..., between dashes. Paths in the texts are those of a user ada and her
// project shop.
func (w *world) unpack(name string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		w.t.Fatal(err)
	}
	moved := strings.NewReplacer("/home/ada/src/shop", w.cwd, "/home/ada", w.home).Replace(string(text))
	for part := range strings.SplitSeq("\n"+moved, "\n-- ") {
		name, text, found := strings.Cut(part, " --\n")
		if !found {
			continue
		}
		if rel, is := strings.CutPrefix(name, "project/"); is {
			w.write(filepath.Join(w.cwd, rel), text+"\n")
		} else {
			w.write(filepath.Join(w.home, strings.TrimPrefix(name, "home/")), text+"\n")
		}
	}
}

var (
	vscodeOpened = []string{
		"src/shop/.vscode/mcp.json workspace files: ${workspaceFolder}/bin/files",
		"src/shop/.vscode/mcp.json workspace debugged: node s.js",
		"src/shop/.vscode/mcp.json workspace boxed: node b.js",
		"src/shop/.mcp.json workspace root portable: portable-mcp",
		"src/shop/.mcp.json workspace root Boxed: no [another scope has the name too]",
		"src/shop/.mcp.json workspace root hosted:  (a remote server (http))",
	}
	vscodeOpenedWarnings = []string{
		"the debugger that server debugged requests (dev.debug) would attach to tg-shim instead",
		"server boxed runs in the editor's sandbox (sandboxEnabled), which may block tg-shim from the daemon",
		"server inside of ~/src/shop/.devcontainer/devcontainer.json is started in the container and is not governed",
	}
	vscodeUser = []string{
		".config/Code/User/mcp.json user Files: npx -y files ${userHome} [another scope has the name too]",
		".config/Code/User/mcp.json user keys: keys-mcp",
		".config/Code/User/mcp.json user cloud:  (a remote server (http))",
		".config/Code/User/mcp.json user socket:  (a remote server)",
		".config/Code/User/settings.json user settings older: old-mcp",
		".config/Code/User/profiles/4f3a/mcp.json user profile browser: uvx browser [for another profile or system only]",
		".config/Code/User/profiles/4f3a/settings.json user profile settings profile older: p [for another profile or system only]",
		".copilot/mcp-config.json user copilot chat: chat-mcp",
		".copilot/mcp-config.json user copilot files: f [another scope has the name too]",
	}
	zedRest = []string{
		".config/zed/settings.json user off: off-mcp [disabled]",
		".config/zed/settings.json user nested: /usr/bin/env db-mcp --dsn größe",
		".config/zed/settings.json user nested bare: db-mcp",
		".config/zed/settings.json user from an extension:  (started by a Zed extension)",
		".config/zed/settings.json user older extension:  (started by a Zed extension)",
		".config/zed/settings.json user hosted:  (a remote server)",
		".config/zed/settings.json user nothing:  (not a server: no command)",
		"src/shop/.zed/settings.json project plain: node tools/plain.js",
	}
	zedWarnings = []string{"servers of Zed extensions are not governed: docs-server"}
)

// adapterTest is what is expected in testdata for an agent, started by command. Commands and
// values may use ~ for the home.
type adapterTest struct {
	agent, command string
	vars           string // NAME=value ...
	os             string // linux if empty
	want           []string
	warnings       []string
}

var adapterTests = []adapterTest{
	{agent: "claude-desktop", command: "claude-desktop", want: []string{
		".config/Claude/claude_desktop_config.json user calendar: /opt/cal/bin/cal-mcp",
		".config/Claude/claude_desktop_config.json user Fächer: uvx --room ${HOME} Süd",
		".config/Claude/claude_desktop_config.json user remote:  (a remote server)",
	}, warnings: []string{"servers in extensions of Claude Desktop are not governed: ant.dir.example.weather"}},
	{agent: "claude-desktop", command: "open -a Claude", os: "darwin", want: []string{
		"Library/Application Support/Claude/claude_desktop_config.json user mac: mac-mcp"}},
	{agent: "claude-desktop", command: "claude-desktop --user-data-dir=~/moved", want: []string{
		"moved/claude_desktop_config.json user moved: m"}},
	{agent: "claude-desktop", command: "claude-desktop", vars: "XDG_CONFIG_HOME=~/nowhere"},

	// EC-STDIO-025: if two scopes have the same name, the project's counts.
	{agent: "cursor", command: "cursor", vars: "SEARCH_KEY=k", want: []string{
		".cursor/mcp.json user issues: npx -y issues-mcp ${userHome}${/}notes",
		".cursor/mcp.json user search: search-mcp [another scope has the name too]",
		".cursor/mcp.json user hosted:  (a remote server)",
		".cursor/mcp.json user flagged: no (a remote server (sse))",
		"src/shop/.cursor/mcp.json project search: ./tools/search ${workspaceFolder}",
	}},
	{agent: "cursor", command: "cursor-agent --workspace web -p hi", want: []string{
		".cursor/mcp.json user issues: npx -y issues-mcp ${userHome}${/}notes",
		".cursor/mcp.json user search: search-mcp [another scope has the name too]",
		".cursor/mcp.json user hosted:  (a remote server)",
		".cursor/mcp.json user flagged: no (a remote server (sse))",
		"src/shop/web/.cursor/mcp.json project search: node web.js",
		"src/shop/web/.cursor/mcp.json project only: x",
		"src/shop/.cursor/mcp.json project search: ./tools/search ${workspaceFolder} [another scope has the name too]",
	}},
	{agent: "cursor", command: "cursor web", want: []string{
		".cursor/mcp.json user issues: npx -y issues-mcp ${userHome}${/}notes",
		".cursor/mcp.json user search: search-mcp [another scope has the name too]",
		".cursor/mcp.json user hosted:  (a remote server)",
		".cursor/mcp.json user flagged: no (a remote server (sse))",
		"src/shop/web/.cursor/mcp.json project search: node web.js",
		"src/shop/web/.cursor/mcp.json project only: x",
	}},
	{agent: "cursor", command: "cursor -n --goto here:3 --profile web . web", want: []string{
		".cursor/mcp.json user issues: npx -y issues-mcp ${userHome}${/}notes",
		".cursor/mcp.json user search: search-mcp [another scope has the name too]",
		".cursor/mcp.json user hosted:  (a remote server)",
		".cursor/mcp.json user flagged: no (a remote server (sse))",
		"src/shop/.cursor/mcp.json project search: ./tools/search ${workspaceFolder}",
		"src/shop/web/.cursor/mcp.json project search: node web.js [another scope has the name too]",
		"src/shop/web/.cursor/mcp.json project only: x",
	}},

	{agent: "windsurf", command: "windsurf", want: []string{
		".codeium/windsurf/mcp_config.json user repo: repo-mcp --key ${file:~/key}",
		".codeium/windsurf/mcp_config.json user off: npx -y off [disabled]",
		".codeium/windsurf/mcp_config.json user on: npx",
		".codeium/windsurf/mcp_config.json user cloud:  (a remote server)",
		".codeium/windsurf/mcp_config.json user web:  (a remote server)",
	}},
	{agent: "windsurf", command: "windsurf-next", want: []string{".codeium/windsurf-next/mcp_config.json user next: n"}},
	{agent: "windsurf", command: "open -na Windsurf.app .", os: "darwin", want: []string{
		".codeium/windsurf/mcp_config.json user repo: repo-mcp --key ${file:~/key}",
		".codeium/windsurf/mcp_config.json user off: npx -y off [disabled]",
		".codeium/windsurf/mcp_config.json user on: npx",
		".codeium/windsurf/mcp_config.json user cloud:  (a remote server)",
		".codeium/windsurf/mcp_config.json user web:  (a remote server)",
	}},

	{agent: "qwen", command: "qwen", vars: "REPO_KEY=k", want: []string{
		".qwen/settings.json user repo: repo-mcp --key $REPO_KEY [another scope has the name too]",
		".qwen/settings.json user notes: notes-mcp [disabled]",
		".qwen/settings.json user cloud:  (a remote server)",
		"src/shop/.qwen/settings.json project repo: ./repo",
		"src/shop/.qwen/settings.json project old: old-mcp [disabled]",
	}},

	{agent: "crush", command: "crush run hi", vars: "CRUSH_GLOBAL_DATA=~/state", want: []string{
		"src/shop/.crush.json project repo: ./repo $REPO_KEY",
		"src/shop/crush.json project repo: no [another scope has the name too]",
		"src/crush.json project notes: notes-mcp [disabled]",
		"state/crush.json user kept: kept-mcp",
		".config/crush/crush.json user repo: repo-mcp [another scope has the name too]",
		".config/crush/crush.json user cloud:  (a remote server (http))",
	}, warnings: []string{"servers that scripts define are not governed: ~/src/shop/crushrc"}},
	{agent: "crush", command: "crush", vars: "CRUSH_GLOBAL_CONFIG=~/moved XDG_DATA_HOME=~/none", want: []string{
		"src/shop/.crush.json project repo: ./repo $REPO_KEY",
		"src/shop/crush.json project repo: no [another scope has the name too]",
		"src/crush.json project notes: notes-mcp [disabled]",
		"moved/crush.json user moved: m",
	}, warnings: []string{"servers that scripts define are not governed: ~/src/shop/crushrc"}},
	{agent: "droid", command: "droid exec hi", want: []string{
		".factory/mcp.json user repo: repo-mcp",
		".factory/mcp.json user off: o [disabled]",
		".factory/mcp.json user linear:  (a remote server (http))",
		"src/.factory/mcp.json project notes: notes-mcp",
		"src/shop/.factory/mcp.json project notes: no [another scope has the name too]",
	}},

	{agent: "kiro", command: "kiro-cli chat", vars: "REPO_KEY=k", want: []string{
		"src/shop/.kiro/settings/mcp.json project repo: ./repo",
		".kiro/settings/mcp.json user repo: repo-mcp ${REPO_KEY} [another scope has the name too]",
		".kiro/settings/mcp.json user off: o [disabled]",
		".kiro/settings/mcp.json user cloud:  (a remote server)",
	}, warnings: []string{"servers that an agent of Kiro has in its own file are not governed: ~/.kiro/agents/mine.json"}},
	{agent: "amp", command: "amp -x hi", want: []string{
		"no-administrator/managed-settings.json system set: s (set by an administrator in ~/no-administrator/managed-settings.json)",
		"src/shop/.amp/settings.json project repo: ./repo",
		"src/.amp/settings.jsonc project notes: notes-mcp",
		".config/amp/settings.json user repo: repo-mcp [another scope has the name too]",
		".config/amp/settings.json user cloud:  (a remote server)",
	}, warnings: []string{"servers that an administrator set in ~/no-administrator/managed-settings.json are not governed: set"}},
	{agent: "amp", command: "amp --settings-file ~/other.json", want: []string{
		"no-administrator/managed-settings.json system set: s (set by an administrator in ~/no-administrator/managed-settings.json)",
		"src/shop/.amp/settings.json project repo: ./repo",
		"src/.amp/settings.jsonc project notes: notes-mcp",
		"other.json user repo: o [another scope has the name too]",
	}, warnings: []string{"servers that an administrator set in ~/no-administrator/managed-settings.json are not governed: set"}},
	{agent: "antigravity", command: "agy", want: []string{
		"src/shop/.agents/mcp_config.json project repo: ./repo",
		".gemini/config/mcp_config.json user repo: repo-mcp [another scope has the name too]",
		".gemini/config/mcp_config.json user off: o [disabled]",
		".gemini/config/mcp_config.json user cloud:  (a remote server)",
		".gemini/antigravity/mcp_config.json user old: old-mcp",
	}},
	{agent: "devin", command: "devin -p hi", want: []string{
		"src/shop/.devin/config.local.json project repo: ./mine",
		"src/shop/.devin/config.json project repo: ./repo [another scope has the name too]",
		".config/devin/mcp_config.json user more: m",
		".config/devin/config.json user repo: repo-mcp [another scope has the name too]",
	}},

	// EC-STDIO-023: VS Code uses another key for servers.
	{agent: "vscode", command: "code", want: slices.Concat(vscodeOpened, vscodeUser), warnings: vscodeOpenedWarnings},
	{agent: "vscode", command: "code --profile Web", want: slices.Concat(vscodeOpened, []string{
		".config/Code/User/mcp.json user Files: npx -y files ${userHome} [for another profile or system only]",
		".config/Code/User/mcp.json user keys: keys-mcp [for another profile or system only]",
		".config/Code/User/mcp.json user cloud:  [for another profile or system only] (a remote server (http))",
		".config/Code/User/mcp.json user socket:  [for another profile or system only] (a remote server)",
		".config/Code/User/settings.json user settings older: old-mcp [for another profile or system only]",
		".config/Code/User/profiles/4f3a/mcp.json user profile browser: uvx browser",
		".config/Code/User/profiles/4f3a/settings.json user profile settings profile older: p",
		".copilot/mcp-config.json user copilot chat: chat-mcp",
		".copilot/mcp-config.json user copilot files: f [another scope has the name too]",
	}), warnings: vscodeOpenedWarnings},
	{agent: "vscode", command: "code --profile Shared", want: slices.Concat(vscodeOpened, vscodeUser), warnings: vscodeOpenedWarnings},
	{agent: "vscode", command: "code --profile-temp --user-data-dir=~/.config/Code ~/src/site", want: []string{
		"src/site/.vscode/mcp.json workspace site: s",
		".config/Code/User/mcp.json user Files: npx -y files ${userHome} [for another profile or system only]",
		".config/Code/User/mcp.json user keys: keys-mcp [for another profile or system only]",
		".config/Code/User/mcp.json user cloud:  [for another profile or system only] (a remote server (http))",
		".config/Code/User/mcp.json user socket:  [for another profile or system only] (a remote server)",
		".config/Code/User/settings.json user settings older: old-mcp [for another profile or system only]",
		".config/Code/User/profiles/4f3a/mcp.json user profile browser: uvx browser [for another profile or system only]",
		".config/Code/User/profiles/4f3a/settings.json user profile settings profile older: p [for another profile or system only]",
		".copilot/mcp-config.json user copilot chat: chat-mcp",
		".copilot/mcp-config.json user copilot files: f",
	}},
	// The editor remembers that this folder goes with the profile Web.
	{agent: "vscode", command: "code --folder-uri file://~/src/site", vars: "COPILOT_HOME=~/none VSCODE_APPDATA=~/.config", want: []string{
		"src/site/.vscode/mcp.json workspace site: s",
		".config/Code/User/mcp.json user Files: npx -y files ${userHome} [for another profile or system only]",
		".config/Code/User/mcp.json user keys: keys-mcp [for another profile or system only]",
		".config/Code/User/mcp.json user cloud:  [for another profile or system only] (a remote server (http))",
		".config/Code/User/mcp.json user socket:  [for another profile or system only] (a remote server)",
		".config/Code/User/settings.json user settings older: old-mcp [for another profile or system only]",
		".config/Code/User/profiles/4f3a/mcp.json user profile browser: uvx browser",
		".config/Code/User/profiles/4f3a/settings.json user profile settings profile older: p",
	}},
	{agent: "vscode", command: "code ~/src/both.code-workspace", want: slices.Concat(vscodeOpened, []string{
		"src/site/.vscode/mcp.json workspace site: s",
		"src/both.code-workspace workspace file both: b",
		"src/both.code-workspace workspace file site: no [another scope has the name too]",
	}, vscodeUser), warnings: vscodeOpenedWarnings},
	{agent: "vscode", command: "code-insiders .", vars: "COPILOT_HOME=none", warnings: vscodeOpenedWarnings,
		want: slices.Concat(vscodeOpened, []string{".config/Code - Insiders/User/mcp.json user insiders: i"})},
	{agent: "vscode", command: "code-insiders", vars: "VSCODE_PORTABLE=~/none COPILOT_HOME=none", want: vscodeOpened, warnings: vscodeOpenedWarnings},
	{agent: "vscode", command: "open -b com.microsoft.VSCode --args -n ~/src/site", vars: "COPILOT_HOME=none", os: "darwin", want: []string{
		"src/site/.vscode/mcp.json workspace site: s",
		"Library/Application Support/Code/User/mcp.json user mac: m",
	}},
	{agent: "vscode", command: "code --user-data-dir ~/none --remote ssh-remote+host ~/src/site", vars: "COPILOT_HOME=none",
		warnings: []string{elsewhereWarning}},

	// EC-STDIO-024: Zed does too.
	{agent: "zed", command: "zed", warnings: zedWarnings, want: slices.Concat([]string{
		".config/zed/settings.json user profile jobs: jobs-mcp [for another profile or system only]",
		".config/zed/settings.json user linux bare: linux-mcp",
		".config/zed/settings.json user macos bare: mac-mcp [for another profile or system only]",
		".config/zed/settings.json user preview plain: preview-mcp [for another profile or system only]",
		".config/zed/settings.json user plain: npx -y plain [another scope has the name too]",
		".config/zed/settings.json user bare: /opt/bare [another scope has the name too]",
	}, zedRest)},
	{agent: "zed", command: "zed-preview .", warnings: zedWarnings, want: slices.Concat([]string{
		".config/zed/settings.json user profile jobs: jobs-mcp [for another profile or system only]",
		".config/zed/settings.json user linux bare: linux-mcp",
		".config/zed/settings.json user macos bare: mac-mcp [for another profile or system only]",
		".config/zed/settings.json user preview plain: preview-mcp [another scope has the name too]",
		".config/zed/settings.json user plain: npx -y plain [another scope has the name too]",
		".config/zed/settings.json user bare: /opt/bare [another scope has the name too]",
	}, zedRest)},
	{agent: "zed", command: "/Applications/Zed.app/Contents/MacOS/cli", os: "darwin", want: slices.Concat([]string{
		".config/zed/settings.json user profile jobs: jobs-mcp [for another profile or system only]",
		".config/zed/settings.json user linux bare: linux-mcp [for another profile or system only]",
		".config/zed/settings.json user macos bare: mac-mcp",
		".config/zed/settings.json user preview plain: preview-mcp [for another profile or system only]",
		".config/zed/settings.json user plain: npx -y plain [another scope has the name too]",
		".config/zed/settings.json user bare: /opt/bare [another scope has the name too]",
	}, zedRest)},
	{agent: "zed", command: "zed ssh://host/srv", vars: "XDG_CONFIG_HOME=~/flat", warnings: slices.Concat([]string{elsewhereWarning}, zedWarnings),
		want: []string{"flat/zed/settings.json user flat: f"}},
	{agent: "zed", command: "flatpak run --branch=stable dev.zed.Zed", vars: "XDG_CONFIG_HOME=~/none FLATPAK_XDG_CONFIG_HOME=~/flat FLATPAK_XDG_DATA_HOME=~/none",
		want: []string{"flat/zed/settings.json user flat: f", "src/shop/.zed/settings.json project plain: node tools/plain.js"}},
	{agent: "zed", command: "zed --user-data-dir ~/moved ~", want: []string{"moved/config/settings.json user moved: m"}},
}

func TestAdapters(t *testing.T) {
	for _, test := range slices.Concat(adapterTests, terminalTests) {
		t.Run(test.command+" "+test.os+test.vars, func(t *testing.T) {
			w := newWorld(t)
			w.unpack(test.agent)
			home := strings.NewReplacer("~", w.home)
			for _, v := range strings.Fields(test.vars) {
				name, value, _ := strings.Cut(v, "=")
				w.vars[name] = home.Replace(value)
			}
			env := w.env()
			env.OS = "linux"
			if test.os != "" {
				env.OS = test.os
			}
			env.Command = strings.Fields(home.Replace(test.command))
			agent, err := AgentFor("", env.Command)
			if err != nil || agent.Name() != test.agent {
				t.Fatalf("the command starts %v, %v", agent, err)
			}
			f, err := agent.Find(env)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, line := range describe(w, f) {
				got = append(got, strings.ReplaceAll(line, w.home, "~"))
			}
			for _, s := range f.Sources {
				for _, e := range s.Entries {
					if e.File != s.Path {
						t.Errorf("%s is said to stand in %q, and does in %s", e.ID, e.File, s.Path)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var warnings []string
			for _, line := range f.Warnings {
				warnings = append(warnings, strings.ReplaceAll(line, w.home, "~"))
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Servers on the command line can't be governed, so Amp is not started with them.
func TestAmpTold(t *testing.T) {
	w := newWorld(t)
	w.unpack("amp")
	env := w.env()
	env.Command = []string{"amp", "--mcp-config", "x.json"}
	_, err := NewPlan(amp{}, env, w.shim)
	wantError(t, err, "--mcp-config defines servers on the command line")
}

// Approvals of a project count if its folder is trusted. If Claude Code only prints an answer,
// no approval is needed.
func TestClaudeCodeTrust(t *testing.T) {
	const servers = `{"mcpServers":{"one":{"command":"1"},"two":{"command":"2"},"three":{"command":"3"}}}`
	tests := []struct {
		name, state, user, project string
		managed, command           string
		want                       [4]Off // one, two and three of the project; one of the user
	}{
		{name: "nothing approved", want: [4]Off{Pending, Pending, Pending, Starts}},
		{name: "not trusted", project: `{"enableAllProjectMcpServers":true,"disabledMcpjsonServers":["two"]}`, want: [4]Off{Pending, Disabled, Pending, Starts}},
		{name: "trusted", state: `"hasTrustDialogAccepted":true`, project: `{"enabledMcpjsonServers":["one"],"disabledMcpjsonServers":["two"]}`,
			want: [4]Off{Starts, Disabled, Pending, Shadowed}},
		{name: "trusted above", state: `},"~/src":{"hasTrustDialogAccepted":true`, project: `{"enabledMcpjsonServers":["one"]}`,
			want: [4]Off{Starts, Pending, Pending, Shadowed}},
		{name: "trusted below", state: `},"~/src/shop/api":{"hasTrustDialogAccepted":true`, project: `{"enabledMcpjsonServers":["one"]}`,
			want: [4]Off{Pending, Pending, Pending, Starts}},
		{name: "all", state: `"hasTrustDialogAccepted":true,"enableAllProjectMcpServers":true`, want: [4]Off{Starts, Starts, Starts, Shadowed}},
		{name: "by the user", user: `{"enabledMcpjsonServers":["two"]}`, want: [4]Off{Pending, Starts, Pending, Starts}},
		{name: "by an administrator", managed: `{"enableAllProjectMcpServers":true}`, want: [4]Off{Starts, Starts, Starts, Shadowed}},
		{name: "in any scope", state: `"disabledMcpServers":["one"]`, want: [4]Off{Disabled, Pending, Pending, Disabled}},
		{name: "printing", command: "claude -p", project: `{"disabledMcpjsonServers":["two"]}`, want: [4]Off{Starts, Disabled, Starts, Shadowed}},
		{name: "asking about -p", command: "claude -- -p", want: [4]Off{Pending, Pending, Pending, Starts}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), `{"projects":{"`+w.cwd+`":{`+strings.ReplaceAll(test.state, "~", w.home)+`}},"mcpServers":{"one":{"command":"u"}}}`)
			w.write(w.project(), servers)
			for path, text := range map[string]string{
				filepath.Join(w.home, ".claude", "settings.json"):                           test.user,
				filepath.Join(w.cwd, ".claude", "settings.local.json"):                      test.project,
				filepath.Join(w.env().System, "managed-settings.d", "10-of the house.json"): test.managed,
			} {
				if text != "" {
					w.write(path, text)
				}
			}
			env := w.env()
			env.Command = strings.Fields(test.command)
			f, err := claudeCode{}.Find(env)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]Off{}
			for _, s := range f.Sources {
				for _, e := range s.Entries {
					got[e.Scope+" "+e.ID] = e.Off
				}
			}
			want := map[string]Off{"project one": test.want[0], "project two": test.want[1], "project three": test.want[2], "user one": test.want[3]}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaudeCodeSubagents(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), `{"mcpServers":{"one":{"command":"u"}}}`)
	with := filepath.Join(w.cwd, ".claude", "agents", "db.md")
	w.write(with, "---\nname: db\nmcpServers:\n  - db:\n      command: db-mcp\n---\nBe brief.\n")
	w.write(filepath.Join(w.home, ".claude", "agents", "plain.md"), "---\nname: plain\n---\nmcpServers: are not mine\n")
	env := w.env()
	env.Command = []string{"claude", "--agents", `{"a":{"mcpServers":["x"]}}`}
	f, err := claudeCode{}.Find(env)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"servers of the subagent in " + with + " are not governed", "servers of the subagents in --agents are not governed"}
	if diff := cmp.Diff(want, f.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVSCodePortable(t *testing.T) {
	w := newWorld(t)
	editor := filepath.Join(w.home, "VSCode-linux-x64")
	w.write(filepath.Join(editor, "bin", "code"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(editor, "bin", "code"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(filepath.Dir(w.shim)), "bin", "code")
	if err := os.Symlink(filepath.Join(editor, "bin", "code"), link); err != nil {
		t.Fatal(err)
	}
	env := w.env()
	env.OS, env.Command = "linux", []string{"code"}
	usual := filepath.Join(w.home, ".config", "Code", "User", "mcp.json")
	moved := filepath.Join(editor, "data", "user-data", "User", "mcp.json")
	for _, dir := range []string{filepath.Join(editor, "data"), filepath.Join(editor, "resources", "app")} {
		if files := (vscode{}).Files(env); !slices.Contains(files, usual) || slices.Contains(files, moved) {
			t.Errorf("before there is %s: %q", dir, files)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if files := (vscode{}).Files(env); slices.Contains(files, usual) || !slices.Contains(files, moved) {
		t.Errorf("unpacked with its data: %q", files)
	}
	env.OS, env.Command = "darwin", []string{filepath.Join(w.home, "Visual Studio Code.app", "Contents", "MacOS", "Electron")}
	w.write(env.Command[0], "")
	w.write(filepath.Join(w.home, "code-portable-data", "tmp", "x"), "")
	if files := (vscode{}).Files(env); !slices.Contains(files, filepath.Join(w.home, "code-portable-data", "user-data", "User", "mcp.json")) {
		t.Errorf("an application with its data beside it: %q", files)
	}
}

// An invalid settings file is ignored if it has nothing to do with servers. If it may have
// servers, it is an error.
func TestVSCodeSettings(t *testing.T) {
	tests := []struct {
		settings, err string
		want          []string // besides the existing server
		off           Off      // of the existing server
		warns         bool
	}{
		{settings: ""},
		{settings: "{"},
		{settings: `{"a":1,"a":2}`},
		{settings: `{"mcp":{"servers":{"b":{"command":"x"}}},"a":1,"a":2}`, err: `settings.json: line 1, column 48: the name "a" is there twice`},
		{settings: `{"\u006dcp":{"servers":{"b":{"command":"x"}}},`, err: "settings.json: line 1"},
		{settings: `{"mcp":{"servers":{"b":{"command":"x"}}}}`, want: []string{"b"}},
		{settings: `{"mcp.servers":{"A":{"command":"x"}}}`, want: []string{"A (another scope has the name too)"}},
		{settings: `{"mcp.servers":{"A":{"command":"x"}},"chat.mcp.collisionBehavior":"suffix"}`, want: []string{"A"}},
		{settings: `{"chat.mcp.access":"none"}`, off: Denied},
		{settings: `{"chat.mcp.access":"all","chat.mcp.autostart":1,"a":1,"a":2}`},
		{settings: `{"chat.mcp.access":"registry","mcp.servers":{"g":{"command":"x","gallery":true}}}`, want: []string{"g"}, off: Denied},
		{settings: `{"chat.mcp.discovery.enabled":true}`, warns: true},
		{settings: `{"chat.mcp.discovery.enabled":{"windsurf":false,"cursor-global":true}}`, warns: true},
		{settings: `{"chat.mcp.discovery.enabled":{"windsurf":false}}`},
	}
	for _, test := range tests {
		t.Run(test.settings, func(t *testing.T) {
			t.Parallel() // waits for a file that does not parse
			w := newWorld(t)
			env := w.env()
			env.OS, env.Command = "linux", []string{"code"}
			w.write(filepath.Join(w.home, ".config", "Code", "User", "mcp.json"), `{"servers":{"a":{"command":"y"}}}`)
			w.write(filepath.Join(w.home, ".config", "Code", "User", "settings.json"), test.settings)
			if test.err != "" {
				_, err := NewPlan(vscode{}, env, w.shim)
				wantError(t, err, test.err)
				return
			}
			f, err := vscode{}.Find(env)
			if err != nil {
				t.Fatal(err)
			}
			if warns := strings.Contains(strings.Join(f.Warnings, "\n"), "files of other agents"); warns != test.warns {
				t.Errorf("warnings: %q", f.Warnings)
			}
			if off := f.Sources[0].Entries[0].Off; off != test.off {
				t.Errorf("a is %q, want %q", off, test.off)
			}
			var got []string
			for _, s := range f.Sources[1:] {
				for _, e := range s.Entries {
					got = append(got, strings.TrimSuffix(e.ID+" ("+string(e.Off)+")", " ()"))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// EC-STDIO-034: tg-shim is recognized in any spelling of a command, with variables of the
// editor expanded.
func TestDoubleWrapThroughVariables(t *testing.T) {
	for command, wrapped := range map[string]bool{
		"${workspaceFolder}/server": true, "${userHome}/src/shop/server": true, "${env:TOOLS}${/}server": true,
		"${input:x}/server": false, "${workspaceFolder}/other": false,
	} {
		w := newWorld(t)
		w.vars["TOOLS"] = w.cwd
		if err := os.Symlink(w.shim, filepath.Join(w.cwd, "server")); err != nil {
			t.Fatal(err)
		}
		w.write(filepath.Join(w.cwd, ".vscode", "mcp.json"), `{"servers":{"a":{"command":"`+command+`"}}}`)
		env := w.env()
		env.Command = []string{"code"}
		if _, err := NewPlan(vscode{}, env, w.shim); errors.Is(err, ErrWrapped) != wrapped {
			t.Errorf("%s: %v, want refused %v", command, err, wrapped)
		}
	}
}
