package agentconf

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// remoteAgents are agents with an entry with an address in each shape that they take, what is read
// of it, and what it becomes.
var remoteAgents = []struct {
	agent, file, text string
	want              Remote
	rewritten         string // part of the file; SHIM for the path of tg-shim, ENV for the variables
}{
	{
		agent: "claude-code", file: ".claude.json",
		text: `{"mcpServers": {"x": {"type": "http", "url": "https://mcp.test/a?key=s3cr3t", "headers": {"Authorization": "Bearer ${TOKEN:-none}", "B": "2"}, "headersHelper": "get-headers --now", "timeout": 60000}, "o": {"command": "c"}}}`,
		want: Remote{Address: "https://mcp.test/a?key=s3cr3t", Transport: HTTP, Headers: []Header{{Name: "Authorization", Template: "Bearer ${TOKEN:-none}"}, {Name: "B", Template: "2"}},
			Helper: []string{"sh", "-c", "get-headers --now"}, Syntax: "shell"},
		rewritten: `"x": {"command": "SHIM", "args": ["--server-id", "x", "--remote"], "env": ENV, "type": "stdio", "timeout": 660000}`,
	},
	{
		agent: "claude-code", file: "src/shop/.mcp.json",
		text:      "{\n\t\"mcpServers\": {\n\t\t\"x\": {\n\t\t\t\"type\": \"sse\",\n\t\t\t\"url\": \"https://mcp.test/sse\",\n\t\t\t\"oauth\": {\"clientId\": \"i\"}\n\t\t}\n\t}\n}",
		want:      Remote{Address: "https://mcp.test/sse", Transport: SSE, Login: true, Syntax: "shell"},
		rewritten: `"args": ["--server-id", "x", "--from", "FILE", "--remote"]`,
	},
	{
		agent: "claude-desktop", file: ".config/Claude/claude_desktop_config.json",
		text:      `{"mcpServers":{"x":{"url":"http://127.0.0.1:9/mcp"}}}`,
		want:      Remote{Address: "http://127.0.0.1:9/mcp"},
		rewritten: `"x":{"command":"SHIM", "args":["--server-id", "x", "--remote"], "env":ENV}`,
	},
	{
		agent: "cursor", file: ".cursor/mcp.json",
		text:      `{"mcpServers":{"x":{"url":"https://mcp.test","headers":{"K":"${env:KEY}"},"auth":{"CLIENT_ID":"i"}}}}`,
		want:      Remote{Address: "https://mcp.test", Headers: []Header{{Name: "K", Template: "${env:KEY}"}}, Login: true, Syntax: "editor"},
		rewritten: `"args":["--server-id", "x", "--remote"]`,
	},
	{
		agent: "vscode", file: "src/shop/.vscode/mcp.json",
		text:      "{\n  // ours\n  \"servers\": {\n    \"x\": {\n      \"type\": \"http\", // streamable\n      \"url\": \"unix:///run/x.sock\",\n      \"headers\": { \"K\": \"${workspaceFolder}\" }, /* that */\n    },\n  },\n}",
		want:      Remote{Address: "unix:///run/x.sock", Headers: []Header{{Name: "K", Template: "${workspaceFolder}"}}, Syntax: "editor"},
		rewritten: `"type": "stdio" // streamable`,
	},
	{
		agent: "windsurf", file: ".codeium/windsurf/mcp_config.json",
		text:      `{"mcpServers":{"x":{"serverUrl":"https://mcp.test/${env:WHO}","disabled":false}}}`,
		want:      Remote{Address: "https://mcp.test/${env:WHO}", Syntax: "editor"},
		rewritten: `"env":ENV, "disabled":false}`,
	},
	{
		agent: "zed", file: ".config/zed/settings.json",
		text:      `{"theme":"x","context_servers":{"x":{"url":"https://mcp.test","headers":{"A":"b"},"timeout":5,"enabled":true}}}`,
		want:      Remote{Address: "https://mcp.test", Headers: []Header{{Name: "A", Template: "b"}}},
		rewritten: `"timeout":660,"enabled":true}`,
	},
	{
		agent: "gemini", file: ".gemini/settings.json",
		text:      `{"mcpServers":{"x":{"httpUrl":"https://mcp.test/mcp","headers":{"A":"$KEY"},"trust":true}}}`,
		want:      Remote{Address: "https://mcp.test/mcp", Transport: HTTP, Headers: []Header{{Name: "A", Template: "$KEY"}}, Syntax: "dollar"},
		rewritten: `"env":ENV, "trust":true}`,
	},
	{
		agent: "qwen", file: ".qwen/settings.json",
		text:      `{"mcpServers":{"x":{"url":"https://mcp.test/sse"}}}`,
		want:      Remote{Address: "https://mcp.test/sse", Syntax: "dollar"},
		rewritten: `"x":{"command":"SHIM"`,
	},
	{
		agent: "opencode", file: ".config/opencode/opencode.json",
		text:      `{"mcp":{"x":{"type":"remote","url":"https://mcp.test","enabled":true,"headers":{"A":"Bearer {env:KEY}"},"oauth":false}}}`,
		want:      Remote{Address: "https://mcp.test", Headers: []Header{{Name: "A", Template: "Bearer {env:KEY}"}}, Syntax: "brace"},
		rewritten: `"command":["SHIM", "--server-id", "x", "--remote"], "environment":ENV, "timeout":660000,"type":"local","enabled":true}`,
	},
	{
		agent: "copilot-cli", file: ".copilot/mcp-config.json",
		text:      `{"mcpServers":{"x":{"type":"http","url":"https://mcp.test","headers":{},"tools":["*"]}}}`,
		want:      Remote{Address: "https://mcp.test", Syntax: "dollar"},
		rewritten: `"type":"stdio","tools":["*"]}`,
	},
	{
		agent: "cline", file: ".cline/data/settings/cline_mcp_settings.json",
		text:      `{"mcpServers":{"x":{"type":"streamableHttp","url":"https://mcp.test","autoApprove":["a"],"timeout":60}}}`,
		want:      Remote{Address: "https://mcp.test", Transport: HTTP},
		rewritten: `"type":"stdio","autoApprove":["a"],"timeout":660}`,
	},
	{
		agent: "cline", file: ".cline/data/settings/cline_mcp_settings.json",
		text:      `{"mcpServers":{"x":{"transport":{"type":"sse","url":"https://mcp.test","headers":{"A":"b"}},"disabled":false}}}`,
		want:      Remote{Address: "https://mcp.test", Transport: SSE, Headers: []Header{{Name: "A", Template: "b"}}},
		rewritten: `"transport":{"command":"SHIM", "args":["--server-id", "x", "--remote"], "env":ENV, "type":"stdio"},"disabled":false}`,
	},
	{
		agent: "cline", file: ".cline/data/settings/cline_mcp_settings.json",
		text:      `{"mcpServers":{"x":{"transportType":"http","url":"https://mcp.test"}}}`,
		want:      Remote{Address: "https://mcp.test", Transport: HTTP},
		rewritten: `"transportType":"stdio"`,
	},
	{
		agent: "codex", file: ".codex/config.toml",
		text: "model = \"x\"\n\n[mcp_servers.x] # hosted\n# the key\nurl = \"https://mcp.test\" # there\nbearer_token_env_var = \"KEY\"\n\n[mcp_servers.x.http_headers]\nA = 'b'\n\n[mcp_servers.x.env_http_headers]\nC = 'D' # last\n\n# others\n[mcp_servers.y]\ncommand = \"c\"\n",
		want: Remote{Address: "https://mcp.test", Headers: []Header{{Name: "A", Template: "b"}, {Name: "C", Variable: "D", Optional: true},
			{Name: "Authorization", Template: "Bearer ", Variable: "KEY"}}},
		rewritten: "args = [\"--server-id\", \"x\", \"--remote\"]\n",
	},
	{
		agent: "codex", file: ".codex/config.toml",
		text:      "[mcp_servers]\nx = { url = \"https://mcp.test\", enabled = true }\n",
		want:      Remote{Address: "https://mcp.test"},
		rewritten: `enabled = true }`,
	},
	{
		agent: "goose", file: ".config/goose/config.yaml",
		text:      "GOOSE_MODEL: x\nextensions:\n  x:\n    enabled: true\n    type: streamable_http # new\n    name: x\n    uri: https://mcp.test/mcp\n    headers:\n      A: b\n    # that\n    timeout: 300\n\n  y: {type: stdio, cmd: c, args: []}\n",
		want:      Remote{Address: "https://mcp.test/mcp", Transport: HTTP, Headers: []Header{{Name: "A", Template: "b"}}},
		rewritten: "    type: \"stdio\" # new\n    name: x\n    # that\n    timeout: 660\n",
	},
	{
		agent: "goose", file: ".config/goose/config.yaml",
		text:      "extensions:\n  x: {type: sse, uri: \"https://mcp.test/sse\", envs: {K: v}}\n",
		want:      Remote{Address: "https://mcp.test/sse", Transport: SSE},
		rewritten: `"K": v`,
	},
	{
		agent: "crush", file: "src/shop/crush.json",
		text:      `{"mcp":{"x":{"type":"http","url":"https://mcp.test","headers":{"A":"$K"}}}}`,
		want:      Remote{Address: "https://mcp.test", Transport: HTTP, Headers: []Header{{Name: "A", Template: "$K"}}, Syntax: "dollar"},
		rewritten: `"type":"stdio"}`,
	},
	{
		agent: "droid", file: ".factory/mcp.json",
		text:      `{"mcpServers":{"x":{"type":"http","url":"https://mcp.test"}}}`,
		want:      Remote{Address: "https://mcp.test", Syntax: "shell"},
		rewritten: `"timeoutMs":660000`,
	},
	{
		agent: "kiro", file: ".kiro/settings/mcp.json",
		text:      `{"mcpServers":{"x":{"url":"https://mcp.test","headers":{"A":"${KEY}"},"disabled":false,"autoApprove":[]}}}`,
		want:      Remote{Address: "https://mcp.test", Headers: []Header{{Name: "A", Template: "${KEY}"}}, Syntax: "shell"},
		rewritten: `"env":ENV,"disabled":false,"autoApprove":[]}`,
	},
	{
		agent: "antigravity", file: ".gemini/config/mcp_config.json",
		text:      `{"mcpServers":{"x":{"serverUrl":"https://mcp.test"}}}`,
		want:      Remote{Address: "https://mcp.test"},
		rewritten: `"x":{"command":"SHIM"`,
	},
	{
		agent: "devin", file: ".config/devin/config.json",
		text:      `{"mcpServers":{"x":{"transport":"http","url":"https://mcp.test"}}}`,
		want:      Remote{Address: "https://mcp.test"},
		rewritten: `"transport":"stdio"}`,
	},
	{
		agent: "amp", file: ".config/amp/settings.json",
		text:      `{"amp.mcpServers":{"x":{"url":"https://mcp.test"}}}`,
		want:      Remote{Address: "https://mcp.test"},
		rewritten: `"x":{"command":"SHIM"`,
	},
}

