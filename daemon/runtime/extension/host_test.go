package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// text calls a tool of the fake and returns the text of its result.
func (h *fixture) text(name, tool, input string) string {
	h.t.Helper()
	raw, err := h.CallTool(h.t.Context(), name, tool, []byte(input))
	if err != nil {
		h.t.Fatal(err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) != 1 {
		h.t.Fatalf("%s: %v", raw, err)
	}
	return result.Content[0].Text
}

// ask has an extension send a request to the daemon.
func (h *fixture) ask(name, method, params string) string {
	h.t.Helper()
	return h.text(name, "ask", fmt.Sprintf(`{"method":%q,"params":%s}`, method, params))
}

func TestPermissionsAreLookedAtWithEachRequest(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "bare", Permissions: []string{"tools", "providers", "hooks.before", "hooks.after"}})
	for method, permission := range map[string]string{
		"memory.append": "memory.write", "memory.query": "memory.read", "config.set": "config.write", "config.subscribe": "config.subscribe",
	} {
		if got, want := h.ask("bare", method, `{}`), "permission denied: "+permission+" required (-32602)"; got != want {
			t.Errorf("%s: %s; want %s", method, got, want)
		}
	}
	if got := h.ask("bare", "config.get", `{"key":"x"}`); got != `{"value":null}` {
		t.Errorf("config.get needs no permission: %s", got)
	}
	if got := h.ask("bare", "files.read", `{}`); got != "method not found: files.read (-32601)" {
		t.Errorf("an unknown method: %s", got)
	}
	if _, err := h.Invoke(t.Context(), "bare", "say", nil, nil); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("a command without the permission: %v", err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	h.install(fake.Extension{Name: "y"})
	for _, params := range []string{
		`{"namespace":"x","content":"the first"}`,
		`{"namespace":"x","content":"the second","tags":["kind:a","b"],"meta":{"n": 1}}`,
		`{"namespace":"x","content":"third","tags":["kind:b"]}`,
	} {
		if got := h.ask("x", "memory.append", params); !strings.HasPrefix(got, `{"ok":true,"timestamp_ms":`) {
			t.Fatal(got)
		}
	}
	contents := func(name, params string) string {
		t.Helper()
		answer := h.ask(name, "memory.query", params)
		var records struct {
			Records []struct {
				Namespace, Content string
				TimestampMS        int64 `json:"timestamp_ms"`
				Tags               []string
				Meta               json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(answer), &records); err != nil {
			return answer
		}
		var all []string
		for _, r := range records.Records {
			if r.Namespace != name || r.TimestampMS == 0 || r.Tags == nil {
				t.Errorf("a record: %+v", r)
			}
			all = append(all, r.Content+string(r.Meta))
		}
		return strings.Join(all, ", ")
	}
	for params, want := range map[string]string{
		`{"namespace":"x"}`:                                 `the first, the second{"n":1}, third`,
		`{"namespace":"x","content_contains":"the "}`:       `the first, the second{"n":1}`,
		`{"namespace":"x","tag_prefix":"kind:"}`:            `the second{"n":1}, third`,
		`{"namespace":"x","limit":1}`:                       `third`,
		`{"namespace":"x","until_ms":1000}`:                 ``,
		`{"namespace":"x","since_ms":1000,"until_ms":null}`: `the first, the second{"n":1}, third`,
		`{"namespace":"x","limit":-1}`:                      `limit is not a whole number (-32602)`,
		`{"namespace":"y"}`:                                 `namespace must equal the extension's name 'x' (got 'y') (-32602)`,
		`{}`:                                                `missing or invalid 'namespace' parameter (-32602)`,
	} {
		if got := contents("x", params); got != want {
			t.Errorf("%s: %s; want %s", params, got, want)
		}
	}
	if got := contents("y", `{"namespace":"y"}`); got != "" {
		t.Errorf("the other remembers %s", got)
	}
	for params, want := range map[string]string{
		`{"namespace":"y","content":"z"}`:                                          "namespace must equal",
		`{"namespace":"x","content":"z","tags":"t"}`:                               "tags must be an array of strings",
		`{"namespace":"x","content":"z","tags":[1]}`:                               "tags must be an array of strings",
		`{"namespace":"x"}`:                                                        "missing or invalid 'content'",
		fmt.Sprintf(`{"namespace":"x","content":%q}`, strings.Repeat("z", 70_000)): "at most 65536 bytes",
	} {
		if got := h.ask("x", "memory.append", params); !strings.Contains(got, want) || !strings.Contains(got, "-32602") {
			t.Errorf("%.60s: %s; want %s", params, got, want)
		}
	}
	// Its memory outlives the program and its removal, until it is purged.
	kept, err := h.Remove(t.Context(), "x", false, extension.Actor{})
	if err != nil || kept.Records != 3 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	h.install(fake.Extension{Name: "x"})
	if got := contents("x", `{"namespace":"x","limit":1}`); got != "third" {
		t.Errorf("installed again: %s", got)
	}
	if kept, err := h.Remove(t.Context(), "x", true, extension.Actor{}); err != nil || kept != (extension.Kept{}) {
		t.Errorf("kept %+v, %v", kept, err)
	}
}

// config.set, config.get and config.changed, whoever sets a value.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x", Manifest: "hooks: {before: {}}\nconfig: {limit: \"3\", colour: red}\n"})
	for _, step := range []struct{ method, params, want string }{
		{"config.get", `{"key":"limit"}`, `{"value":"3"}`},
		{"config.set", `{"key":"limit","value":"4"}`, `{"ok":true}`},
		{"config.get", `{"key":"limit"}`, `{"value":"4"}`},
		{"config.subscribe", `{}`, `{"ok":true}`},
		{"config.set", `{"key":"limit","value":"5"}`, `{"ok":true}`},
		{"config.set", `{"key":"a.b","value":"5"}`, `config key must not contain dots, slashes, or spaces (-32602)`},
		{"config.set", `{"key":" ","value":"5"}`, `config key must be non-empty (-32602)`},
		{"config.set", `{"key":"n","value":5}`, `missing or invalid 'value' parameter (-32602)`},
		{"config.get", `{"key":"a/b"}`, `config key must not contain dots, slashes, or spaces (-32602)`},
		{"config.get", `{"key":"none"}`, `{"value":null}`},
	} {
		if got := h.ask("x", step.method, step.params); got != step.want {
			t.Errorf("%s %s: %s; want %s", step.method, step.params, got, step.want)
		}
	}
	if err := h.SetConfig(t.Context(), "x", "colour", "blue"); err != nil {
		t.Fatal(err)
	}
	h.until("it has heard of both", func() bool { return h.text("x", "told", `{}`) == `{"colour":"blue","limit":"5"}` })
	if err := h.SetConfig(t.Context(), "x", "a.b", ""); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("a wrong key: %v", err)
	}
	all, err := h.Config(t.Context(), "x")
	if err != nil || fmt.Sprint(all) != "[{colour blue true} {limit 5 true}]" {
		t.Errorf("all: %v, %v", all, err)
	}
	if kept, err := h.Remove(t.Context(), "x", false, extension.Actor{}); err != nil || kept.Values != 2 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if err := h.SetConfig(context.Background(), "x", "a", ""); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}
