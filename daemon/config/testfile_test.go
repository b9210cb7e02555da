package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// All that a test file may contain.
const everythingOfATest = `
$schema: https://example.org/test.schema.json
schema: 1
config: ../thoughtgate.yaml
project: repo
tests:
  - name: deleting asks
    server: github
    tool: delete_repo
    arguments: {name: "x", n: 1, f: -0.5e3, ok: true, none: null, list: [a, [], {}], "a b": {c: "${HOME}\n"}}
    agent: cursor
    session: s1
    command: [node, server.js]
    assume: acts
    expect: ask
    gate: rule
    workflow: ops
    policy: [p1]
    facts: [secret]
    reason: a part
  - server: web
    tool: fetch
    session: s1
    result: {content: [{type: text, text: hello}]}
    definition: {name: fetch}
  - {server: fs, uri: "file:///etc/passwd", expect: deny}
  - {server: fs, prompt: review, expect: hide}
  - {server: x, method: sampling/createMessage, params: {messages: []}, expect: ask}
`

func TestTestFile(t *testing.T) {
	f, ds := ParseTests("/c/tests/a.test.yaml", []byte(everythingOfATest))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	if f.Config != "/c/thoughtgate.yaml" || f.Project != "/c/tests/repo" || len(f.Tests) != 5 {
		t.Errorf("got %+v", f)
	}
	one := f.Tests[0]
	if got, want := string(one.Arguments), `{"name":"x","n":1,"f":-0.5e3,"ok":true,"none":null,"list":["a",[],{}],"a b":{"c":"${HOME}\n"}}`; got != want {
		t.Errorf("arguments: got %s, want %s", got, want)
	}
	if one.Method != "tools/call" || one.Subject() != "delete_repo" || one.Place.Line != 7 || one.Expect != ExpectAsk {
		t.Errorf("got %+v", one)
	}
	for i, want := range []string{"deleting asks", "fetch on web", "resources/read file:///etc/passwd on fs", "prompts/get review on fs", "sampling/createMessage on x"} {
		if f.Tests[i].Name != want {
			t.Errorf("test %d is named %q, want %q", i, f.Tests[i].Name, want)
		}
	}
	for key := range keysOfAll(reflect.TypeFor[TestFile]()) {
		if !regexp.MustCompile(`(^|[\s{-])` + regexp.QuoteMeta(key) + `:`).MatchString(everythingOfATest) {
			t.Errorf("the sample does not write %q", key)
		}
	}
}

