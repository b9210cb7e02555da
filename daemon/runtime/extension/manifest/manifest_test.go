package manifest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
)

const least = "schema: 1\nname: scrubber\nversion: 1.0.0\ndescription: Hides secrets\nprotocol: 1\ncommand: ./scrubber\n"

const whole = `schema: 1
name: scrubber
version: "1.0"
description: Hides secrets in results
protocol: 1
wire: protobuf
command: python3
args: ["-I", scrubber.py]
env: {MODE: strict}
pass: [GITHUB_TOKEN]
permissions: [hooks.before, hooks.after, memory.read]
hooks:
  before: {servers: [files, "web*"], tools: "write_*", methods: [tools/call, "resources/*"], on_error: continue}
  after: {}
restart: {attempts: 5, first: 1s, most: 1m}
config: {limit: "3"}
order: 7
`

func TestParse(t *testing.T) {
	m, ds := manifest.Parse("extension.yaml", []byte(whole))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	if m.Wire != manifest.Protobuf || m.Order != 7 || m.Restart != (manifest.Restart{Attempts: 5, First: time.Second, Most: time.Minute}) ||
		m.Config["limit"] != "3" || m.Env["MODE"] != "strict" || m.Pass[0] != "GITHUB_TOKEN" || !m.Has(manifest.MemoryRead) || m.Has(manifest.Tools) {
		t.Errorf("%+v", m)
	}
	for _, test := range []struct {
		server, method, subject string
		before, after           bool
	}{
		{"files", "tools/call", "write_file", true, true},
		{"website", "resources/read", "write_x", true, false},
		{"files", "tools/call", "read_file", false, true},
		{"mail", "tools/call", "write_file", false, true},
		{"mail", "prompts/get", "write_file", false, false},
	} {
		before, after := m.Hooks.Before.Matches(test.server, test.method, test.subject), m.Hooks.After.Matches(test.server, test.method, test.subject)
		if before != test.before || after != test.after {
			t.Errorf("%+v: before %v, after %v", test, before, after)
		}
	}
	if m.Hooks.Before.OnError != manifest.Continue || m.Hooks.After.OnError != manifest.Block {
		t.Errorf("on_error: %+v", m.Hooks)
	}

	m, ds = manifest.Parse("extension.yaml", []byte(least))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	if m.Wire != manifest.JSON || m.Order != 100 || m.Restart != (manifest.Restart{Attempts: 3, First: 250 * time.Millisecond, Most: 30 * time.Second}) ||
		m.Hooks.Before.Matches("a", "tools/call", "b") || m.Hooks.After.Matches("a", "tools/call", "b") {
		t.Errorf("defaults: %+v", m)
	}
}

