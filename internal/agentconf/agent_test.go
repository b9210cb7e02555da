package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDetect(t *testing.T) {
	tests := []struct {
		command []string
		want    string
	}{
		{[]string{"claude"}, "claude-code"},
		{[]string{"claude-code", "-p", "hi"}, "claude-code"},
		{[]string{"/usr/local/bin/claude"}, "claude-code"},
		{[]string{"/Applications/Claude.app/Contents/MacOS/Claude"}, "claude-desktop"},
		{[]string{"/Applications/Claude.app"}, "claude-desktop"},
		{[]string{"cursor", "."}, "cursor"},
		{[]string{"code"}, "vscode"},
		{[]string{"code-insiders"}, "vscode"},
		{[]string{"windsurf"}, "windsurf"},
		{[]string{"zed"}, "zed"},
		{[]string{"codex", "exec", "hi"}, "codex"},
		{[]string{"/opt/homebrew/bin/goose", "session"}, "goose"},
		{[]string{"/snap/bin/code", "."}, "vscode"},
		{[]string{"kiro-cli", "chat"}, "kiro"},
		{[]string{"amp", "-x", "hi"}, "amp"},
		{[]string{"agy"}, "antigravity"},
		{[]string{"devin"}, "devin"},
		{[]string{"codium"}, "vscode"},
		{[]string{"cursor-agent", "-p"}, "cursor"},
		{[]string{"windsurf-next"}, "windsurf"},
		{[]string{"zeditor"}, "zed"},
		{[]string{"claude-desktop"}, "claude-desktop"},
		{[]string{"/Applications/Cursor.app/Contents/MacOS/Cursor"}, "cursor"},
		{[]string{"/Applications/Cursor.app/Contents/Resources/app/bin/code", "."}, "cursor"},
		{[]string{"/Applications/Visual Studio Code.app/Contents/Resources/app/bin/code"}, "vscode"},
		{[]string{"/Users/ada/Applications/Visual Studio Code - Insiders.app"}, "vscode"},
		{[]string{"/Applications/Windsurf.app/"}, "windsurf"},
		{[]string{"/Applications/Zed Preview.app/Contents/MacOS/cli"}, "zed"},
		{[]string{"/Applications/Claude Beta.app/Contents/MacOS/Claude"}, "claude-desktop"},
		{[]string{"/Applications/Term.app/Contents/MacOS/claude"}, "claude-code"},
		{[]string{"/Users/Claude/Applications/Term.app/Contents/MacOS/term"}, ""},
		{[]string{"open", "-a", "Cursor"}, "cursor"},
		{[]string{"open", "-n", "-a", "Visual Studio Code", "/src"}, "vscode"},
		{[]string{"/usr/bin/open", "-Wna", "zed.app", "--args", "-n"}, "zed"},
		{[]string{"open", "-b", "com.exafunction.windsurf"}, "windsurf"},
		{[]string{"open", "--env", "A=Cursor.app", "/Applications/Claude.app"}, "claude-desktop"},
		{[]string{"open", "/src/Cursor"}, ""},
		{[]string{"open", "-a", "Safari", "Cursor.html"}, ""},
		{[]string{"open", "-a"}, ""},
		{[]string{"open"}, ""},
		{[]string{"flatpak", "run", "--branch=stable", "dev.zed.Zed", "."}, "zed"},
		{[]string{"flatpak", "run", "org.example.App", "zed"}, ""},
		{[]string{"flatpak", "install", "dev.zed.Zed"}, ""},
		{[]string{"flatpak"}, ""},
		{[]string{"/home/ada/Apps/Cursor-1.7.28-x86_64.AppImage"}, "cursor"},
		{[]string{"cursor.appimage"}, "cursor"},
		{[]string{"Windsurf_1.0.AppImage"}, "windsurf"},
		{[]string{"Windsurf-Next-1.0.AppImage"}, "windsurf"},
		{[]string{"Claude-Desktop.AppImage"}, "claude-desktop"},
		{[]string{"Claude_1.0.AppImage"}, "claude-desktop"},
		{[]string{"claude-desktop-0.14-amd64.AppImage"}, "claude-desktop"},
		{[]string{"Other.AppImage"}, ""},
		{[]string{"Claude"}, ""},
		{[]string{"/opt/Other.app/run"}, ""},
		{[]string{"claudette"}, ""},
		{[]string{"bash", "claude"}, ""},
		{nil, ""},
	}
	for _, test := range tests {
		got, ok := Detect(test.command)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("Detect(%q) = %q, %v, want %q", test.command, got, ok, test.want)
		}
	}
}

