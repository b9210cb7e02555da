package agentconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/internal/edit/jsonc"
)

// start returns the agent, and the environment in which it reads all its places.
func (p place) start(w *world) (Agent, Env) {
	w.t.Helper()
	env := w.env()
	env.OS, env.Command = "linux", commandOf(p.agent, w)
	agent, err := AgentFor(p.agent, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return agent, env
}

// with returns a file with the given text as its list of servers.
func (p place) with(w *world, servers string) string {
	for _, name := range slices.Backward(p.list) {
		servers = "{" + (jsonc.Syntax{}).Quote(strings.ReplaceAll(name, "~", w.cwd)) + ": " + servers + "}"
	}
	return servers
}

func (p place) String() string { return p.agent + " " + p.file + " " + strings.Join(p.list, ".") }

// Whatever prevents a wrap of an agent is reported with the path, for every agent.
func TestEveryAgentRefuses(t *testing.T) {
	for _, p := range places {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel() // waits for a file that does not parse
			w := newWorld(t)
			path := filepath.Join(w.home, p.file)
			agent, env := p.start(w)
			refuses := func(text string, want ...string) {
				t.Helper()
				w.write(path, text)
				_, err := NewPlan(agent, env, w.shim)
				wantError(t, err, want...)
				w.wantFile(path, text)
				w.wantClean()
			}
			if _, err := NewPlan(agent, env, w.shim); p.file != workspaceFile && !strings.Contains(p.file, "profiles") { // those are looked for where they are
				wantError(t, err, "no configuration of "+p.agent+" was found; searched ", path) // EC-STDIO-001
			}
			aside := strings.HasSuffix(p.file, "/settings.json") && p.agent == "vscode" || p.file == workspaceFile
			if !aside {
				refuses("", path+": line 1, column 1: the file is empty") // EC-STDIO-002
				refuses("[]", path+": line 1, column 1: expected an object")
				refuses(p.with(w, "{}"), "No MCP servers found in config: "+path) // EC-STDIO-003
			}
			refuses(p.with(w, `{"a":{"url":"ftp://mcp.example.test"}}`), "No MCP servers found in config that can be governed: "+path, "a is a remote server", "neither http, https nor unix://") // EC-STDIO-003
			refuses(p.with(w, `{"mcp":{"command":"x"},"mcp":{"command":"y"}}`), path+": line 1, column ", `the name "mcp" is there twice`)
			refuses(p.with(w, `{"a":{"command":"tg-shim","args":["--server-id","a","--","x"]}}`), "already managed by ThoughtGate", "tgctl unwrap "+path) // EC-STDIO-034
			if !p.comments && p.agent != "gemini" && p.agent != "qwen" {
				refuses("// mine\n"+p.with(w, `{"a":{"command":"x"}}`), path+": line 1, column 1: a comment")
			}
			if !p.comments {
				refuses(p.with(w, `{"a":{"command":"x"},}`), path+": line 1, column ")
			}
		})
	}
}

// EC-STDIO-004: each agent's notation for a server that is switched off.
func TestEverythingOff(t *testing.T) {
	for _, test := range []struct{ agent, file, text string }{
		{"windsurf", ".codeium/windsurf/mcp_config.json", `{"mcpServers":{"a":{"command":"x","disabled":true}}}`},
		{"zed", ".config/zed/settings.json", `{"context_servers":{"a":{"command":"x","args":[],"enabled":false},"b":{"command":{"path":"x"},"enabled":false}}}`},
		{"gemini", ".gemini/settings.json", `{"mcp":{"excluded":["a"]},"mcpServers":{"a":{"command":"x"}}}`},
		{"gemini", "src/shop/.gemini/settings.json", `{"mcp":{"allowed":["b"]},"mcpServers":{"a":{"command":"x"}}}`},
		{"opencode", "src/shop/opencode.json", `{"mcp":{"a":{"type":"local","command":["x"],"enabled":false}}}`},
		{"copilot-cli", ".copilot/mcp-config.json", `{"mcpServers":{"a":{"command":"x","disabled":true}}}`},
		{"cline", ".cline/data/settings/cline_mcp_settings.json", `{"mcpServers":{"a":{"transport":{"type":"stdio","command":"x"},"disabled":true}}}`},
		{"crush", "src/shop/crush.json", `{"mcp":{"a":{"type":"stdio","command":"x","disabled":true}}}`},
		{"droid", ".factory/mcp.json", `{"mcpServers":{"a":{"command":"x","disabled":true}}}`},
		{"kiro", "src/shop/.kiro/settings/mcp.json", `{"mcpServers":{"a":{"command":"x","disabled":true}}}`},
		{"antigravity", ".gemini/config/mcp_config.json", `{"mcpServers":{"a":{"command":"x","disabled":true}}}`},
		{"claude-code", ".claude.json", `{"disabledMcpServers":["a"],"projects":{"~":{"disabledMcpServers":["a"]}},"mcpServers":{"a":{"command":"x"}}}`},
	} {
		w := newWorld(t)
		w.write(filepath.Join(w.home, test.file), strings.ReplaceAll(test.text, "~", w.cwd))
		agent, env := place{agent: test.agent}.start(w)
		_, err := NewPlan(agent, env, w.shim)
		wantError(t, err, "All MCP servers are disabled: ", test.file)
	}
}