// All errors are reported together, each with its place and, if there is one, a similar valid
// word.
func TestAllErrorsTogether(t *testing.T) {
	_, ds := manifest.Parse("extension.yaml", []byte(`schema: 1
name: Scrubber
version: 1.0
descripton: x
protocol: 2
command: ./scrubber
permissions: [hook.before, tools, tools]
hooks:
  befor: {}
`))
	var got []string
	for _, d := range ds {
		got = append(got, d.String())
	}
	want := []string{
		`extension.yaml:1:1: error: the file lacks the key "description"; expected text`,
		`extension.yaml:2:7: error: invalid extension name "Scrubber"; use at most 64 lower-case letters, digits, - and _, with a letter or digit first`,
		`extension.yaml:3:10: error: version: expected text, found the number 1.0; quote it: "1.0"`,
		`extension.yaml:3:10: error: version is empty`,
		`extension.yaml:4:1: error: unknown key "descripton" in the file; did you mean "description"?`,
		`extension.yaml:5:11: error: protocol must be at most 1`,
		`extension.yaml:7:15: error: permissions[0]: expected hooks.before, hooks.after, tools, providers, commands, memory.read, memory.write, config.write or config.subscribe, found "hook.before"; did you mean "hooks.before"?`,
		`extension.yaml:7:35: error: duplicate permission tools`,
		`extension.yaml:9:3: error: unknown key "befor" in hooks; did you mean "before"?`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatCannotBeMeant(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"name: scrubber", "name: -x", "invalid extension name"},
		{"name: scrubber", "name: ../x", "invalid extension name"},
		{"name: scrubber", "name: " + strings.Repeat("a", 65), "invalid extension name"},
		{"description: Hides secrets", `description: "a\nb"`, "more than one line"},
		{"description: Hides secrets", "description: " + strings.Repeat("a", 201), "at most 200"},
		{"description: Hides secrets", `description: " "`, "description is empty"},
		{"command: ./scrubber", "command: /bin/sh", "leads out of the folder"},
		{"command: ./scrubber", "command: ../x/y", "leads out of the folder"},
		{"command: ./scrubber", "command: python3 x.py", "not run by a shell"},
		{"command: ./scrubber", `command: ""`, "command is empty"},
		{"command: ./scrubber", "command: ./scrubber\nenv: {\"A=B\": x}", `env: "A=B" is not a variable name`},
		{"command: ./scrubber", "command: ./scrubber\nenv: {THOUGHTGATE_X: x}", "reserved"},
		{"command: ./scrubber", "command: ./scrubber\npass: [\"1A\"]", "is not a variable name"},
		{"command: ./scrubber", "command: ./scrubber\npass: [A, A]", "duplicate"},
		{"command: ./scrubber", "command: ./scrubber\nenv: {A: x}\npass: A", "already set by env"},
		{"command: ./scrubber", "command: ./scrubber\nenv: {A: \"${HOME}\"}", "not allowed in this file"},
		{"command: ./scrubber", "command: ./scrubber\nhooks: {before: {}}", "needs the permission hooks.before"},
		{"command: ./scrubber", "command: ./scrubber\npermissions: hooks.after\nhooks: {after: {tools: []}}", "hooks.after.tools is empty"},
		{"command: ./scrubber", "command: ./scrubber\npermissions: hooks.after\nhooks: {after: {on_error: ignore}}", "expected block or continue"},
		{"command: ./scrubber", "command: ./scrubber\nwire: grpc", "expected json or protobuf"},
		{"command: ./scrubber", "command: ./scrubber\nrestart: {attempts: 0}", "attempts must be at least 1"},
		{"command: ./scrubber", "command: ./scrubber\nrestart: {first: 1m, most: 1s}", "first is longer than most"},
		{"command: ./scrubber", "command: ./scrubber\nconfig: {a.b: x}", "must not contain dots"},
		{"command: ./scrubber", "command: ./scrubber\nconfig: {a: 3}", "quote it"},
		{"command: ./scrubber", "command: &a ./scrubber\nargs: [*a]", "anchor"},
		{"command: ./scrubber", "command: ./scrubber\nname: other", "duplicate key"},
		{"schema: 1", "schema: 2", "written for a newer ThoughtGate"},
	} {
		text := strings.Replace(least, test.old, test.new, 1)
		m, ds := manifest.Parse("extension.yaml", []byte(text))
		if m != nil || !strings.Contains(fmt.Sprint(ds), test.want) || ds[0].Line == 0 || !config.HasErrors(ds) {
			t.Errorf("%s: %v; want %q", test.new, ds, test.want)
		}
	}
	for _, text := range []string{"", "a: [", "--- 1\n--- 2\n", "- a\n", least + "\x00"} {
		if m, ds := manifest.Parse("extension.yaml", []byte(text)); m != nil || len(ds) == 0 {
			t.Errorf("%q: %+v, %v", text, m, ds)
		}
	}
}

func TestKeys(t *testing.T) {
	for key, ok := range map[string]bool{"a": true, "a-b_C1": true, "": false, "  ": false, "a.b": false, "a/b": false, "a b": false, "a\tb": false, "a\u202eb": false, strings.Repeat("a", 129): false} {
		if err := manifest.CheckKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte(whole))
	f.Add([]byte("schema: 1\nhooks: {before: {tools: [\"[a\"]}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, ds := manifest.Parse("extension.yaml", text)
		if (m == nil) != config.HasErrors(ds) {
			t.Errorf("%v beside %+v", ds, m)
		}
		if m != nil && !manifest.IsName(m.Name) {
			t.Errorf("named %q", m.Name)
		}
	})
}
