package agentconf

import (
	"path/filepath"
	"strings"
	"testing"
)

// doubtful lists files with one valid server, and one that agents may read in different ways or
// not at all.
var doubtful = []struct{ name, agent, file, odd, good, place string }{
	{"a command twice, in JSON", "claude-code", ".claude.json", `"odd": {"command":"x", "command":"y"}`, `"good": {"command":"g"}`, `line 1, column 39: the name "command" is there twice; first at line 1, column 24`},
	{"a variable twice, in JSON", "claude-code", ".claude.json", `"odd":{"command":"x","env":{"A":"1","\u0041":"2"}}`, `"good": {"command":"g"}`, `the name "A" is there twice`},
	{"a type twice, in JSON", "claude-code", ".claude.json", `"odd":{"type":"http","command":"x","type":"stdio","url":"u"}`, `"good": {"command":"g"}`, `the name "type" is there twice`},
	{"deep down, in JSON", "claude-code", ".claude.json", `"odd":{"command":"x","more":[{"b":{"c":1,"c":2}}]}`, `"good": {"command":"g"}`, `the name "c" is there twice`},
	{"a command twice, with comments", "gemini", ".gemini/settings.json", "\"odd\": { // mine\n \"command\": \"x\", /* or */ \"command\": \"y\"\n }", `"good": {"command":"g"}`, `line 2, column 27: the name "command" is there twice`},
	{"around what is started", "cline", ".cline/data/settings/cline_mcp_settings.json", `"odd":{"disabled":true,"disabled":false,"transport":{"type":"stdio","command":"x"}}`, `"good": {"command":"g"}`, `the name "disabled" is there twice`},
	{"a type twice, among files that are merged", "opencode", ".config/opencode/opencode.json", `"odd":{"type":"remote","type":"local","command":["x"]}`, `"good": {"type":"local","command":["g"]}`, `the name "type" is there twice`},
	{"a key twice, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\ncommand = \"y\" # or so\n", "[mcp_servers.good]\ncommand = \"g\"\n", `line 3, column 1: the name "command" is there twice; first at line 2, column 1`},
	{"a table twice, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\n[mcp_servers.odd.env]\nA = \"1\"\n[mcp_servers.odd.env]\nB = \"2\"\n", "[mcp_servers.good]\ncommand = \"g\"\n", `line 5, column 1: the name "env" is there twice`},
	{"a key twice between braces, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\nenv = { A = \"1\", A = \"2\" }\n", "[mcp_servers.good]\ncommand = \"g\"\n", `line 3, column 18: the name "A" is there twice`},
	{"a header for a value, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\nenv = 1\n[mcp_servers.odd.env]\nA = \"1\"\n", "[mcp_servers.good]\ncommand = \"g\"\n", `the name "env" is there twice`},
	{"a number too large, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\ntool_timeout_sec = 99999999999999999999999999\nfar = 0xffffffffffffffffffff\n", "[mcp_servers.good]\ncommand = \"g\"\n", "line 3, column 20: "},
	{"a byte in a value, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\xff\"\n", "[mcp_servers.good]\ncommand = \"g\" # \xff\n", "line 2, column 13: this is no UTF-8"},
	{"a byte in a name, in TOML", "codex", ".codex/config.toml", "[mcp_servers.odd]\ncommand = \"x\"\nenv = {\"A\xff\" = \"1\"}\n", "[mcp_servers.good]\ncommand = \"g\"\n", "line 3, column 10: this is no UTF-8"},
	{"a name twice, in YAML", "goose", ".config/goose/config.yaml", "  odd:\n    type: sse\n    cmd: x\n    type: stdio\n", "  good:\n    type: stdio\n    cmd: g\n", `line 5, column 5: the name "type" is there twice; first at line 3, column 5`},
	{"a variable twice between braces, in YAML", "goose", ".config/goose/config.yaml", "  odd:\n    type: stdio\n    cmd: x\n    envs: {A: b, A: c}\n", "  good:\n    type: stdio\n    cmd: g\n", `the name "A" is there twice`},
	{"a byte in a value, in YAML", "goose", ".config/goose/config.yaml", "  odd:\n    type: stdio\n    cmd: x\n    envs:\n      A: \"\xff\"\n", "  good:\n    type: stdio\n    cmd: g\n", "line 6, column 11: this is no UTF-8"},
	{"a byte in a name, in YAML", "goose", ".config/goose/config.yaml", "  odd:\n    type: stdio\n    cmd: x\n    A\xff: 1\n", "  good:\n    type: stdio\n    cmd: g\n", "line 5, column 6: this is no UTF-8"},
	{"an alias for a server, in YAML", "goose", ".config/goose/config.yaml", "  same: &s\n    type: stdio\n    cmd: x\n  odd: *s\n", "  good:\n    type: stdio\n    cmd: g\n", "line 5, column 8: it is an alias"},
}

