package agentconf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gooseConfig(w *world) string { return filepath.Join(w.home, ".config", "goose", "config.yaml") }

func TestGooseFiles(t *testing.T) {
	user := []string{
		"goose/config.yaml user developer:  (a part of goose itself (builtin))",
		"goose/config.yaml user notes: npx -y @example/notes",
		"goose/config.yaml user größe: ~/bin/größe --einheit cm, m [disabled]",
		"goose/config.yaml user shared: shared mcp",
		"goose/config.yaml user remote:  (a remote server (streamable_http))",
		"goose/config.yaml user todo:  (a part of goose itself (platform))",
	}
	replaced := func(lines []string, change ...string) []string {
		var out []string
		for _, line := range lines {
			out = append(out, strings.NewReplacer(change...).Replace(line))
		}
		return out
	}
	tests := []struct {
		name, command, vars, move string
		system                    string // an administrator's file
		want                      []string
		warnings                  []string
	}{
		{name: "the usual", command: "goose session", want: user},
		{name: "XDG", command: "goose", vars: "XDG_CONFIG_HOME=~/x", move: "x/goose", want: user},
		{name: "its own root", command: "goose", vars: "GOOSE_PATH_ROOT=~/g", move: "g/config", want: user},
		{name: "a relative root, which counts for nothing", command: "goose", vars: "GOOSE_PATH_ROOT=g", want: user},
		{name: "more files, later ones count for more", command: "goose", vars: "GOOSE_ADDITIONAL_CONFIG_FILES=~/none.yaml:~/team.yaml", want: append(user[:len(user):len(user)],
			"team.yaml additional shared: team-mcp [another scope has the name too]", "team.yaml additional extra: extra-mcp")},
		{name: "without the user's extensions", command: "goose run --no-profile -t hi", want: replaced(user,
			"notes", "notes", "@example/notes", "@example/notes [disabled]", "shared mcp", "shared mcp [disabled]",
			"(a ", "[disabled] (a ")},
		{name: "a recipe", command: "goose run --recipe r.yaml", want: user, warnings: []string{"servers of recipes are not governed: r.yaml"}},
		{name: "an administrator's", command: "goose", system: "extensions:\n  audit: {type: stdio, cmd: audit-mcp, enabled: true}\n", want: append(user[:len(user):len(user)],
			"no-administrator/config.yaml system audit: audit-mcp (set by an administrator in ~/no-administrator/config.yaml)"),
			warnings: []string{"servers that an administrator set in ~/no-administrator/config.yaml are not governed: audit"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.unpack("goose")
			if test.move != "" {
				w.write(filepath.Join(w.home, test.move, "config.yaml"), w.read(gooseConfig(w)))
				w.write(gooseConfig(w), "extensions: {wrong: {type: stdio, cmd: x, enabled: true}}\n")
			}
			if test.system != "" {
				w.write(filepath.Join(w.env().System, "config.yaml"), test.system)
			}
			for _, v := range strings.Fields(strings.ReplaceAll(test.vars, "~", w.home)) {
				name, value, _ := strings.Cut(v, "=")
				w.vars[name] = value
			}
			f, err := goose{}.Find(codexEnv(w, test.command))
			if err != nil {
				t.Fatal(err)
			}
			got := replaced(describe(w, f), ".config/goose/", "goose/", "x/goose/", "goose/", "g/config/", "goose/", w.home, "~")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, replaced(f.Warnings, w.home, "~")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGooseRefuses(t *testing.T) {
	entry := func(lines string) string {
		return "extensions:\n  a:\n    type: stdio\n" + lines
	}
	tests := []struct{ name, command, config, want string }{
		{"a server on the command line", "goose session --with-extension npx", entry("    cmd: x\n"), "--with-extension defines servers"},
		{"an anchor", "goose", entry("    cmd: &x npx\n"), `~/.config/goose/config.yaml (a is an entry that can't be rewritten: line 4, column 10: it has an anchor or a tag`},
		{"a tag", "goose", entry("    cmd: !!str npx\n"), "line 4, column 10: it has an anchor or a tag"},
		{"an alias", "goose", "x: &x npx\n" + entry("    cmd: *x\n"), "line 5, column 10: it is an alias"},
		{"an alias of the arguments", "goose", "x: &x [a]\n" + entry("    cmd: npx\n    args: *x\n"), "line 6, column 11: it is an alias"},
		{"a block of text", "goose", entry("    cmd: |\n      npx\n"), "line 4, column 10: it is a block of text"},
		{"text over lines", "goose", entry("    cmd: npx\n      -y\n"), "line 4, column 10: it is text without quotes over several lines"},
		{"a merged entry", "goose", entry("    <<: {cmd: npx}\n"), "line 3, column 5: it merges another mapping"},
		{"an entry with an anchor", "goose", "extensions:\n  a: &a\n    type: stdio\n    cmd: npx\n", "line 2, column 6: it has an anchor"},
		{"a name twice", "goose", entry("    cmd: x\n  b: {}\n  a: {}\n"), `line 6, column 3: the name "a" is there twice; first at line 2, column 3`},
		{"empty", "goose", "", "No MCP servers found"},
		{"nothing but parts of goose", "goose", "extensions:\n  developer: {type: builtin, enabled: true}\n", "developer is a part of goose itself (builtin)"},
		{"a list", "goose", "- a\n", "expected an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(gooseConfig(w), test.config)
			_, err := NewPlan(goose{}, codexEnv(w, test.command), w.shim)
			wantError(t, err, strings.ReplaceAll(test.want, "~", w.home))
		})
	}
}

func TestGooseRewrite(t *testing.T) {
	w := newWorld(t)
	w.unpack("goose")
	before := w.read(gooseConfig(w))
	p := w.governedBy(goose{}, codexEnv(w, "goose"))
	env := "THOUGHTGATE_SOCKET: \"/run/user/1000/thoughtgate/shim.sock\"\n      THOUGHTGATE_SESSION: \"5e55104f5e55104f5e55104f5e55104f\"\n"
	inline := `{"THOUGHTGATE_SOCKET": "/run/user/1000/thoughtgate/shim.sock", "THOUGHTGATE_SESSION": "5e55104f5e55104f5e55104f5e55104f"}`
	got := w.read(gooseConfig(w))
	for _, part := range []string{
		"    cmd: \"" + w.shim + "\"\n    args:\n    - \"--server-id\"\n    - \"notes\"\n    - \"--\"\n    - npx\n    - -y\n    # pinned\n    - '@example/notes'   # quoted, because of the @\n",
		"    envs:\n      " + env + "      LOG_LEVEL: \"debug\"\n", "    timeout: 660\n    bundled: true\n",
		"    args: [\"--server-id\", \"größe\", \"--\", \"" + w.home + "/bin/größe\", --einheit, \"cm, m\"]\n    envs: " + inline + "\n    timeout: 660\n",
		"    args: [\"--server-id\", \"shared\", \"--\", \"shared mcp\"]\n    envs: " + inline + "\n    timeout: 1000.5\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	w.restore(p)
	w.wantFile(gooseConfig(w), before)
	w.wantClean()
}

// What an agent or a person changed in a file while it was rewritten stays, and what was
// inserted is removed.
func TestRestoreThreeWay(t *testing.T) {
	codexConfig := func(w *world) string { return filepath.Join(w.home, ".codex", codexFile) }
	tests := []struct {
		name   string
		agent  Agent
		config func(w *world) string
		before string
		while  func(now string) string // changes the rewritten file
		want   string
	}{
		{"codex trusts a project", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\n",
			func(now string) string { return now + "\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n" },
			"[mcp_servers.a]\ncommand = 'x'\n\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n"},
		{"codex writes its tables anew, without comments", codex{}, codexConfig,
			"# c\n[mcp_servers.a]\ncommand = 'x' # d\nargs = [\n  'b', # e\n]\ntool_timeout_sec = 5.0\n",
			func(string) string {
				return "# c\n[mcp_servers.a]\ncommand = \"SHIM\"\nargs = [\"--server-id\", \"a\", \"--\", \"x\", \"b\"]\nstartup_timeout_sec = 45.0\ntool_timeout_sec = 660.0\n\n[mcp_servers.a.env]\nTHOUGHTGATE_SESSION = \"5e55104f5e55104f5e55104f5e55104f\"\nTHOUGHTGATE_SOCKET = \"s\"\n\n[mcp_servers.b]\ncommand = \"y\"\n"
			},
			"# c\n[mcp_servers.a]\ncommand = 'x'\nargs = [\"b\"]\ntool_timeout_sec = 5.0\n\n\n[mcp_servers.b]\ncommand = \"y\"\n"},
		{"a limit is changed", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\ntool_timeout_sec = 5\n",
			func(now string) string { return strings.Replace(now, "= 660", "= 1_200", 1) },
			"[mcp_servers.a]\ncommand = 'x'\ntool_timeout_sec = 1_200\n"},
		{"a limit is removed, and a variable added", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\ntool_timeout_sec = 5\n[mcp_servers.a.env]\n",
			func(now string) string {
				return strings.Replace(now, "tool_timeout_sec = 660\n", "", 1) + "NEW = 'n' # n\n"
			},
			"[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.env]\nNEW = 'n' # n\n"},
		{"the last variable of its own is removed", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\nenv.K = 'v'\n",
			func(now string) string { return strings.Replace(now, "env.K = 'v'\n", "", 1) },
			"[mcp_servers.a]\ncommand = 'x'\n"},
		{"the arguments are damaged", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\nargs = ['b']\nenabled = true\n",
			func(now string) string { return strings.Replace(now, `"--server-id", `, "", 1) },
			"[mcp_servers.a]\ncommand = 'x'\nargs = ['b']\nenabled = true\n"},
		{"the command is lost", codex{}, codexConfig,
			"[mcp_servers.a]\ncommand = 'x'\nenabled = true\n[mcp_servers.a.tools.t]\napproval_mode = \"approve\"\n",
			func(now string) string { return strings.Replace(now, "command = \"SHIM\"\n", "", 1) },
			"[mcp_servers.a]\ncommand = 'x'\nenabled = true\ntools = { t = { approval_mode = \"approve\" } }\n"},
		{"goose writes its file anew", goose{}, gooseConfig,
			"# c\nextensions:\n  a:\n    type: stdio\n    cmd: 'x y'\n    args: # d\n      - b\n    envs:\n    timeout: ~\n",
			func(string) string {
				return "extensions:\n  a:\n    type: stdio\n    cmd: SHIM\n    args:\n    - --server-id\n    - a\n    - --\n    - x y\n    - b\n    envs:\n      THOUGHTGATE_SOCKET: s\n      THOUGHTGATE_SESSION: 5e55104f5e55104f5e55104f5e55104f\n    timeout: 660\n  new:\n    type: stdio\n    cmd: n\nGOOSE_MODE: auto\n"
			},
			"extensions:\n  a:\n    type: stdio\n    cmd: 'x y'\n    args:\n    - b\n    envs:\n    timeout: ~\n  new:\n    type: stdio\n    cmd: n\nGOOSE_MODE: auto\n"},
		{"an entry is removed", goose{}, gooseConfig,
			"extensions:\n  a: {type: stdio, cmd: x}\n  b:\n    type: stdio\n    cmd: x\n",
			func(now string) string { return now[:strings.Index(now, "  b:")] + "  c: {}\n" },
			"extensions:\n  a: {type: stdio, cmd: x}\n  c: {}\n"},
		{"arguments are added", goose{}, gooseConfig,
			"extensions:\n  a:\n    type: stdio\n    cmd: x\n    args: []\n",
			func(now string) string { return strings.Replace(now, `, x]`, `, x, more]`, 1) },
			"extensions:\n  a:\n    type: stdio\n    cmd: x\n    args: [more]\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, newline := range []string{"\n", "\r\n"} {
				w := newWorld(t)
				lines := func(text string) string { return "\ufeff" + strings.ReplaceAll(text, "\n", newline) }
				path := test.config(w)
				w.write(path, lines(test.before))
				p := w.governedBy(test.agent, codexEnv(w, test.agent.Name()))
				now := strings.ReplaceAll(strings.TrimPrefix(w.read(path), "\ufeff"), newline, "\n")
				changed := test.while(strings.ReplaceAll(now, w.shim, "SHIM"))
				if changed == now {
					t.Fatalf("nothing was changed in\n%s", now)
				}
				w.write(path, lines(strings.ReplaceAll(changed, "SHIM", w.shim)))
				w.restore(p)
				w.wantFile(path, lines(test.want))
			}
		})
	}
}
