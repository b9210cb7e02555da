package agentconf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pointing returns the Pointing of an agent that supports it.
func (w *world) pointing(agent Agent, env Env) *Pointing {
	w.t.Helper()
	p, err := NewPlan(agent, env, w.shim)
	if err != nil {
		w.t.Fatal(err)
	}
	way, why, err := p.Point(w.sessions())
	if err != nil || why != "" {
		w.t.Fatalf("the files are rewritten: %s, %v", why, err)
	}
	return way
}

func (w *world) sessions() string { return filepath.Join(w.home, "run", "sessions") }

// told returns the text that an agent is given in a variable or a copy.
func (w *world) told(p *Pointing) string {
	w.t.Helper()
	if err := p.Prepare(w.line()); err != nil {
		w.t.Fatal(err)
	}
	if p.out.copy != nil {
		return string(p.out.copy)
	}
	return p.out.value
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// short expands SHIM(id) to tg-shim's path, words and the program's mark, and SHIM(id of FILE)
// to those of a server to which a file of the project contributes.
func (w *world) short(want string) string {
	for {
		before, rest, found := strings.Cut(want, "SHIM(")
		if !found {
			break
		}
		id, after, _ := strings.Cut(rest, ")")
		id, file, shipped := strings.Cut(id, " of ")
		words := `"` + w.shim + `","--server-id","` + id + `"`
		if shipped {
			words += `,"--from","` + filepath.Join(w.cwd, file) + `"`
		}
		want = before + words + `,"--"` + after
	}
	l := w.line()
	return strings.ReplaceAll(want, "OURS", `"THOUGHTGATE_SOCKET":"`+l.Socket+`","THOUGHTGATE_SESSION":"`+l.Session+`"`)
}

func TestPointOpencode(t *testing.T) {
	for _, test := range []struct{ name, user, project, variable, want string }{
		{"one server", `{"mcp":{"a":{"type":"local","command":["npx","{env:X}"],"cwd":"c","environment":{"K":"v"}}}}`, "", "",
			`{"mcp":{"a":{"type":"local","command":[SHIM(a),"npx","{env:X}"],"environment":{OURS},"timeout":660000}}}`},
		{"of two files the stronger, and off stays where it is said", `{"mcp":{"a":{"type":"local","command":["weak"],"timeout":900000},"b":{"type":"local","command":["b"]}}}`,
			`{"mcp":{"a":{"type":"local","command":["strong","x"]},"b":{"enabled":false}}}`, "",
			`{"mcp":{"a":{"type":"local","command":[SHIM(a of opencode.json),"strong","x"],"environment":{OURS}},"b":{"type":"local","command":[SHIM(b of opencode.json),"b"],"environment":{OURS},"timeout":660000}}}`},
		{"those that can't be governed are not spoken of", `{"mcp":{"a":{"type":"local","command":["a"]},"r":{"type":"remote","url":"ftp://x"},"s":{"type":"local","command":["s"]}}}`,
			`{"mcp":{"s":{"type":"remote","url":"ftp://x"}}}`, "",
			`{"mcp":{"a":{"type":"local","command":[SHIM(a),"a"],"environment":{OURS},"timeout":660000}}}`},
		{"what the person has in the variable stays", `{"mcp":{"a":{"type":"local","command":["a"]}}}`, "", `{"theme":"x","mcp":{}}`,
			`{"theme":"x","mcp":{"a":{"type":"local","command":[SHIM(a),"a"],"environment":{OURS},"timeout":660000}}}`},
		{"servers in the variable", `{"mcp":{"a":{"type":"local","command":["a"]},"b":{"type":"local","command":["b"]}}}`, "",
			`{"mcp":{"a":{"enabled":true},"b":{"type":"local","command":["mine","y"],"environment":{"K":"v"},"timeout":5},"c":{"type":"local","command":["c"]}}}`,
			`{"mcp":{"a":{"enabled":true,"type":"local","command":[SHIM(a),"a"],"environment":{OURS},"timeout":660000},` +
				`"b":{"type":"local","command":[SHIM(b),"mine","y"],"environment":{OURS,"K":"v"},"timeout":5},` +
				`"c":{"type":"local","command":[SHIM(c),"c"],"environment":{OURS},"timeout":660000}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			env := w.env()
			env.Command = []string{"opencode"}
			w.write(filepath.Join(w.home, ".codex", "config.toml"), "mcp_servers.a.command = 'x'\n")
			w.write(filepath.Join(w.home, ".config", "opencode", "opencode.json"), test.user)
			if test.project != "" {
				w.write(filepath.Join(w.cwd, "opencode.json"), test.project)
			}
			environ := []string{"A=1"}
			if test.variable != "" {
				w.vars[scopeContent] = test.variable
				environ = append(environ, scopeContent+"="+test.variable)
			}
			p := w.pointing(opencode{}, env)
			got := w.told(p)
			if diff := cmp.Diff(decoded(t, w.short(test.want)), decoded(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			argv, environ := p.Launch([]string{"opencode", "run"}, environ)
			if !slices.Equal(argv, []string{"opencode", "run"}) || !slices.Equal(environ, []string{"A=1", scopeContent + "=" + got}) {
				t.Errorf("it is started by %q with %q", argv, environ)
			}
		})
	}
}

// EC-STDIO-025: the agent is given the strongest entries of the user's file and the project's,
// and neither file is changed.
func TestPointCopilot(t *testing.T) {
	w := newWorld(t)
	user, project := filepath.Join(w.home, ".copilot", "mcp-config.json"), filepath.Join(w.cwd, ".mcp.json")
	w.vars["COPILOT_ALLOW_ALL"] = "true"
	w.write(user, `{ // mine
		"mcpServers": {
			"a": {"type": "local", "command": "a", "args": ["$X", /* , */ "é\u0041"], "tools": ["*"], "timeout": 1.50e6,},
			"off": {"command": "o", "disabled": true, "env": {"K": "$SECRET"}},
			"shared": {"command": "weak"},
			"far": {"command": "shadowed"},
		},
	}`)
	w.write(project, `{"mcpServers": {"shared": {"command": "strong"}, "far": {"type": "http", "url": "https://x"}}}`)
	before := []string{w.read(user), w.read(project)}
	env := w.env()
	env.Command = []string{"copilot", "-p", "hi"}
	p := w.pointing(copilot{}, env)
	if err := p.Lock(w.line().Session); err != nil {
		t.Fatal(err)
	}
	want := `{"mcpServers":{
		"a":{"type":"local","command":"SHIM","args":["--server-id","a","--","a","$X","éA"],"env":{OURS},"tools":["*"],"timeout":1500000},
		"off":{"command":"SHIM","args":["--server-id","off","--","o"],"env":{OURS,"K":"$SECRET"},"disabled":true,"timeout":660000},
		"shared":{"command":"SHIM","args":["--server-id","shared","--from","` + project + `","--","strong"],"env":{OURS},"timeout":660000},
		"far":{"type":"stdio","command":"SHIM","args":["--server-id","far","--from","` + project + `","--remote"],"env":{OURS},"timeout":660000}}}`
	if diff := cmp.Diff(decoded(t, strings.ReplaceAll(w.short(want), "SHIM", w.shim)), decoded(t, w.told(p))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	journals, err := p.Journals()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.sessions(), w.line().Session, copyName)
	argv, environ := p.Launch(env.Command, []string{"A=1"})
	if !slices.Equal(argv, []string{"copilot", scopeAdditional, "@" + path, "-p", "hi"}) || !slices.Equal(environ, []string{"A=1"}) {
		t.Errorf("it is started by %q with %q", argv, environ)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if paths, err := JournalPaths(journals[0].Text); err != nil || !slices.Contains(paths, path) || !slices.Contains(paths, journals[0].Path) {
		t.Errorf("the journal is about %q, %v", paths, err)
	}
	if _, held, err := TryLock(journals[0].Text); !held || err != nil {
		t.Errorf("the lock of a session that lives: held %v, %v", held, err)
	}
	if got := drift(t, p); got != "" {
		t.Errorf("drift: %s", got)
	}
	w.write(project, `{"mcpServers": {"shared": {"command": "strong"}, "late": {"command": "l"}}}`)
	if got := drift(t, p); got != "late added" {
		t.Errorf("drift: %s", got)
	}
	if err := p.Adopt(nil); err == nil {
		t.Error("it was adopted, and the files were to stay")
	}
	w.write(project, before[1])
	if reports, err := p.Restore(); err != nil || len(reports) > 0 {
		t.Errorf("%v, %v", reports, err)
	}
	p.Unlock()
	if got := []string{w.read(user), w.read(project)}; !slices.Equal(got, before) {
		t.Errorf("the files were changed: %q", got)
	}
	if left, _ := os.ReadDir(w.sessions()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	w.wantClean()
}

func TestPointCodex(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.home, ".codex", "config.toml"), `# by hand
[projects."`+w.cwd+`"]
trust_level = "trusted"
[mcp_servers.one]
command = "npx"
args = ["weak"]
tool_timeout_sec = 900.5
[mcp_servers.one.env]
K = "s3cr3t"
[mcp_servers.off]
command = "o"
enabled = false
[mcp_servers.far]
url = "ftp://x"
`)
	w.write(filepath.Join(w.cwd, ".codex", "config.toml"), "mcp_servers.one.args = ['say \"x\"', 'ü']\n")
	env := w.env()
	env.Command = []string{"codex", "exec", "hi"}
	p := w.pointing(codex{}, env)
	w.told(p)
	var want []string
	for _, setting := range []string{
		`off.command="` + w.shim + `"`, `off.args=["--server-id", "off", "--", "o"]`,
		`off.env.THOUGHTGATE_SOCKET="` + w.line().Socket + `"`, `off.env.THOUGHTGATE_SESSION="` + w.line().Session + `"`,
		`off.startup_timeout_sec=45`, `off.tool_timeout_sec=660`,
		`one.command="` + w.shim + `"`, `one.args=["--server-id", "one", "--from", "` + filepath.Join(w.cwd, ".codex", "config.toml") + `", "--", "npx", "say \"x\"", "ü"]`,
		`one.env.THOUGHTGATE_SOCKET="` + w.line().Socket + `"`, `one.env.THOUGHTGATE_SESSION="` + w.line().Session + `"`,
		`one.startup_timeout_sec=45`,
	} {
		want = append(want, "-c", "mcp_servers."+setting)
	}
	argv, environ := p.Launch(env.Command, []string{"A=1"})
	if diff := cmp.Diff(slices.Concat([]string{"codex"}, want, []string{"exec", "hi"}), argv); diff != "" || len(environ) != 1 {
		t.Errorf("%q (-want +got):\n%s", environ, diff)
	}
	if diff := p.Diff(); diff != "" {
		t.Errorf("a diff of nothing: %s", diff)
	}
}

// A flag or a variable must neither start what the agent would not start, nor omit what it
// would.
func TestUnfaithful(t *testing.T) {
	for _, test := range []struct{ command, file, text, want string }{
		{"copilot mcp list", "", "", "copilot mcp ignores"},
		{"copilot --resume", "", "", "with --resume it may work in another folder"},
		{"copilot --worktree=x", "", "", "with --worktree it may work in another folder"},
		{"copilot --additional-mcp-config @m.json", "m.json", `{"mcpServers":{}}`, "already has --additional-mcp-config"},
		{"copilot", ".mcp.json", `{"mcpServers":{"p":{"command":"p"}}}`, "p would be started without your approval"},
		{"copilot -- --resume", "", "", ""},
		{"opencode serve", "", "", "with serve it works in other folders"},
		{"opencode run --attach=http://x hi", "", "", "with --attach it works in other folders"},
		{"codex app-server", "", "", "with app-server codex may read other files"},
		{"codex exec --ignore-user-config x", "", "", "with --ignore-user-config codex may read other files"},
		{"env copilot", "", "", "may not pass it on"},
		{"codex -- resume", "", "", ""},
		{"codex", ".codex/config.toml", "mcp_servers.p.command = 'p'\n", "p would be started without your approval"},
		{"opencode", "opencode.json", `{"mcp":{"f":{"type":"local","command":["x","{file:k}"]}}}`, ""},
		{"opencode", ".opencode/opencode.json", `{"mcp":{"f":{"type":"local","command":["x","{file:./k}"]}}}`, "the command of f refers to a file beside"},
		{"opencode", ".opencode/opencode.json", `{"mcp":{"f":{"type":"local","command":["x","{file:/k} {file:~/k}"]}}}`, ""},
	} {
		t.Run(test.command+test.file, func(t *testing.T) {
			w := newWorld(t)
			env := w.env()
			env.Command = strings.Fields(test.command)
			w.write(filepath.Join(w.home, ".copilot", "mcp-config.json"), `{"mcpServers":{"a":{"command":"x"}}}`)
			w.write(filepath.Join(w.home, ".codex", "config.toml"), "mcp_servers.a.command = 'x'\n")
			w.write(filepath.Join(w.home, ".config", "opencode", "opencode.json"), `{"mcp":{"a":{"type":"local","command":["x"]}}}`)
			if test.file != "" {
				w.write(filepath.Join(w.cwd, test.file), test.text)
			}
			agent, err := AgentFor("", env.Command[len(env.Command)-1:])
			if test.command != "env copilot" {
				agent, err = AgentFor("", env.Command)
			}
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(agent, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			way, why, err := p.Point(w.sessions())
			if err != nil || (way == nil) != (test.want != "") || !strings.Contains(why, test.want) {
				t.Errorf("%v, %q, %v; want %q", way, why, err, test.want)
			}
		})
	}
}

// EC-STDIO-044: after a kill at any time, the copy is removed by the session's journal or by
// the next session.
func TestPointKilled(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		w := newWorld(t)
		w.write(filepath.Join(w.home, ".copilot", "mcp-config.json"), `{"mcpServers":{"a":{"command":"x","env":{"K":"s3cr3t"}}}}`)
		env := w.env()
		env.Command = []string{"copilot"}
		p := w.pointing(copilot{}, env)
		for _, err := range []error{p.Lock(w.line().Session), p.Prepare(w.line())} {
			if err != nil {
				t.Fatal(err)
			}
		}
		journals, err := p.Journals()
		if err == nil {
			err = p.Apply()
		}
		if err != nil {
			t.Fatal(err)
		}
		p.lock.f.Close() // as the kernel does for a dead process
		if sweep {
			if removed := SweepPointed(w.sessions()); len(removed) != 1 {
				t.Errorf("swept %q", removed)
			}
		}
		for range 2 {
			unlock, held, err := TryLock(journals[0].Text)
			if held || err != nil {
				t.Fatalf("held %v, %v", held, err)
			}
			report, err := Restore(journals[0].Text, nil)
			if err != nil || report.State != Untouched || report.String() != "" {
				t.Errorf("%+v, %v", report, err)
			}
			unlock()
		}
		if left, err := os.ReadDir(w.sessions()); len(left) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// A journal comes from a client, and must not make the daemon remove anything else.
func TestForgedPointJournal(t *testing.T) {
	w := newWorld(t)
	precious := filepath.Join(w.home, ".cursor", copyName)
	w.write(precious, "{}")
	for _, text := range []string{
		`{"pointed":1,"folder":"` + filepath.Dir(precious) + `","session":".cursor"}`,
		`{"pointed":1,"folder":"` + filepath.Dir(precious) + `","session":"5e55"}`,
		`{"pointed":1,"folder":".cursor","session":".cursor"}`,
		`{"pointed":1,"folder":"` + filepath.Dir(precious) + `"}`,
		`{"pointed":2,"folder":"/5e55","session":"5e55"}`,
	} {
		if _, err := Restore([]byte(text), nil); err == nil {
			t.Errorf("%s was carried out", text)
		}
		if _, _, err := TryLock([]byte(text)); err == nil {
			t.Errorf("%s was locked", text)
		}
		if _, err := JournalPaths([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	w.wantFile(precious, "{}")
}

// For any files, when opencode has merged the variable with them, tg-shim starts every server
// that opencode starts, with the same words and in the same folder as without us.
func TestPointedOpencodeHasNoGap(t *testing.T) {
	files := []string{".config/opencode/config.json", ".config/opencode/opencode.json", "src/opencode.json", "src/shop/opencode.json", "src/shop/.opencode/opencode.json", ".opencode/opencode.jsonc"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		merged := map[string]any{}
		starts := false
		for _, file := range files { // weakest first
			servers := map[string]any{}
			for _, name := range []string{"a", "b", "c"} {
				entry := map[string]any{}
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0, 1:
					continue
				case 2:
					entry["enabled"] = rapid.Bool().Draw(rt, "on")
				case 3:
					entry["type"], entry["command"] = "local", []any{file, name}
					entry["environment"] = map[string]any{file: "1"}
					if rapid.Bool().Draw(rt, "folder") {
						entry["cwd"] = file
					}
					starts = true
				case 4:
					entry["type"], entry["url"] = "remote", "ftp://x"
				}
				servers[name] = entry
			}
			text, err := json.Marshal(map[string]any{"mcp": servers})
			if err != nil {
				rt.Fatal(err)
			}
			w.write(filepath.Join(w.home, file), string(text))
			onto(merged, map[string]any{"mcp": servers})
		}
		env := w.env()
		env.Command = []string{"opencode"}
		plan, err := NewPlan(opencode{}, env, w.shim)
		if err != nil {
			if starts && !strings.Contains(err.Error(), noServers) && !strings.Contains(err.Error(), allDisabled) {
				rt.Fatal(err)
			}
			return
		}
		p, why, err := plan.Point(w.sessions())
		if err != nil || why != "" {
			rt.Fatal(why, err)
		}
		text := w.told(p)
		before := decoded(t, mustJSON(t, merged)).(map[string]any)
		onto(merged, decoded(t, text).(map[string]any))
		for name, v := range dig(merged, "mcp") {
			now, was := v.(map[string]any), dig(before, "mcp")[name]
			if was == nil {
				rt.Fatalf("%s is new: %v", name, now)
			}
			old := was.(map[string]any)
			if old["type"] != "local" || old["command"] == nil {
				if diff := cmp.Diff(was, v); diff != "" {
					rt.Fatalf("%s was none of ours: %s", name, diff)
				}
				continue
			}
			words := now["command"].([]any)
			behind := slices.Index(words, any("--")) + 1
			if words[0] != w.shim || !cmp.Equal(words[behind:], old["command"]) || now["cwd"] != old["cwd"] || now["enabled"] != old["enabled"] {
				rt.Fatalf("%s is %v now, was %v", name, now, old)
			}
			for key, value := range dig(old, "environment") {
				if dig(now, "environment")[key] != value {
					rt.Fatalf("%s has lost %s: %v", name, key, now)
				}
			}
		}
	})
}

// onto merges like opencode: objects member by member, anything else as a whole.
func onto(below, above map[string]any) {
	for key, value := range above {
		high, is := value.(map[string]any)
		low, was := below[key].(map[string]any)
		if is && was {
			onto(low, high)
		} else if is {
			low = map[string]any{}
			onto(low, high)
			below[key] = low
		} else {
			below[key] = value
		}
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The same for Codex, which merges the settings of its command line.
func TestPointedCodexHasNoGap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		merged := map[string]any{}
		for i, file := range []string{".codex/config.toml", "src/.codex/config.toml", "src/shop/.codex/config.toml"} { // weakest first
			text := ""
			if i == 0 {
				text = "[projects.\"" + w.cwd + "\"]\ntrust_level = \"trusted\"\n"
			}
			for _, name := range []string{"a", "b-2"} {
				fields := map[string]any{}
				for field, value := range map[string]any{
					"command": file + " " + name, "args": []any{file, `"quoted"`}, "enabled": i == 1, "cwd": file,
					"env": map[string]any{"K" + name: file}, "tool_timeout_sec": 500.0 * float64(i+1),
				} {
					if rapid.Bool().Draw(rt, field) {
						fields[field] = value
					}
				}
				if len(fields) == 0 {
					continue
				}
				text += "[mcp_servers." + name + "]\n"
				for field, value := range fields {
					written := mustJSON(t, value)
					if env, is := value.(map[string]any); is {
						written = `{ K` + name + ` = ` + mustJSON(t, env["K"+name]) + ` }`
					}
					text += field + " = " + written + "\n"
				}
				onto(merged, map[string]any{name: fields})
			}
			w.write(filepath.Join(w.home, file), text)
		}
		env := w.env()
		env.Command = []string{"codex"}
		plan, err := NewPlan(codex{}, env, w.shim)
		if err != nil { // no server starts
			return
		}
		p, why, err := plan.Point(w.sessions())
		if err != nil || why != "" {
			rt.Fatal(why, err)
		}
		w.told(p)
		before := decoded(t, mustJSON(t, merged)).(map[string]any)
		for i := 1; i < len(p.out.args); i += 2 {
			key, value, _ := strings.Cut(p.out.args[i], "=")
			steps := strings.Split(key, ".")[1:]
			var setting any = decoded(t, value)
			for _, step := range slices.Backward(steps) {
				setting = map[string]any{step: setting}
			}
			onto(merged, setting.(map[string]any))
		}
		for name, v := range merged {
			now, old := v.(map[string]any), dig(before, name)
			if old["command"] == nil {
				if diff := cmp.Diff(old, now); diff != "" {
					rt.Fatalf("%s was no server: %s", name, diff)
				}
				continue
			}
			args, _ := old["args"].([]any)
			want := append([]any{old["command"]}, args...)
			limit, _ := now["tool_timeout_sec"].(float64)
			words, _ := now["args"].([]any)
			behind := slices.Index(words, any("--")) + 1
			if now["command"] != w.shim || behind < 3 || words[1] != name || !cmp.Equal(words[behind:], want) || now["cwd"] != old["cwd"] || now["enabled"] != old["enabled"] || limit < 660 {
				rt.Fatalf("%s is %v now, was %v", name, now, old)
			}
			if kept, is := old["env"].(map[string]any); is && dig(now, "env")["K"+name] != kept["K"+name] {
				rt.Fatalf("%s has lost its environment: %v", name, now)
			}
		}
	})
}