// An AppImage is that of the longest command with which its name begins: if there is an agent
// zed-next one day, Zed-Next.AppImage is not Zed.
func TestAppImage(t *testing.T) {
	for name, want := range map[string]string{
		"Zed-Preview-1.0.AppImage": "zed-preview-1-0 zed-preview-1 zed-preview zed",
		"cursor.appimage":          "cursor",
		"cursor":                   "",
		".AppImage":                "",
	} {
		if got := strings.Join(appImage(name), " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAgentFor(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		want    string
		err     string
	}{
		{"", []string{"claude"}, "claude-code", ""},
		{"custom", []string{"claude"}, "custom", ""},
		{"", []string{"vim"}, "", `can't tell which agent "vim" is; use --agent-type with one of claude-code, claude-desktop, cursor,`},
		{"", []string{"zed"}, "zed", ""},
		{"emacs", nil, "", `"emacs"; use one of claude-code, claude-desktop, cursor,`},
	}
	for _, test := range tests {
		agent, err := AgentFor(test.name, test.command)
		if test.err != "" {
			wantError(t, err, test.err)
			continue
		}
		if err != nil || agent.Name() != test.want {
			t.Errorf("AgentFor(%q, %q) = %v, %v", test.name, test.command, agent, err)
		}
	}
}

// describe returns one line for each entry: its command, and whether it starts.
func describe(w *world, f *Found) []string {
	var lines []string
	for _, s := range f.Sources {
		for _, e := range s.Entries {
			line := strings.TrimPrefix(s.Path, w.home+"/") + " " + e.Scope + " " + e.ID + ": " + strings.Join(append([]string{e.Command}, e.Args...), " ")
			if e.Off != Starts {
				line += " [" + string(e.Off) + "]"
			}
			if e.Ungoverned != "" {
				line += " (" + e.Ungoverned + ")"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func find(t *testing.T, agent Agent, w *world, env Env) []string {
	t.Helper()
	f, err := agent.Find(env)
	if err != nil {
		t.Fatal(err)
	}
	return describe(w, f)
}

// fixture writes a typical user's files of Claude Code to a world.
func fixture(w *world) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "claude-code", name))
		if err != nil {
			w.t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "/home/ada", w.home)
	}
	w.write(w.state(), read("state.json"))
	w.write(w.project(), read("mcp.json"))
	w.write(filepath.Join(w.cwd, ".claude", "settings.local.json"), read("settings.local.json"))
	w.write(filepath.Join(w.cwd, "services", "api", ".mcp.json"), read("api.mcp.json"))
}

// EC-STDIO-025: both the user's file and the project's are read, and the project's overrides.
func TestClaudeCodeScopes(t *testing.T) {
	w := newWorld(t)
	fixture(w)
	want := []string{
		".claude.json local postgres: npx -y @example/mcp-postgres ${SHOP_DB_URL:-postgres://localhost:5432/shop}",
		".claude.json local github: " + w.home + "/bin/github-mcp stdio",
		".claude.json user github: npx -y server-github [another scope has the name too]",
		".claude.json user notes: uvx notes-mcp ~/Notizen/für mich",
		".claude.json user sentry:  [disabled] (a remote server (http))",
		".claude.json user lint: lint-mcp [another scope has the name too]",
		"src/shop/.mcp.json project playwright: npx -y @playwright/mcp",
		"src/shop/.mcp.json project postgres: docker compose exec -T db pg-mcp [not approved yet]",
		"src/shop/.mcp.json project docs:  [disabled] (a remote server (http))",
		"src/shop/.mcp.json project lint: ./tools/lint-mcp --config ${CLAUDE_PROJECT_DIR:-.}/lint.toml",
	}
	if diff := cmp.Diff(want, find(t, claudeCode{}, w, w.env())); diff != "" {
		t.Errorf("in the project (-want +got):\n%s", diff)
	}

	// In a folder below, its own file overrides the one above. With a repository around both,
	// the project is the repository.
	if err := os.Mkdir(filepath.Join(w.cwd, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := w.env()
	env.Cwd = filepath.Join(w.cwd, "services", "api")
	got := find(t, claudeCode{}, w, env)
	for _, line := range []string{
		want[0],
		"src/shop/services/api/.mcp.json project lint: node ./lint-mcp.js",
		"src/shop/.mcp.json project lint: ./tools/lint-mcp --config ${CLAUDE_PROJECT_DIR:-.}/lint.toml [another scope has the name too]",
	} {
		if !slices.Contains(got, line) {
			t.Errorf("below the project %q is missing in\n%s", line, strings.Join(got, "\n"))
		}
	}
}

func TestClaudeCodeFindsItsFolder(t *testing.T) {
	w := newWorld(t)
	one := `{"mcpServers":{"a":{"command":"x"}}}`
	old := filepath.Join(w.home, ".claude", ".config.json")
	w.write(old, one)
	if got := claudeCode.Files(claudeCode{}, w.env())[0]; got != old {
		t.Errorf("with an old state file only, the first file is %s", got)
	}
	w.write(w.state(), one)
	if got := claudeCode.Files(claudeCode{}, w.env())[0]; got != w.state() {
		t.Errorf("with both, the first file is %s", got)
	}
	w.vars["CLAUDE_CONFIG_DIR"] = filepath.Join(w.home, "elsewhere")
	if got := claudeCode.Files(claudeCode{}, w.env())[0]; got != filepath.Join(w.home, "elsewhere", ".claude.json") {
		t.Errorf("with CLAUDE_CONFIG_DIR the first file is %s", got)
	}
}

func TestClaudeCodeFlags(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"}}}`)
	w.write(filepath.Join(w.cwd, "one.json"), `{"mcpServers":{"b":{"command":"y"}}}`)
	w.write(filepath.Join(w.cwd, "two.json"), `{"mcpServers":{"b":{"command":"z"}}}`)
	tests := []struct {
		command, err string
		want         []string
	}{
		{"claude -p --mcp-config=one.json --model m", "", []string{
			"src/shop/one.json --mcp-config b: y", ".claude.json user a: x", ".claude.json user b: x [another scope has the name too]"}},
		{"claude --mcp-config one.json two.json --strict-mcp-config", "", []string{
			"src/shop/two.json --mcp-config b: z", "src/shop/one.json --mcp-config b: y [another scope has the name too]"}},
		{"claude -- --mcp-config=one.json", "", []string{".claude.json user a: x", ".claude.json user b: x"}},
		{`claude --mcp-config={"mcpServers":{}}`, "can't be governed", nil},
		{"claude --mcp-config gone.json", "", []string{".claude.json user a: x", ".claude.json user b: x"}},
	}
	for _, test := range tests {
		env := w.env()
		env.Command = strings.Fields(test.command)
		f, err := claudeCode.Find(claudeCode{}, env)
		if test.err != "" {
			wantError(t, err, test.err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, describe(w, f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.command, diff)
		}
	}
}

// Claude Code's rules are applied to the entry as its owner wrote it. An entry denied by its
// command must not pass because it starts tg-shim.
func TestClaudeCodeRules(t *testing.T) {
	w := newWorld(t)
	w.vars["TOOL"] = "x"
	w.write(w.state(), `{"mcpServers":{
		"denied": {"command":"${TOOL}","args":["-y","${NONE:-z}"]},
		"denied as written": {"command":"${TOOL}"},
		"named": {"command":"n"},
		"other": {"command":"x","args":["-y"]}}}`)
	w.write(filepath.Join(w.home, ".claude", "settings.json"), `{
		"deniedMcpServers": [{"serverCommand":["x","-y","z"]}, {"serverCommand":["${TOOL}"]}, {"serverName":"named"}],
		"enabledPlugins": {"shiny@market": true, "off@market": false}}`)
	f, err := claudeCode.Find(claudeCode{}, w.env())
	if err != nil {
		t.Fatal(err)
	}
	deny := " (denied by claude-code's own rules for its command, which a rewrite would bypass)"
	want := []string{
		".claude.json user denied: ${TOOL} -y ${NONE:-z} [denied by the agent's own rules]" + deny,
		".claude.json user denied as written: ${TOOL} [denied by the agent's own rules]" + deny,
		".claude.json user named: n [denied by the agent's own rules]",
		".claude.json user other: x -y",
	}
	if diff := cmp.Diff(want, describe(w, f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := []string{"servers of plugins are not governed: shiny@market"}; !slices.Equal(f.Warnings, want) {
		t.Errorf("warnings %q, want %q", f.Warnings, want)
	}

	w.write(filepath.Join(w.home, ".claude", "settings.json"), `{"allowedMcpServers":[{"serverCommand":["x"]}]}`)
	f, err = claudeCode.Find(claudeCode{}, w.env())
	if err != nil || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "claude-code allows denied as written only by its exact command") {
		t.Errorf("with allowed commands: %q, %v", f.Warnings, err)
	}
	w.write(filepath.Join(w.home, ".claude", "settings.json"), `{`)
	f, err = claudeCode.Find(claudeCode{}, w.env())
	if err != nil || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "the rules of "+w.home) {
		t.Errorf("with broken settings: %q, %v", f.Warnings, err)
	}
}

func TestClaudeCodeRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*world)
		want []string
	}{
		{"an administrator's servers", func(w *world) { w.write(filepath.Join(w.home, "no-administrator", "managed-mcp.json"), "{}") },
			[]string{"takes its servers only from", "managed-mcp.json, an administrator"}},
		{"a comment, which the agent does not read", func(w *world) { w.write(w.state(), "{\n// hi\n}") },
			[]string{".claude.json: line 2, column 1: a comment"}},
		{"a list instead of an object", func(w *world) { w.write(w.state(), "[]") }, []string{"line 1, column 1: expected an object"}},
		{"a name twice", func(w *world) { w.write(w.project(), `{"mcpServers":{"a":{},"a":{}}}`) },
			[]string{".mcp.json: line 1, column 23: the name \"a\" is there twice"}},
		{"a link to nothing", func(w *world) { os.Symlink("gone", w.state()) }, []string{"is a broken link"}},
		{"a folder", func(w *world) { os.Mkdir(w.state(), 0o755) }, []string{"is not a regular file"}},
		{"a pipe", func(w *world) { mkfifo(w.t, w.state()) }, []string{"is not a regular file"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.set(w)
			_, err := NewPlan(claudeCode{}, w.env(), w.shim)
			wantError(t, err, test.want...)
		})
	}
}

func TestCustom(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	if _, err := custom.Find(custom{}, env); err == nil || !strings.Contains(err.Error(), "--config-path") {
		t.Errorf("without a file: %v", err)
	}
	env.Config = filepath.Join(w.home, "agent.jsonc")
	w.write(env.Config, `{ // comments are fine
		"servers": {"a": {"command": "x", "disabled": true}, "b": {"command": "y", "enabled": false}, "c": {"command": "z"}},
		"mcpServers": {"d": {"command": ["x"]}, "e": {"url": "u"}, "f": 1, "g": {"command": "x", "args": "y"}, "h": {"command": "x", "env": []}},
	}`)
	want := []string{
		"agent.jsonc file d:  (not a server: no command)",
		"agent.jsonc file e:  (a remote server)",
		"agent.jsonc file f:  (not a server: not an object)",
		"agent.jsonc file g: x (not a server: args is not a list)",
		"agent.jsonc file h: x (not a server: env is not an object)",
		"agent.jsonc file a: x [disabled]",
		"agent.jsonc file b: y [disabled]",
		"agent.jsonc file c: z",
	}
	if diff := cmp.Diff(want, find(t, custom{}, w, env)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpand(t *testing.T) {
	w := newWorld(t)
	w.vars["A"], w.vars["EMPTY"] = "1", ""
	tests := []struct{ text, want string }{
		{"${A}", "1"}, {"x${A}y${A}", "x1y1"}, {"${EMPTY:-d}", ""}, {"${NONE:-d}", "d"}, {"${NONE:-}", ""},
		{"${NONE}", "${NONE}"}, {"$A", "$A"}, {"${A:-x}}", "1}"}, {"${1A}", "${1A}"}, {"${A", "${A"},
	}
	for _, test := range tests {
		if got := shellVariables.expand(test.text, w.env()); got != test.want {
			t.Errorf("expand(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// The page of the agents lists them all, with every command.
func TestPageListsCommands(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		_, row, found := strings.Cut(string(page), "\n| `"+k.Name()+"` | ")
		if !found {
			t.Errorf("docs/agents.md has no row for %s", k.Name())
			continue
		}
		row, _, _ = strings.Cut(row, " |")
		for _, command := range strings.Fields(k.commands) {
			if !strings.Contains(row, "`"+command+"`") {
				t.Errorf("docs/agents.md does not list the command %s of %s", command, k.Name())
			}
		}
	}
}
