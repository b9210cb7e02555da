package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
)

func TestTimeouts(t *testing.T) {
	for method, want := range map[string]time.Duration{
		"initialize": 10 * time.Second, "hook.before": 5 * time.Second, "hook.after": 5 * time.Second, "tool.call": 2 * time.Minute,
		"provider.complete": time.Minute, "provider.stream": time.Minute, "command.invoke": 2 * time.Minute,
		"shutdown": 500 * time.Millisecond, "info.get": 30 * time.Second,
	} {
		if got := protocol.Timeout(method); got != want {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}

func granting(p ...manifest.Permission) *manifest.Manifest { return &manifest.Manifest{Permissions: p} }

// greeting returns an answer to initialize with capabilities.
func greeting(capabilities string) string {
	return fmt.Sprintf(`{"protocol_version":1,"capabilities":{%s}}`, capabilities)
}

const model = `{"id":"m"}`

func TestGreetings(t *testing.T) {
	tool := func(name, description, schema string) string {
		return greeting(fmt.Sprintf(`"tools":[{"name":%s,"description":%s,"input_schema":%s}]`, name, description, schema))
	}
	provider := func(id, display, description, models, more string) string {
		return greeting(fmt.Sprintf(`"providers":[{"id":%s,"display_name":%s,"description":%s,"models":[%s]%s}]`, id, display, description, models, more))
	}
	capability := func(kind, name, permissions string) string {
		return greeting(fmt.Sprintf(`"capabilities":[{"kind":%s,"name":%s,"permissions":[%s]}]`, kind, name, permissions))
	}
	long := `"` + strings.Repeat("a", 65) + `"`
	all := granting(manifest.Tools, manifest.Providers, manifest.MemoryRead, manifest.MemoryWrite)
	for _, test := range []struct {
		name, raw string
		granted   *manifest.Manifest
		want      string // part of the error; empty for none
	}{
		{"nothing offered", `{"protocol_version":1}`, granting(), ""},
		{"members that are not known", `{"protocol_version":1,"more":[{}]}`, granting(), ""},
		{"another version", `{"protocol_version":2}`, granting(), "protocol_version 2"},
		{"no version", `{"capabilities":{}}`, granting(), "protocol_version is missing"},
		{"a version that is text", `{"protocol_version":"1"}`, granting(), "protocol_version is not a whole number"},
		{"a version and a half", `{"protocol_version":1.5}`, granting(), "protocol_version is not a whole number"},
		{"no object", `[]`, granting(), "not a JSON object"},
		{"the version twice", `{"protocol_version":1,"protocol_version":1}`, granting(), "duplicate"},
		{"the version in two spellings", `{"protocol_version":1,"Protocol_Version":2}`, granting(), "two spellings"},
		{"capabilities that are none", `{"protocol_version":1,"capabilities":[]}`, granting(), "capabilities"},

		{"a tool", tool(`"a-b.c"`, `"Does it"`, `{}`), all, ""},
		{"a tool without the permission", tool(`"a"`, `"b"`, `{}`), granting(), "permission tools"},
		{"an empty name", tool(`""`, `"b"`, `{}`), all, "empty tool name"},
		{"a reserved character", tool(`"a:b"`, `"b"`, `{}`), all, "reserved"},
		{"a name that is too long", tool(long, `"b"`, `{}`), all, "at most 64 bytes and has 65"},
		{"a blank in the name", tool(`"a b"`, `"b"`, `{}`), all, "must not contain whitespace"},
		{"a control character", tool(`"a\u0007"`, `"b"`, `{}`), all, "control character U+0007"},
		{"a character that is not seen", tool(`"a\u200b"`, `"b"`, `{}`), all, "U+200B"},
		{"a duplicate", greeting(`"tools":[{"name":"a","description":"b","input_schema":{}},{"name":"a","description":"c","input_schema":{}}]`), all, `duplicate tool name "a"`},
		{"an empty description", tool(`"a"`, `"  "`, `{}`), all, "empty description"},
		{"a schema that is no object", tool(`"a"`, `"b"`, `[]`), all, "not a JSON object"},
		{"no schema", greeting(`"tools":[{"name":"a","description":"b"}]`), all, "not a JSON object"},
		{"no description", greeting(`"tools":[{"name":"a","input_schema":{}}]`), all, `missing or invalid "capabilities.tools[0].description"`},
		{"a tool that is none", greeting(`"tools":["a"]`), all, "tools[0]: not a JSON object"},

		{"a provider", provider(`"a_b-1"`, `"A"`, `"b"`, `{"id":"m","display_name":"M","context_window":5,"capabilities":{"tools":true}}`, `,"config_schema":{}`), all, ""},
		{"a provider without the permission", provider(`"a"`, `"A"`, `"b"`, model, ""), granting(manifest.Tools), "permission providers"},
		{"an empty id", provider(`""`, `"A"`, `"b"`, model, ""), all, "empty provider id"},
		{"an upper case id", provider(`"A"`, `"A"`, `"b"`, model, ""), all, "invalid provider id"},
		{"a point in an id", provider(`"a.b"`, `"A"`, `"b"`, model, ""), all, "invalid provider id"},
		{"a colon in an id", provider(`"a:b"`, `"A"`, `"b"`, model, ""), all, "reserved"},
		{"an id twice", greeting(`"providers":[{"id":"a","display_name":"A","description":"b","models":[{"id":"m"}]},{"id":"a","display_name":"A","description":"b","models":[{"id":"m"}]}]`), all, `duplicate provider id "a"`},
		{"an empty display_name", provider(`"a"`, `" "`, `"b"`, model, ""), all, "empty display_name"},
		{"an empty description of a provider", provider(`"a"`, `"A"`, `""`, model, ""), all, "empty description"},
		{"no model", provider(`"a"`, `"A"`, `"b"`, "", ""), all, "at least one model"},
		{"an empty model id", provider(`"a"`, `"A"`, `"b"`, `{"id":""}`, ""), all, "empty model id"},
		{"a colon in a model id", provider(`"a"`, `"A"`, `"b"`, `{"id":"a:b"}`, ""), all, "reserved"},
		{"a blank in a model id", provider(`"a"`, `"A"`, `"b"`, `{"id":"a b"}`, ""), all, "whitespace"},
		{"a long model id", provider(`"a"`, `"A"`, `"b"`, `{"id":`+long+`}`, ""), all, "at most 64"},
		{"a control character in a model id", provider(`"a"`, `"A"`, `"b"`, `{"id":"\u0001"}`, ""), all, "control character"},
		{"a model twice", provider(`"a"`, `"A"`, `"b"`, model+","+model, ""), all, `duplicate model id "m"`},
		{"a context window that is none", provider(`"a"`, `"A"`, `"b"`, `{"id":"m","context_window":-1}`, ""), all, "context_window is not a whole number"},
		{"a config_schema that is no object", provider(`"a"`, `"A"`, `"b"`, model, `,"config_schema":1`), all, "config_schema"},

		{"an empty kind", capability(`"   "`, `"Sample"`, ``), all, "kind"},
		{"an empty name of a capability", capability(`"capture"`, `"   "`, ``), all, "name"},
		{"an unknown permission", capability(`"capture"`, `"Sample"`, `"audio.telepathy"`), all, `unknown permission "audio.telepathy"`},
		{"a permission that is not granted", capability(`"capture"`, `"Sample"`, `"memory.read"`), granting(), `"memory.read", which is not granted`},
		{"all permissions granted", capability(`"capture"`, `"Sample"`, `"memory.read","memory.write"`), all, ""},
		{"one of two granted", capability(`"capture"`, `"Sample"`, `"memory.read","memory.write"`), granting(manifest.MemoryRead), `"memory.write", which is not granted`},
		{"no permissions", capability(`"ocr"`, `"Tesseract"`, ``), granting(), ""},
		{"permissions that are no texts", capability(`"ocr"`, `"Tesseract"`, `1`), all, "permissions must be an array of strings"},
	} {
		d, err := protocol.ReadGreeting([]byte(test.raw), test.granted)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v; want %q", test.name, err, test.want)
		}
		if err == nil && d == nil {
			t.Errorf("%s: nothing declared", test.name)
		}
	}
	// Any kind is accepted.
	for _, kind := range []string{"capture", "ocr", "agent", "foot_pedal", "eeg"} {
		d, err := protocol.ReadGreeting([]byte(greeting(fmt.Sprintf(`"capabilities":[{"kind":%q,"name":"Any","permissions":["memory.read"],"params":{"a":[1]}}]`, kind))), all)
		if err != nil || d.Capabilities[0].Kind != kind || string(d.Capabilities[0].Params) != `{"a":[1]}` {
			t.Errorf("%s: %+v, %v", kind, d, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		raw     string
		action  protocol.Action
		changed string
		reason  string
		wrong   string
	}{
		{raw: `{"action":"continue"}`, action: protocol.Continue},
		{raw: `{"action":"continue","arguments":null,"reason":""}`, action: protocol.Continue},
		{raw: "{\"action\":\"modify\",\"arguments\":{\"a\":\n 1.0}}", action: protocol.Modify, changed: `{"a":1.0}`},
		{raw: `{"action":"block","reason":"not here\n\u001b[2J"}`, action: protocol.Block, reason: "not here [2J"},
		{raw: `{"action":"block"}`, action: protocol.Block},
		{raw: `{"action":"block","reason":"` + strings.Repeat("x", 1100) + `"}`, action: protocol.Block, reason: strings.Repeat("x", 1000) + "..."},

		{raw: `{"action":"continue","arguments":{}}`, wrong: `"arguments" does not belong to the action continue`},
		{raw: `{"action":"continue","reason":"because"}`, wrong: `"reason" does not belong`},
		{raw: `{"action":"block","arguments":{}}`, wrong: `does not belong`},
		{raw: `{"action":"continue","more":1}`, wrong: `"more" does not belong`},
		{raw: `{"action":"modify"}`, wrong: "arguments is not a JSON object"},
		{raw: `{"action":"modify","arguments":[]}`, wrong: "arguments is not a JSON object"},
		{raw: `{"action":"modify","result":{}}`, wrong: "arguments is not a JSON object"},
		{raw: `{"action":"modify","arguments":{"a":1,"a":2}}`, wrong: "duplicate"},
		{raw: `{"action":"modify","arguments":{"a":{"b":1,"b":2}}}`, wrong: "duplicate"},
		{raw: `{"action":"block","action":"continue"}`, wrong: "duplicate"},
		{raw: `{"action":"block","Action":"continue"}`, wrong: "two spellings"},
		{raw: `{"action":"allow"}`, wrong: `unknown action "allow"`},
		{raw: `{"action":"Continue"}`, wrong: `unknown action "Continue"`},
		{raw: `{"action":1}`, wrong: `missing or invalid "action"`},
		{raw: `{}`, wrong: `missing or invalid "action"`},
		{raw: `"continue"`, wrong: "not a JSON object"},
		{raw: `null`, wrong: "not a JSON object"},
		{raw: ``, wrong: "not a JSON object"},
		{raw: `{"action":"block","reason":1}`, wrong: "reason is not a string"},
		{raw: `{"action":"continue"} {}`, wrong: "text behind"},
		{raw: "{\"action\":\"modify\",\"arguments\":{\"a\":\"\xff\"}}", wrong: "UTF-8"},
		{raw: `{"action":"modify","arguments":{"a":"\ud800"}}`, wrong: "surrogate"},
	} {
		a, err := protocol.ReadAnswer([]byte(test.raw), "arguments")
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%.80s: %+v, %v; want %q", test.raw, a, err, test.wrong)
			}
			continue
		}
		if err != nil || a.Action != test.action || string(a.Changed) != test.changed || a.Reason != test.reason {
			t.Errorf("%.80s: %+v, %v", test.raw, a, err)
		}
	}
}

func TestShown(t *testing.T) {
	s := protocol.Shown{ID: "c1", Agent: "claude-code", Server: "a\"b", Method: "tools/call", Tool: "x", Arguments: []byte(`{"n": 1.50}`), Facts: []string{"sends"}}
	want := `{"call":{"id":"c1","session":"","agent":"claude-code","server":"a\"b","method":"tools/call","tool":"x","project":"","profile":"","facts":["sends"],"arguments":{"n": 1.50}}}`
	if got := string(s.Params()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Arguments, s.Facts, s.Result = nil, nil, []byte(`{"content":[]}`)
	if got := string(s.Params()); !strings.HasSuffix(got, `"facts":[],"arguments":{}},"result":{"content":[]}}`) {
		t.Errorf("got %s", got)
	}
}

func TestResultsOfTools(t *testing.T) {
	for raw, want := range map[string]string{
		"{\"content\":[\n]}":                           `{"content":[]}`,
		`{"content":[{"type":"text"}],"isError":true}`: `{"content":[{"type":"text"}],"isError":true}`,
		`{"content":{}}`:                               "the content array is missing",
		`{}`:                                           "the content array is missing",
		`[]`:                                           "not a JSON object",
		`{"content":[],"isError":"no"}`:                "neither true nor false",
		`{"content":[],"content":[]}`:                  "duplicate",
	} {
		got, err := protocol.CheckResult([]byte(raw))
		if err == nil && string(got) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}