// keysOfAll returns the keys of a type and of the types in it.
func keysOfAll(typ reflect.Type) map[string]bool {
	all := map[string]bool{}
	for typ.Kind() == reflect.Slice && typ != reflect.TypeFor[JSON]() {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || isScalar(typ) {
		return all
	}
	for _, f := range fields(typ) {
		all[f.key] = true
		for key := range keysOfAll(typ.Field(f.index).Type) {
			all[key] = true
		}
	}
	return all
}

func TestTestFileRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{server: a, tool: b}", "2:10: error: the test has no expect; add expect: ask"},
		{"{server: a, expect: ask}", "the test calls nothing"},
		{"{tool: b, expect: ask}", `tests[0] lacks the key "server"`},
		{"{server: a, tool: b, uri: c, expect: ask}", "the test has tool and uri"},
		{"{server: a, tool: b, params: {}, expect: ask}", "params replace tool; write arguments"},
		{"{server: a, method: m, arguments: {}, params: {}, expect: ask}", "the test has arguments and params"},
		{"{server: a, tool: b, expects: ask}", `unknown key "expects" in tests[0]; did you mean "expect"?`},
		{"{server: a, tool: b, expect: asks}", `expected forward, ask, deny or hide, found "asks"; did you mean "ask"?`},
		{"{server: a, tool: b, expect: deny, workflow: ops}", "a workflow needs expect: ask; the test expects deny"},
		{"{server: a, tool: b, result: {}, facts: secret}", "the test has expectations but no verdict"},
		{"{server: a, tool: b, expect: deny, gate: rul}", `unknown gate "rul"; did you mean "rule"?`},
		{"{server: a, tool: b, expect: deny, facts: secrets}", `did you mean "secret"?`},
		{"{server: a, tool: b, expect: deny, arguments: [1]}", "tests[0].arguments: expected a mapping, found a list"},
		{"{server: a, tool: b, expect: deny, arguments: x}", `tests[0].arguments: expected a mapping, found "x"`},
		{"{server: a, tool: b, expect: deny, arguments: }", "tests[0].arguments has no value"},
		{"{server: a, tool: b, expect: deny, arguments: {n: 0x10}}", "tests[0].arguments.n: 0x10 is not JSON; quote it"},
		{"{server: a, tool: b, expect: deny, arguments: {n: .inf}}", "tests[0].arguments.n: .inf is not JSON"},
		{"{server: a, tool: b, expect: deny, arguments: {n: 007}}", "tests[0].arguments.n: 007 is not JSON"},
		{"{server: a, tool: b, expect: deny, arguments: {n: [2026-11-20]}}", "tests[0].arguments.n[0]: 2026-11-20 is not JSON"},
		{"{server: a, tool: b, expect: deny, arguments: {n: True}}", "is not JSON"},
		{"{server: a, tool: b, expect: deny, arguments: {a: 1, a: 2}}", `duplicate key "a" in tests[0].arguments`},
		{"{server: a, tool: b, expect: deny, arguments: {1: 2}}", "is not a word"},
		{"{server: a, tool: b, expect: deny, arguments: {a: &x 1, b: *x}}", "an anchor (&x) is not allowed"},
		{"{server: a, tool: b, expect: deny, arguments: {a: !!str 1}}", "a tag (!!str) is not allowed"},
		{"{server: '${HOME}', tool: b, expect: deny}", "environment variables (${HOME}) are not allowed in this file"},
	} {
		f, ds := ParseTests("/c/a.test.yaml", []byte("schema: 1\ntests: [ "+tt.text+" ]\n"))
		if f != nil || len(ds) == 0 || !strings.Contains(ds[0].String(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.text, ds, tt.want)
		}
	}
	for _, text := range []string{"", "schema: 1\n", "schema: 1\ntests: []\n", "schema: 2\ntests: [{server: a, tool: b, expect: ask}]\n"} {
		if f, ds := ParseTests("/c/a.test.yaml", []byte(text)); f != nil || len(ds) == 0 {
			t.Errorf("%q is good", text)
		}
	}
}

func TestTestSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(TestSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		everythingOfATest: true,
		"schema: 1\n":     false,
		"schema: 1\ntests: [{server: a, tool: b, expect: maybe}]\n":              false,
		"schema: 1\ntests: [{server: a, tool: b, expect: ask, arguments: []}]\n": false,
	} {
		var doc any
		if err := yaml.Load([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if got := fits(schema, doc); got != want {
			t.Errorf("the schema takes it: %v\n%s", got, text)
		}
	}
}

// The result is JSON that is equivalent to the YAML.
func FuzzParseTests(f *testing.F) {
	f.Add([]byte(everythingOfATest))
	f.Add([]byte("schema: 1\ntests: [{server: a, tool: b, expect: deny, arguments: {a: \"\\u2028\", b: 1e999}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, ds := ParseTests("/c/a.test.yaml", text)
		if (file == nil) != HasErrors(ds) {
			t.Fatalf("a file %v with %v", file, ds)
		}
		if file == nil {
			return
		}
		for _, one := range file.Tests {
			for _, raw := range []JSON{one.Arguments, one.Params, one.Result, one.Definition} {
				if raw != nil && (!json.Valid(raw) || raw[0] != '{') {
					t.Fatalf("not an object: %s", raw)
				}
			}
		}
	})
}