// EC-STDIO-026: references stay as written. Those that can't be resolved are reported, except
// those of the agent itself.
func TestReferencesOfEveryAgent(t *testing.T) {
	const entry = `{"a":{"command":"${SHELL_STYLE}","args":["${env:EDITOR_STYLE} ${env:SET}","${workspaceFolder}${/}${userHome}","${input:x}","${file:/k}","${command:y}"],"env":{"K":"${env:IN_ENV}"}}}`
	for _, p := range places {
		var unset string
		switch p.agent {
		case "claude-code", "copilot-cli", "qwen", "crush", "droid", "kiro":
			unset = "SHELL_STYLE, workspaceFolder, userHome"
		case "cursor", "vscode", "windsurf":
			unset = "EDITOR_STYLE, IN_ENV"
		}
		t.Run(p.String(), func(t *testing.T) {
			w := newWorld(t)
			w.vars["SET"] = "s3cr3t"
			path := filepath.Join(w.home, p.file)
			w.write(path, p.with(w, entry))
			agent, env := p.start(w)
			plan, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, warning := range plan.Warnings() {
				if _, names, is := strings.Cut(warning, " refers to "); is {
					got = append(got, names)
				}
			}
			var want []string
			if inactive := plan.Entries()[0].Off != Starts; unset != "" && !inactive {
				want = []string{unset + ", which is not set; the reference is kept"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := plan.Prepare(w.line()); err != nil {
				t.Fatal(err)
			}
			text := string(plan.files[0].text)
			for _, part := range []string{"${SHELL_STYLE}", "${env:EDITOR_STYLE} ${env:SET}", "${workspaceFolder}${/}${userHome}", "${input:x}", "${file:/k}", "${command:y}", "${env:IN_ENV}"} {
				if strings.Count(text, part) != 1 {
					t.Errorf("%s is not there once in %s", part, text)
				}
			}
			if strings.Contains(text, "s3cr3t") {
				t.Errorf("a value was written: %s", text)
			}
		})
	}
}

// EC-STDIO-038: patch applies the diff of a dry run of any agent.
func TestEveryDiffApplies(t *testing.T) {
	patch := program(t, "patch")
	for _, name := range []string{"claude-desktop", "cursor", "windsurf", "vscode", "zed"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.unpack(name)
			agent, env := place{agent: name}.start(w)
			p, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Prepare(w.line()); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(patch, "-p1", "-d", "/")
			cmd.Stdin = strings.NewReader(p.Diff())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("patch: %v\n%s\n%s", err, out, p.Diff())
			}
			for _, f := range p.files {
				w.wantFile(f.path, string(f.text))
			}
			for _, e := range p.Entries() {
				governed := strings.Contains(w.read(e.File), `"--server-id", `+(jsonc.Syntax{}).Quote(e.ID))
				if e.Ungoverned == "" && !governed {
					t.Errorf("%s in %s does not start the shim", e.ID, e.File)
				}
			}
			left, err := filepath.Glob(filepath.Join(w.cwd, ".vscode", "*.orig"))
			if err != nil || len(left) > 0 {
				t.Errorf("patch had to guess: %q, %v", left, err)
			}
		})
	}
}