// remoteWorld returns a world with one of the files, its path, and the plan.
func remoteWorld(t *testing.T, agent, file, text string) (*world, string, *Plan) {
	w := newWorld(t)
	path := filepath.Join(w.home, file)
	w.write(path, text)
	a, env := place{agent: agent}.start(w)
	p, err := NewPlan(a, env, w.shim)
	if err != nil {
		t.Fatal(err)
	}
	return w, path, p
}

func (w *world) apply(p *Plan) []Journal {
	w.t.Helper()
	for _, do := range []func() error{func() error { return p.Lock(w.line().Session) }, p.Backup, func() error { return p.Prepare(w.line()) }} {
		if err := do(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(p.Unlock)
	journals, err := p.Journals()
	if err == nil {
		err = p.Apply()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return journals
}

// Every agent's entry with an address is read, becomes one that starts tg-shim, and comes back byte
// for byte: from the plan, from the journal alone, and from the backup alone.
func TestRemotesOfEveryAgent(t *testing.T) {
	for _, test := range remoteAgents {
		t.Run(test.agent+" "+string(test.want.Transport)+" "+test.file, func(t *testing.T) {
			w, path, p := remoteWorld(t, test.agent, test.file, test.text)
			remotes := p.Remotes()
			if len(remotes) != 1 {
				t.Fatalf("%+v; %+v", remotes, p.Left())
			}
			want := test.want
			want.Server = "x"
			if remotes[0].From != "" {
				want.From = path
			}
			want.Own = remotes[0].Own
			if diff := cmp.Diff(want, remotes[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			journals := w.apply(p)
			got := w.read(path)
			env := `{"THOUGHTGATE_SOCKET": "` + w.line().Socket + `", "THOUGHTGATE_SESSION": "` + w.line().Session + `"}`
			part := strings.NewReplacer("SHIM", w.shim, "ENV", env, "FILE", path).Replace(test.rewritten)
			if tight := strings.NewReplacer(", ", ","); !strings.Contains(tight.Replace(got), tight.Replace(part)) {
				t.Errorf("%s is missing in %s", part, got)
			}
			for _, secret := range append(slices.Concat(addressMembers, headerMembers, helperMembers, loginMembers), "mcp.test", "s3cr3t", "KEY", "Bearer") {
				if strings.Contains(got, secret) {
					t.Errorf("%s is left in %s", secret, got)
				}
			}
			if d := drift(t, p); d != "" {
				t.Errorf("drift: %s", d)
			}
			backup := w.read(path + backupSuffix)
			restore := func(how string, do func() (Report, error)) {
				t.Helper()
				report, err := do()
				if text := w.read(path); text != test.text || err != nil {
					t.Errorf("%s: %+v, %v\n got %s\nwant %s", how, report, err, text, test.text)
				}
				w.write(path, got)
			}
			p.Unlock()
			remove(t, path+backupSuffix)
			restore("from the journal", func() (Report, error) { return Restore(journals[0].Text, nil) })
			w.write(path+backupSuffix, backup)
			restore("from the backup", func() (Report, error) { return Unwrap(path, w.notes()) })
			w.write(path+backupSuffix, backup)
			restore("from both", func() (Report, error) { return Restore(journals[0].Text, nil) })
			w.wantClean()
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// What can't be done as the agent would is left, with the reason.
func TestRemotesThatStay(t *testing.T) {
	const local = `"l":{"command":"c"}`
	for _, test := range []struct{ agent, file, text, want string }{
		{"claude-code", ".claude.json", `{"mcpServers":{"x":{"type":"ws","url":"wss://x.test"},` + local + `}}`, `its transport "ws" is not supported`},
		{"vscode", "src/shop/.vscode/mcp.json", `{"servers":{"x":{"url":"pipe:///x"},` + local + `}}`, "its address is neither http, https nor unix://"},
		{"vscode", "src/shop/.vscode/mcp.json", `{"servers":{"x":{"url":"https://x.test","headers":{"A":"${input:key}"}},` + local + `}}`, "only the agent can resolve ${input:key}"},
		{"windsurf", ".codeium/windsurf/mcp_config.json", `{"mcpServers":{"x":{"url":"https://x.test/${file:/k}"},` + local + `}}`, "only the agent can resolve ${file:/k}"},
		{"claude-code", ".claude.json", `{"mcpServers":{"x":{"type":"http","url":"https://x.test","headers":{"A":7}},` + local + `}}`, "its header A is no text"},
		{"claude-code", ".claude.json", `{"mcpServers":{"x":{"type":"http","url":"https://x.test","headers":{"A b":"c"}},` + local + `}}`, `"A b" is not the name of a header`},
		{"claude-code", ".claude.json", `{"mcpServers":{"x":{"type":"http","url":"https://\ud83d.test"},` + local + `}}`, "its text is not valid Unicode"},
		{"claude-code", ".claude.json", `{"mcpServers":{"x":{"type":"http"},` + local + `}}`, "its address is neither http, https nor unix://"},
		{"gemini", ".gemini/settings.json", `{"mcpServers":{"x":{"url":"https://x.test","tcp":"x:1"},` + local + `}}`, "its transport is not supported"},
		{"crush", "src/shop/crush.json", `{"mcp":{"x":{"type":"http","url":"https://x.test","headers":{"A":"$(k)"}},"l":{"type":"stdio","command":"c"}}}`, "only the agent can resolve $(k)"},
		{"codex", ".codex/config.toml", "[mcp_servers.x]\nurl = \"https://x.test\"\n[mcp_servers.l]\ncommand = \"c\"\n[mcp_servers.x.http_headers]\nA = \"b\"\n", "its entry can't be replaced: its lines are not together"},
		{"zed", ".config/zed/settings.json", `{"context_servers":{"x":{"url":"https://x.test"},` + local + `},"linux":{"context_servers":{"x":{"url":"https://y.test"}}}}`, "another one has its name"},
	} {
		_, _, p := remoteWorld(t, test.agent, test.file, test.text)
		var got []string
		for _, l := range p.Left() {
			got = append(got, l.Why)
		}
		if len(got) == 0 { // the one that the agent does not start
			for _, e := range p.Entries() {
				got = append(got, e.Ungoverned)
			}
		}
		if !strings.Contains(strings.Join(got, "\n"), ", left as it is: "+test.want) {
			t.Errorf("%s: got %q, want %q", test.text, got, test.want)
		}
	}
}

// An entry that the agent's own rules concern by its address would slip past them.
func TestRemotesAndRules(t *testing.T) {
	for _, settings := range []string{
		`{"deniedMcpServers":[{"serverUrl":"https://*.test"}]}`, `{"allowedMcpServers":[{"serverUrl":"https://x.test"},{"serverName":"l"}]}`,
	} {
		w := newWorld(t)
		w.write(w.state(), `{"mcpServers":{"x":{"type":"http","url":"https://x.test"},"l":{"command":"c"}}}`)
		w.write(filepath.Join(w.home, ".claude", "settings.json"), settings)
		env := w.env()
		p, err := NewPlan(claudeCode{}, env, w.shim)
		if err != nil || len(p.Remotes()) > 0 {
			t.Errorf("%s: %v %+v", settings, err, p)
		}
	}
	w := newWorld(t)
	w.write(filepath.Join(w.home, ".codex", "config.toml"), "[mcp_servers.x]\nurl = \"https://x.test\"\n[mcp_servers.l]\ncommand = \"c\"\n")
	w.write(filepath.Join(w.home, "no-administrator", "requirements.toml"), "[mcp_servers.x.identity]\nurl = \"https://x.test\"\n[mcp_servers.l.identity]\ncommand = \"c\"\n")
	w.write(filepath.Join(w.home, "no-administrator", "config.toml"), "[mcp_servers.y]\nurl = \"https://y.test\"\n")
	agent, env := place{agent: "codex"}.start(w)
	if p, err := NewPlan(agent, env, w.shim); err != nil || len(p.Remotes()) > 0 {
		t.Errorf("%v %+v", err, p.Remotes())
	}
	// Two files that codex merges.
	w.write(filepath.Join(w.cwd, ".codex", "config.toml"), "[mcp_servers.x]\nurl = \"https://evil.test\"\n")
	remove(t, filepath.Join(w.home, "no-administrator", "requirements.toml"))
	if p, err := NewPlan(agent, env, w.shim); err != nil || len(p.Remotes()) > 0 {
		t.Errorf("%v %+v", err, p.Remotes())
	}
}

// What others change in the entry meanwhile stays, and everything else is as it was.
func TestRemotesAreMerged(t *testing.T) {
	const before = `{"mcpServers": {"x": {"type": "http", /* kind */ "url": "https://x.test",  "headers": {"A": "b"}, "timeout": 5, "alwaysAllow": ["a"], "gone": 1}}}`
	const after = `{"mcpServers": {"x": {"more": {"k": "v"}, "env": {"E": "f"}, "type": "http", /* kind */ "url": "https://x.test",  "headers": {"A": "b"}, "timeout": 5, "alwaysAllow": ["a","b"]}}}`
	w, path, p := remoteWorld(t, "copilot-cli", ".copilot/mcp-config.json", before)
	w.apply(p)
	now := w.read(path)
	for _, change := range [][2]string{
		{`"alwaysAllow": ["a"]`, `"alwaysAllow": ["a","b"], "more": {"k": "v"}`}, {`, "gone": 1`, ""}, {`"THOUGHTGATE_SOCKET"`, `"E": "f", "THOUGHTGATE_SOCKET"`},
	} {
		if !strings.Contains(now, change[0]) {
			t.Fatalf("%s is missing in %s", change[0], now)
		}
		now = strings.Replace(now, change[0], change[1], 1)
	}
	w.write(path, now)
	if reports := w.restore(p); reports[0].State != Merged || len(reports[0].Notes) > 0 {
		t.Errorf("%+v", reports)
	}
	got := w.read(path)
	if got = strings.Replace(got, `"env": {"E": "f"}, "more": {"k": "v"}, `, `"more": {"k": "v"}, "env": {"E": "f"}, `, 1); got != after {
		t.Errorf("\n got %s\nwant %s", got, after)
	}
}

// An agent that writes the file anew, a damaged entry, one that the person has written again, a copy.
func TestRemotesThatOthersWrite(t *testing.T) {
	const before = `{"mcpServers": {"x": {"type": "http", "url": "https://x.test"}}, "n": 1}`
	const line = `"--server-id", "x", "--remote"`
	for _, test := range []struct {
		name   string
		change func(now string) string
		want   string
		notes  string
	}{
		{"an unrelated change", func(now string) string { return strings.Replace(now, `"n": 1`, `"n": 2`, 1) }, strings.Replace(before, `"n": 1`, `"n": 2`, 1), ""},
		{"other blanks", func(now string) string { return strings.ReplaceAll(now, ": ", ":") }, `{"mcpServers":{"x":{"type": "http", "url": "https://x.test"}}, "n":1}`, ""},
		{"damaged", func(now string) string { return strings.Replace(now, line, `"y"`, 1) }, before, "x was altered and was restored"},
		{"written again", func(string) string { return strings.Replace(before, "x.test", "y.test", 1) }, strings.Replace(before, "x.test", "y.test", 1), "x was replaced meanwhile"},
		{"undone", func(string) string { return before + "\n" }, before + "\n", ""},
		{"removed", func(now string) string { return `{"mcpServers": {}, "n": 1}` }, `{"mcpServers": {}, "n": 1}`, "x was removed meanwhile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, path, p := remoteWorld(t, "claude-desktop", ".config/Claude/claude_desktop_config.json", before)
			w.apply(p)
			w.write(path, test.change(w.read(path)))
			reports := w.restore(p)
			if got := w.read(path); got != test.want || !strings.Contains(strings.Join(reports[0].Notes, "; "), test.notes) || test.notes == "" && len(reports[0].Notes) > 0 {
				t.Errorf("%+v\n got %s\nwant %s", reports, got, test.want)
			}
		})
	}
	t.Run("copied", func(t *testing.T) {
		w, path, p := remoteWorld(t, "claude-desktop", ".config/Claude/claude_desktop_config.json", before)
		w.apply(p)
		now := w.read(path)
		entry := now[strings.Index(now, `"x": `)+len(`"x": `) : strings.Index(now, `}, "n"`)]
		w.write(path, strings.Replace(now, `"n": 1`, `"n": `+entry, 1))
		w.restore(p)
		if got, want := w.read(path), strings.Replace(before, `"n": 1`, `"n": {"type": "http", "url": "https://x.test"}`, 1); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
	t.Run("without journal and backup", func(t *testing.T) {
		w, path, p := remoteWorld(t, "claude-desktop", ".config/Claude/claude_desktop_config.json", before)
		w.apply(p)
		p.Unlock()
		remove(t, path+backupSuffix)
		now := w.read(path)
		report, err := Unwrap(path, w.notes())
		if got := w.read(path); got != now || err != nil || !strings.Contains(strings.Join(report.Notes, ";"), "x still starts tg-shim at /mcpServers/x, because its address is not known here") {
			t.Errorf("%+v %v\n%s", report, err, got)
		}
	})
}

// A server that is added during the session is governed by Adopt, and a protection is renewed.
func TestRemotesAdoptedAndProtected(t *testing.T) {
	const before = `{"mcpServers":{"l":{"command":"c"}}}`
	const after = `{"mcpServers":{"l":{"command":"c"},"x":{"url":"https://x.test"}}}`
	w, path, p := remoteWorld(t, "claude-desktop", ".config/Claude/claude_desktop_config.json", before)
	w.apply(p)
	w.write(path, strings.TrimSuffix(w.read(path), "}}")+`,"x":{"url":"https://x.test"}}}`)
	if got := drift(t, p); got != "x added" {
		t.Errorf("drift %q", got)
	}
	var sent []Remote
	err := p.Adopt(func([]Journal) error { sent = p.Remotes(); return nil })
	if got := drift(t, p); err != nil || got != "" || len(sent) != 1 || sent[0].Address != "https://x.test" {
		t.Errorf("%v, drift %q, sent %+v", err, got, sent)
	}
	w.restore(p)
	w.wantFile(path, after)

	agent, env := place{agent: "claude-desktop"}.start(w)
	l := NewProtection(NewID(), agent, env, Line{Shim: w.shim, Socket: w.line().Socket})
	renew := func() *Plan {
		t.Helper()
		next, err := l.Plan(l.Line, env.LookupEnv, []*Protection{l})
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	protect := func() {
		t.Helper()
		next, err := renew().Protect(l, func(kept *Protection) error {
			text, err := kept.Text()
			if err != nil {
				return err
			}
			parsed, err := ParseProtection(text)
			if err == nil && (len(parsed.Remotes) != 1 || parsed.Remotes[0].Address != "https://x.test") {
				err = errors.New("the description is missing")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		l = next
	}
	protect()
	if d := renew().Decay(); !d.None() || !slices.Equal(l.Servers(), []string{"l", "x"}) {
		t.Errorf("%+v, %q", d, l.Servers())
	}
	// The agent has dropped the line of one.
	w.write(path, after)
	if d := renew().Decay(); d.None() {
		t.Error("no decay")
	}
	protect()
	if d := renew().Decay(); !d.None() || strings.Contains(w.read(path), "x.test") {
		t.Errorf("%+v\n%s", d, w.read(path))
	}
	if _, err := l.Restore(); err != nil {
		t.Error(err)
	}
	w.wantFile(path, after)
}

// References are expanded as by each agent, and nothing but what the entry names is looked up.
func TestExpandRemote(t *testing.T) {
	vars := map[string]string{"KEY": "k3y", "EMPTY": "", "HOST": "h.test", "LINES": "a\r\nX: y", "UNUSED": "unus3d"}
	for _, test := range []struct {
		syntax, address, header string
		want                    string // address and header, or the error
	}{
		{"shell", "https://x.test/${KEY}", "Bearer ${KEY}", "https://x.test/k3y Bearer k3y"},
		{"shell", "https://x.test", "${NO:-d} $KEY ${EMPTY:-e} ${NO}", "https://x.test d $KEY  ${NO}"},
		{"shell", "https://${NO:-y.test}/", "", "https://y.test/ "},
		{"shell", "https://${NO}/", "", "its address refers to NO, which is not set"},
		{"shell", "https://x.test/${env:KEY}", "", "https://x.test/${env:KEY} "},
		{"shell", "${HOST}", "", "neither http, https nor unix://"},
		{"shell", "https://x.test", "${LINES}", "its header A can't be sent"},
		{"dollar", "https://$HOST/$KEY", "${KEY}", "https://h.test/k3y k3y"},
		{"editor", "https://${env:HOST}/", "${env:NO}${env:KEY}${workspaceFolder}", "https://h.test/ k3y/w"},
		{"editor", "https://${env:HOST}/", "${input:x}", "only the agent can resolve ${input:x}"},
		{"brace", "https://{env:HOST}/", "{env:NO}{env:KEY}", "https://h.test/ k3y"},
		{"brace", "https://x.test", "{file:./k}", "only the agent can resolve {file:./k}"},
		{"", "https://x.test", "$KEY ${KEY} {env:KEY}", "https://x.test $KEY ${KEY} {env:KEY}"},
	} {
		r := &Remote{Server: "x", Address: test.address, Headers: []Header{{Name: "A", Template: test.header}}, Syntax: test.syntax, Own: map[string]string{"${workspaceFolder}": "/w"}}
		named := r.Variables()
		out, err := r.Expand(func(name string) (string, bool) {
			if !slices.Contains(named, name) {
				t.Errorf("%s was looked up", name)
			}
			value, set := vars[name]
			return value, set
		})
		got := ""
		if err == nil {
			got = out.Address + " " + out.Headers[0].Template
		} else if got = err.Error(); strings.Contains(got, test.want) {
			got = test.want
		}
		if got != test.want {
			t.Errorf("%s %s %s: got %q, want %q", test.syntax, test.address, test.header, got, test.want)
		}
		if err != nil {
			for value := range maps.Values(vars) {
				if value != "" && strings.Contains(err.Error(), value) {
					t.Errorf("a value in %v", err)
				}
			}
		}
	}
	r := &Remote{Address: "https://x.test", Headers: []Header{{Name: "O", Variable: "NO", Optional: true}, {Name: "A", Template: "Bearer ", Variable: "KEY"}}}
	lookup := func(name string) (string, bool) { value, set := vars[name]; return value, set }
	if out, err := r.Expand(lookup); err != nil || len(out.Headers) != 1 || out.Headers[0] != (Header{Name: "A", Template: "Bearer k3y"}) {
		t.Errorf("%+v, %v", out, err)
	}
	r.Headers[1].Variable = "EMPTY"
	if _, err := r.Expand(lookup); err == nil {
		t.Error("a header without its variable")
	}
}

// What a person is shown of an address is its host.
func TestRemoteHost(t *testing.T) {
	for _, test := range []struct{ syntax, address, want string }{
		{"shell", "https://user:pw@x.test:8443/a?k=v#f", "x.test:8443"},
		{"shell", "https://${HOST:-a/b@c}/x", "${HOST:-a/b@c}"},
		{"", "https://x.test?@y.test", "x.test"},
		{"", `https://x.test\@y.test`, "x.test"},
		{"shell", "https://${U:-a@b}@${HOST}:1/x@y", "${HOST}:1"},
		{"", "unix:///run/x.sock", "unix:///run/x.sock"},
	} {
		if got := (&Remote{Syntax: test.syntax, Address: test.address}).Host(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.address, got, test.want)
		}
	}
	a, b := Remote{Server: "a", Address: "https://x.test"}, Remote{Server: "b", Address: "https://x.test", From: "/p"}
	if a.Terms() != b.Terms() {
		t.Error("the name is part of the terms")
	}
	if b.Headers = []Header{{Name: "A", Template: "b"}}; a.Terms() == b.Terms() {
		t.Error("the headers are not")
	}
}

// For any file, entries with an address come back byte for byte, also if others have added something
// to one, which then stays.
func TestAnyRemoteComesBack(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		env := w.env()
		var text string
		var agent Agent = custom{}
		switch rapid.SampledFrom([]string{"json", "toml", "yaml"}).Draw(rt, "syntax") {
		case "json":
			agent = rapid.SampledFrom([]Agent{claudeCode{}, custom{}}).Draw(rt, "agent")
			l := drawLayout(rt, agent == custom{})
			l.remotes = true
			env.Config, text = filepath.Join(w.home, "agent.json"), l.file()
		case "toml":
			agent, env.Config, text = codex{}, filepath.Join(w.home, "config.toml"), drawTOMLOf(rt, true)
		default:
			agent, env.Config, text = goose{}, filepath.Join(w.home, "config.yaml"), drawYAMLOf(rt, true)
		}
		w.write(env.Config, text)
		p, err := NewPlan(agent, env, w.shim)
		if empty, ok := errors.AsType[*EmptyError](err); ok && !strings.Contains(empty.Error(), "left as it is") {
			return // all are off
		}
		if err != nil {
			if strings.Contains(err.Error(), "left as it is") {
				return // none can be
			}
			rt.Fatalf("%v\n%s", err, text)
		}
		defer p.Unlock()
		for _, do := range []func() error{func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply} {
			if err := do(); err != nil {
				rt.Fatalf("%v\n%s", err, text)
			}
		}
		wrapped := w.read(env.Config)
		for _, r := range p.Remotes() {
			if strings.Contains(wrapped, r.Address) && !slices.ContainsFunc(p.Entries(), func(e *Entry) bool { return e.Ungoverned != "" }) {
				rt.Fatalf("%s is left in\n%s", r.Address, wrapped)
			}
		}
		end := ""
		if rapid.Bool().Draw(rt, "touched") { // disables the shortcut by the digest
			end = "\n"
		}
		w.write(env.Config, wrapped+end)
		if d, err := p.Drift(); len(d) > 0 || err != nil {
			rt.Fatalf("drift %+v, %v\n%s", d, err, wrapped)
		}
		reports, err := p.Restore()
		if got := w.read(env.Config); got != text+end || err != nil || len(reports[0].Notes) > 0 {
			rt.Fatalf("%+v, %v, not the same:\nbefore  %q\nwrapped %q\nafter   %q", reports, err, text+end, wrapped, got)
		}
	})
	w.wantClean()
}

// A wrap, a restore or a protect of entries with an address is killed after each step.
func TestKillRemotes(t *testing.T) {
	t.Setenv("AGENTCONF_REMOTES", "1")
	if r := killWorld(t).plan().Remotes(); len(r) != 1 {
		t.Fatalf("%+v", r)
	}
	t.Run("wrap", TestKillWrap)
	t.Run("restore", TestKillRestore)
	t.Run("unprotect", TestKillUnprotect)
}