// serversOf returns a file of an agent with the given servers.
func serversOf(agent string, servers ...string) string {
	switch agent {
	case "codex":
		return strings.Join(servers, "\n")
	case "goose":
		return "extensions:\n" + strings.Join(servers, "")
	case "opencode":
		return `{"mcp":{` + strings.Join(servers, ",") + "}}\n"
	}
	return `{"mcpServers":{` + strings.Join(servers, ",") + "}}\n"
}

// A doubtful entry does not affect the others. It is reported with its place, and not changed.
func TestDoubtfulEntries(t *testing.T) {
	for _, test := range doubtful {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			path, text := filepath.Join(w.home, test.file), serversOf(test.agent, test.odd, test.good)
			w.write(path, text)
			agent, err := AgentFor(test.agent, nil)
			if err != nil {
				t.Fatal(err)
			}
			env := w.env()
			env.Command = []string{test.agent}
			p := w.governedBy(agent, env)
			warnings := strings.Join(p.Warnings(), "\n")
			for _, want := range []string{"server odd in " + path + " is not governed", test.place} {
				if !strings.Contains(warnings, want) {
					t.Errorf("the warnings lack %q:\n%s", want, warnings)
				}
			}
			now := w.read(path)
			if !strings.Contains(now, test.odd) || strings.Count(now, w.line().Session) != 1 {
				t.Errorf("wrapped it is\n%s", now)
			}
			if got := drift(t, p); got != "" {
				t.Errorf("drift: %s", got)
			}
			w.restore(p)
			w.wantFile(path, text)
			w.wantClean()
			// Unwrap needs only the words in the file.
			w.governedBy(agent, env).Unlock()
			if _, err := Unwrap(path, w.notes()); err != nil {
				t.Fatal(err)
			}
			w.wantFile(path, text)
		})
	}
}

// A server that is added during a wrap and can't be governed is reported.
func TestDoubtfulEntriesThatComeIn(t *testing.T) {
	for _, test := range doubtful {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			path := filepath.Join(w.home, test.file)
			w.write(path, serversOf(test.agent, test.good))
			agent, err := AgentFor(test.agent, nil)
			if err != nil {
				t.Fatal(err)
			}
			env := w.env()
			env.Command = []string{test.agent}
			p := w.governedBy(agent, env)
			odd := test.odd
			switch test.agent {
			case "codex":
				odd = w.read(path) + "\n" + odd
			case "goose":
				odd = w.read(path) + odd
			default:
				odd = strings.TrimSuffix(w.read(path), "}}\n") + "," + odd + "}}\n"
			}
			w.write(path, odd)
			if got := drift(t, p); !strings.Contains(got, "odd added") {
				t.Errorf("drift: %q", got)
			}
			w.restore(p)
			if now := w.read(path); !strings.Contains(now, test.odd) || strings.Contains(now, w.line().Session) {
				t.Errorf("restored it is\n%s", now)
			}
		})
	}
}