// EC-STDIO-039: a server added to any file during the session is reported, governed if
// requested, and still there afterwards.
func TestServerAddedAnywhere(t *testing.T) {
	for _, p := range places {
		if slices.Contains(p.list, "nightly") || slices.Contains(p.list, "profiles") || strings.Contains(p.file, "profiles") {
			continue // the agent does not start servers there
		}
		both := func(t *testing.T, adopt bool) {
			w := newWorld(t)
			path := filepath.Join(w.home, p.file)
			w.write(path, p.with(w, `{"a":{"command":"x","args":["y"]}}`))
			agent, env := p.start(w)
			plan, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{plan.Lock(w.line().Session), plan.Backup(), plan.Prepare(w.line()), plan.Apply()} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := drift(t, plan); got != "" {
				t.Errorf("drift before anything was: %s", got)
			}
			wrapped := w.read(path)
			w.write(path, strings.Replace(wrapped, `{"a":`, `{"new":{"command":"n","args":[]},"a":`, 1))
			if got := drift(t, plan); got != "new added" {
				t.Errorf("drift: %s", got)
			}
			if adopt {
				if err := plan.Adopt(daemonKeeps{}.commit); err != nil {
					t.Fatal(err)
				}
				if got := drift(t, plan); got != "" || strings.Count(w.read(path), w.line().Session) != 2 {
					t.Errorf("adopted, and still: %s\n%s", got, w.read(path))
				}
			}
			w.restore(plan)
			w.wantFile(path, p.with(w, `{"new":{"command":"n","args":[]},"a":{"command":"x","args":["y"]}}`))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(p.String(), func(t *testing.T) { both(t, false) })
		t.Run(p.String()+" adopt", func(t *testing.T) { both(t, true) })
	}
}

// A relative command and working directory, and a file of variables, have the same meaning for
// tg-shim as for the server, because the agent starts both in the same way.
func TestWhereServersStart(t *testing.T) {
	const entry = `{"a":{"command":"./run","args":["./x"],"cwd":"../data","envFile":"${workspaceFolder}/.env","timeout":1e9}}`
	for _, p := range places {
		w := newWorld(t)
		w.write(filepath.Join(w.home, p.file), p.with(w, entry))
		agent, env := p.start(w)
		plan, err := NewPlan(agent, env, w.shim)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Prepare(w.line()); err != nil {
			t.Fatal(err)
		}
		text := string(plan.files[0].text)
		for _, part := range []string{`"--", "./run", "./x"]`, `"cwd":"../data"`, `"envFile":"${workspaceFolder}/.env"`, `"timeout":1e9`} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is missing in %s", p, part, text)
			}
		}
	}
}

// An agent's limit for calls is raised and restored.
func TestLimitsOfAdapters(t *testing.T) {
	for _, test := range []struct{ agent, file, text, want string }{
		{"zed", ".config/zed/settings.json", `{"context_servers":{"a":{"command":"x","args":[],"timeout":30}}}`, `"timeout":660}`},
		{"zed", ".config/zed/settings.json", `{"context_servers":{"a":{"command":"x","args":[],"timeout":9000}}}`, `"timeout":9000}`},
		{"zed", ".config/zed/settings.json", `{"context_servers":{"a":{"command":"x","args":[]}}}`, `"timeout":660,`},
		{"claude-code", ".claude.json", `{"mcpServers":{"a":{"command":"x","args":[],"timeout":60000}}}`, `"timeout":660000}`},
	} {
		w := newWorld(t)
		path := filepath.Join(w.home, test.file)
		w.write(path, test.text)
		agent, env := place{agent: test.agent}.start(w)
		p, err := NewPlan(agent, env, w.shim)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{p.Lock(w.line().Session), p.Backup(), p.Prepare(w.line()), p.Apply()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.ReplaceAll(w.read(path), ": ", ":"); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s is missing in %s", test.agent, test.want, got)
		}
		w.restore(p)
		w.wantFile(path, test.text)
	}
	// Without a limit Claude Code waits longer than with our raised limit.
	if added := raised(mustParse(t, `{"command":"x"}`), kindOf("claude-code").raises); len(added) > 0 {
		t.Errorf("added: %v", added)
	}
}

// Zed migrates an entry of the older form during the wrap. The entry stays migrated and starts
// the server again.
func TestZedMigrates(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, ".config", "zed", "settings.json")
	w.write(path, `{"context_servers":{"db":{"source":"custom","command":{"path":"db-mcp","args":["x"],"env":{"K":"v"}},"settings":{}},"bare":{"command":{"path":"b"}}}}`)
	agent, env := place{agent: "zed"}.start(w)
	p, err := NewPlan(agent, env, w.shim)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.Lock(w.line().Session), p.Backup(), p.Prepare(w.line()), p.Apply()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.write(path, reformat(t, w.read(path), func(v map[string]any) {
		servers := dig(v, "context_servers")
		for name := range servers {
			command := dig(servers, name, "command")
			servers[name] = map[string]any{"command": command["path"], "args": command["args"], "env": command["env"]}
		}
	}))
	if got := drift(t, p); got != "" {
		t.Errorf("drift: %s, although both still start the shim", got)
	}
	w.restore(p)
	got := reformat(t, w.read(path), func(map[string]any) {})
	want := reformat(t, `{"context_servers":{"db":{"command":"db-mcp","args":["x"],"env":{"K":"v"}},"bare":{"command":"b"}}}`, func(map[string]any) {})
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
