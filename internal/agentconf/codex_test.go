package agentconf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codexEnv returns the environment of Codex started with a command line.
func codexEnv(w *world, command string) Env {
	env := w.env()
	env.Command = strings.Fields(command)
	return env
}

func TestCodexLayers(t *testing.T) {
	user := []string{
		".codex/config.toml user clock: clock-mcp",
		".codex/config.toml user inline: inline-mcp --one two",
		".codex/config.toml user files: npx -y server-files ~/größer",
		".codex/config.toml user tracker: ~/bin/tracker-mcp stdio",
		".codex/config.toml user cloud:  (a remote server)",
		".codex/config.toml user resting: resting-mcp [disabled]",
		".codex/config.toml user not started: x (not a server: codex does not accept its name)",
		".codex/config.toml user parts:  of what? (not a server: no file names its command)",
	}
	project := []string{
		"src/shop/.codex/config.toml project files: npx -y server-files .",
		"src/shop/.codex/config.toml project clock: ./bin/clock",
		"src/shop/.codex/config.toml project schema: uvx schema-mcp",
		"src/shop/.codex/config.toml project tracker: ~/bin/tracker-mcp stdio",
	}
	untrusted := "codex does not trust this project yet and starts no server of ~/src/shop/.codex/config.toml until you trust it"
	with := func(lines []string, change ...string) []string {
		var out []string
		for _, line := range lines {
			out = append(out, strings.NewReplacer(change...).Replace(line))
		}
		return out
	}
	tests := []struct {
		name, command, cwd string
		change             func(w *world)
		want               []string
		warnings           []string
	}{
		{name: "in the project", command: "codex", want: append(user, project...)},
		{name: "elsewhere", command: "codex", cwd: "/", want: user},
		{name: "sent there", command: "codex exec --cd=" + "src/shop fix", cwd: "~", want: append(user, project...)},
		{name: "a profile", command: "codex -p work", cwd: "/", want: append(with(user, " [disabled]", ""),
			".codex/work.config.toml profile tracker: ~/bin/tracker-mcp stdio --team work")},
		{name: "not trusted", command: "codex", change: func(w *world) {
			path := filepath.Join(w.home, ".codex", codexFile)
			w.write(path, strings.Replace(w.read(path), `"trusted"`, `"untrusted"`, 1))
		}, want: append(user, with(project, "files .", "files . [not approved yet]", "/clock", "/clock [not approved yet]", "uvx schema-mcp", "uvx schema-mcp [not approved yet]", "tracker-mcp stdio", "tracker-mcp stdio [not approved yet]")...),
			warnings: []string{untrusted}},
		{name: "a folder in the project", command: "codex", cwd: "~/src/shop/services/api", change: func(w *world) {
			w.write(filepath.Join(w.cwd, ".git", "HEAD"), "ref: refs/heads/main\n")
		}, want: append(append(user, with(project, "uvx schema-mcp", "uvx schema-mcp [another scope has the name too]")...),
			"src/shop/services/api/.codex/config.toml project schema: uv run schema-mcp")},
		{name: "an administrator's", command: "codex", cwd: "/", change: func(w *world) {
			dir := w.env().System
			w.write(filepath.Join(dir, codexFile), "[mcp_servers.audit]\ncommand = \"audit-mcp\"\n\n[mcp_servers.parts]\ncommand = \"parts-mcp\"\n")
			w.write(filepath.Join(dir, "managed_config.toml"), "[mcp_servers.clock]\ncommand = \"sundial\"\n[mcp_servers.inline]\nenabled = false\n")
			w.write(filepath.Join(dir, "requirements.toml"), "[mcp_servers.files.identity]\ncommand = \"npx\"\n[mcp_servers.inline.identity]\ncommand = \"inline-mcp\"\n[mcp_servers.parts.identity]\ncommand = \"parts-mcp\"\n")
		}, want: append([]string{"no-administrator/config.toml system audit: audit-mcp (set by an administrator in ~/no-administrator/config.toml)",
			"no-administrator/config.toml system parts: parts-mcp (set by an administrator in ~/no-administrator/config.toml)"},
			with(user,
				"clock-mcp", "clock-mcp (set by an administrator in ~/no-administrator/managed_config.toml)",
				"--one two", "--one two [disabled]",
				"tracker-mcp stdio", "tracker-mcp stdio [disabled] (not allowed by ~/no-administrator/requirements.toml, so codex does not start it)",
				"resting-mcp [disabled]", "resting-mcp [disabled] (not allowed by ~/no-administrator/requirements.toml, so codex does not start it)",
				"parts:  of what? (not a server: no file names its command)", "parts: parts-mcp of what?")...),
			warnings: []string{
				"servers that an administrator set in ~/no-administrator/config.toml are not governed: audit, parts",
				"server clock is not governed: ~/no-administrator/managed_config.toml, an administrator's file, defines how it is started",
				"~/no-administrator/requirements.toml allows servers by their exact command, so codex may not start files, whose command is now tg-shim",
				"~/no-administrator/requirements.toml allows servers by their exact command, so codex may not start parts, whose command is now tg-shim",
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.unpack("codex")
			if test.change != nil {
				test.change(w)
			}
			env := codexEnv(w, test.command)
			if test.cwd != "" {
				env.Cwd = strings.ReplaceAll(test.cwd, "~", w.home)
			}
			f, err := codex{}.Find(env)
			if err != nil {
				t.Fatal(err)
			}
			got := with(describe(w, f), w.home, "~")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, with(f.Warnings, w.home, "~")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCodexFolder(t *testing.T) {
	w := newWorld(t)
	w.vars["CODEX_HOME"] = filepath.Join(w.home, "elsewhere")
	want := []string{"elsewhere/config.toml", "elsewhere/a.config.toml"}
	got := codex{}.Files(codexEnv(w, "codex -p a"))
	for i, rel := range want {
		if got[i] != filepath.Join(w.home, rel) {
			t.Errorf("file %d is %s, want %s", i, got[i], rel)
		}
	}
	if last := got[len(got)-1]; last != filepath.Join(realPath(w.cwd), ".codex", "config.toml") {
		t.Errorf("the strongest file is %s", last)
	}
}

func TestCodexRefuses(t *testing.T) {
	tests := []struct{ name, command, config, want string }{
		{"a server on the command line", "codex -c mcp_servers.x.command=y", "", "-c mcp_servers.x.command defines servers"},
		{"a table of them", "codex exec --config=mcp_servers={x={command=\"y\"}} hi", "", "defines servers"},
		{"arguments", "codex -c mcp_servers.x.args=[]", "", "defines servers"},
		{"a name twice", "codex", "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a]\n", `line 3, column 1: the name "a" is there twice; first at line 1, column 1`},
		{"an array of tables", "codex", "[[mcp_servers]]\ncommand = 'x'\n", "No MCP servers found"},
		{"nothing", "codex", "model = 'm'\n", "No MCP servers found"},
		{"all off", "codex", "[mcp_servers.a]\ncommand = 'x'\nenabled = false\n", "All MCP servers are disabled"},
		{"wrapped", "codex", "[mcp_servers.a]\ncommand = '/opt/tg-shim'\n", "already managed by ThoughtGate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(filepath.Join(w.home, ".codex", codexFile), test.config)
			_, err := NewPlan(codex{}, codexEnv(w, test.command), w.shim)
			wantError(t, err, test.want)
		})
	}
	// A setting that does not say how a server is started is allowed on the command line.
	w := newWorld(t)
	w.write(filepath.Join(w.home, ".codex", codexFile), "[mcp_servers.a]\ncommand = 'x'\n")
	if _, err := NewPlan(codex{}, codexEnv(w, "codex -c mcp_servers.a.tool_timeout_sec=9 -c model=m"), w.shim); err != nil {
		t.Error(err)
	}
}

// Whatever the weaker files say, an entry starts tg-shim completely. Limits are raised and
// never lowered. All files are restored.
func TestCodexRewrite(t *testing.T) {
	w := newWorld(t)
	w.unpack("codex")
	user, profile, project := filepath.Join(w.home, ".codex", codexFile), filepath.Join(w.home, ".codex", "work."+codexFile), filepath.Join(w.cwd, ".codex", codexFile)
	before := map[string]string{}
	for _, path := range []string{user, profile, project} {
		before[path] = w.read(path)
	}
	p := w.governedBy(codex{}, codexEnv(w, "codex --profile work"))
	env := `env = { THOUGHTGATE_SOCKET = "/run/user/1000/thoughtgate/shim.sock", THOUGHTGATE_SESSION = "5e55104f5e55104f5e55104f5e55104f" }`
	socket := strings.NewReplacer(`env = { THOUGHTGATE`, `THOUGHTGATE`, ", THOUGHT", "\nTHOUGHT", " }", "").Replace(env)
	// What the project contributes is included, wherever else the server is named.
	w.wantFile(project, strings.ReplaceAll(strings.ReplaceAll(`[mcp_servers.files]
command = "SHIM"
`+env+`
args = ["--server-id", "files", "--from", "PROJECT", "--", "npx", "-y", "server-files", "."]

[mcp_servers.clock]
args = ["--server-id", "clock", "--from", "PROJECT", "--", "./bin/clock"]
`+env+`
command = "SHIM"

[mcp_servers.schema]
startup_timeout_sec = 45
tool_timeout_sec = 660
`+env+`
command = "SHIM"
args = ["--server-id", "schema", "--from", "PROJECT", "--", "uvx", "schema-mcp"]

[mcp_servers.cloud]
enabled = true
tool_timeout_sec = 5

[mcp_servers.tracker]
command = "SHIM"
args = ["--server-id", "tracker", "--from", "PROJECT", "--", "`+w.home+`/bin/tracker-mcp", "stdio", "--team", "work"]
`+env+`
tool_timeout_sec = 660

[mcp_servers.inline]
enabled_tools = ["one"]
`, "SHIM", w.shim), "PROJECT", project))
	w.wantFile(profile, strings.ReplaceAll(strings.ReplaceAll(`[mcp_servers.tracker]
command = "SHIM"
`+env+`
args = ["--server-id", "tracker", "--from", "PROJECT", "--", "`+w.home+`/bin/tracker-mcp", "stdio", "--team", "work"]

[mcp_servers.resting]
enabled = true
`, "SHIM", w.shim), "PROJECT", project))
	got := w.read(user)
	for _, part := range []string{
		"clock.startup_timeout_sec = 45\nclock.tool_timeout_sec = 660\nclock.args = [\"--server-id\", \"clock\", \"--from\", \"" + project + "\", \"--\", \"clock-mcp\"]\nclock.command = \"" + w.shim + "\"   # dotted keys\n",
		"clock.env.THOUGHTGATE_SOCKET = \"/run/user/1000/thoughtgate/shim.sock\"\n",
		`inline = { startup_timeout_sec = 45, tool_timeout_sec = 660, command = "` + w.shim + `", args = [ "--server-id", "inline", "--from", "` + project + `", "--", "inline-mcp", '--one', "two" ], env = { THOUGHTGATE_SOCKET`,
		"args = [\n\t\"--server-id\",\n\t\"files\",\n\t\"--from\",\n\t\"" + project + "\",\n\t\"--\",\n\t\"npx\",\n\t\"-y\",\n\t\"server-files\",   # the package\n",
		"startup_timeout_sec = 45\ntool_timeout_sec = 3_600.0\n",
		"[mcp_servers.files.env]\n" + socket + "\n\"DOTTED.NAME\" = 'C:\\no\\escape'\n",
		`args = ["--server-id", "tracker", "--from", "` + project + `", "--", '''` + w.home + `/bin/tracker-mcp''', "stdio"]`,
		"[mcp_servers.parts]\ntool_timeout_sec = 30\nargs = [\"of\", \"what?\"]\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	w.restore(p)
	for path, text := range before {
		w.wantFile(path, text)
	}
	w.wantClean()
}