// A file is an error if a doubt may decide which servers there are or what their names are. So
// is a doubtful server of a project: it would be started without anybody's approval.
func TestDoubtsAboutMoreThanAServer(t *testing.T) {
	const good = `"good":{"command":"g"}`
	for _, test := range []struct{ name, agent, file, text, want string }{
		{"the servers", "claude-code", ".claude.json", `{"mcpServers":{` + good + `},"mcpServers":{}}`, `the name "mcpServers" is there twice`},
		{"a server's name", "claude-code", ".claude.json", `{"mcpServers":{` + good + `,` + good + `}}`, `the name "good" is there twice`},
		{"beside them", "claude-code", ".claude.json", `{"mcpServers":{` + good + `},"x":{"a":1,"a":2}}`, `the name "a" is there twice`},
		{"a rule", "gemini", ".gemini/settings.json", `{"mcpServers":{` + good + `},"mcp":{"excluded":[],"excluded":["good"]}}`, `the name "excluded" is there twice`},
		{"of a project", "claude-code", "src/shop/.mcp.json", `{"mcpServers":{` + good + `,"odd":{"command":"x","command":"y"}}}`, `server "odd" in `},
		{"settings of an editor", "vscode", ".config/Code/User/settings.json", `{"mcp":{},"a":1,"mcp":{"servers":{"b":{"command":"x"}}}}`, `the name "mcp" is there twice`},
		{"ours as well", "claude-code", ".claude.json", `{"mcpServers":{` + good + `,"odd":{"command":"x","command":"/opt/tg-shim","args":["--server-id","odd","--","x"]}}}`, `the name "command" is there twice`},
		{"a table", "codex", ".codex/config.toml", "mcp_servers.good = { command = 'g' }\nmcp_servers.good = { command = 'h' }\n", `the name "good" is there twice`},
		{"a number elsewhere", "codex", ".codex/config.toml", "x = 99999999999999999999999\n[mcp_servers.good]\ncommand = 'g'\n", "line 1, column 5: "},
		{"a byte of a server's name", "codex", ".codex/config.toml", "[mcp_servers.\"good\xff\"]\ncommand = 'g'\n", "line 1, column 19: this is no UTF-8"},
		{"a byte elsewhere", "goose", ".config/goose/config.yaml", "x: \xff\nextensions:\n  good:\n    type: stdio\n    cmd: g\n", "line 1, column 4: this is no UTF-8"},
		{"a byte between servers", "goose", ".config/goose/config.yaml", "extensions:\n  good:\n    type: stdio\n    cmd: g\n  # \xff\n  b:\n    type: stdio\n    cmd: h\n", "line 5, column 5: this is no UTF-8"},
		{"another encoding", "goose", ".config/goose/config.yaml", "\xff\xfee\x00x\x00t\x00", "line 1, column 1: this is no UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(filepath.Join(w.home, test.file), test.text)
			agent, err := AgentFor(test.agent, nil)
			if err != nil {
				t.Fatal(err)
			}
			env := w.env()
			env.Command, env.OS = []string{test.agent}, "linux"
			_, err = NewPlan(agent, env, w.shim)
			wantError(t, err, filepath.Base(test.file), test.want)
			w.wantFile(filepath.Join(w.home, test.file), test.text)
		})
	}
}

// A line of ours that became ambiguous is not used: the file is restored from its backup, and
// the ambiguous file is kept.
func TestDoubtfulLineOfOurs(t *testing.T) {
	for name, more := range map[string]string{
		"a command": `"command":"evil","command":`, "the server": `"x":1},"files":{"command":`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, _ := w.wrapped()
			altered := strings.Replace(w.read(w.state()), `"command":`, more, 1)
			w.write(w.state(), altered)
			if drift, err := p.Drift(); err == nil {
				t.Errorf("drift %v", drift)
			}
			reports := w.restore(p)
			w.wantFile(w.state(), twoServers)
			w.wantFile(w.state()+alteredSuffix, altered)
			if len(reports) != 1 || !strings.Contains(reports[0].String(), "the file was invalid") {
				t.Errorf("reports %v", reports)
			}
		})
	}
}
