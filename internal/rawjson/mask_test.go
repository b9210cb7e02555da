package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

func TestMask(t *testing.T) {
	tests := []struct{ name, in, paths, want string }{
		{"nothing named", `{"a": "x" }`, "b", `{"a": "x" }`},
		{"top", `{ "password" : "hunter2", "b":1}`, "password", `{ "password" : "<hunter2>", "b":1}`},
		{"only from the top", `{"a":{"password":"x"}}`, "password", `{"a":{"password":"x"}}`},
		{"nested", `{"auth":{"token":"x","user":"u"}}`, "auth.token", `{"auth":{"token":"<x>","user":"u"}}`},
		{"star in an array", `{"items":[{"secret":"a"},{"secret":"b","n":1}]}`, "items.*.secret", `{"items":[{"secret":"<a>"},{"secret":"<b>","n":1}]}`},
		{"array without a star", `{"items":[{"secret":"a"}]}`, "items.secret", `{"items":[{"secret":"<a>"}]}`},
		{"index", `{"items":["a","b"]}`, "items.1", `{"items":["a","<b>"]}`},
		{"star in an object", `{"m":{"x":"a","y":"b"}}`, "m.*", `{"m":{"x":"<a>","y":"<b>"}}`},
		{"whole object", `{"auth":{"a":[1]}}`, "auth", `{"auth":"<{\"a\":[1]}>"}`},
		{"number and null", `{"a":1.50,"b":null}`, "a b", `{"a":"<1.50>","b":"<null>"}`},
		{"escapes", `{"p\u0061ss":"\u0041\n"}`, "pass", `{"p\u0061ss":"<A\n>"}`},
		{"name with dots", `{"auth.token":"x","a":{"b.c":"y"}}`, "auth.token a.b.c", `{"auth.token":"<x>","a":{"b.c":"<y>"}}`},
		{"another spelling", `{"Auth":{"TO\u212aEN ":"x"}}`, "auth.token", `{"Auth":{"TO\u212aEN ":"<x>"}}`},
		{"doubled member", `{"a":"x","a":"y"}`, "a", `{"a":"<x>","a":"<y>"}`},
		{"nested arrays", `{"a":[[["x"]]]}`, "a.0.0", `{"a":[["<[\"x\"]>"]]}`},
		{"outer path wins", `{"a":{"b":"x"}}`, "a.b a", `{"a":"<{\"b\":\"x\"}>"}`},
		{"blanks kept", " {\n\"a\" :\t\"x\"}\n", "a", " {\n\"a\" :\t\"<x>\"}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := string(rawjson.Mask([]byte(test.in), strings.Fields(test.paths), func(b []byte) string { return "<" + string(b) + ">" }))
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestMaskKeepsNothingItCannotRead(t *testing.T) {
	for _, in := range []string{``, `{`, `{"a":"x"`, `{"a":}`, `{"a":"x"}{"a":"y"}`, `{"a":"x"} y`, "{\"a\":\"\xff\"}"} {
		if got := rawjson.Mask([]byte(in), []string{"a"}, func([]byte) string { return "" }); got != nil {
			t.Errorf("%q: got %q, want nil", in, got)
		}
	}
}

// Nested arrays must not multiply the matching paths.
func TestMaskOfDeepArrays(t *testing.T) {
	deep := strings.Repeat("[", 5000) + `{"x":"secret"}` + strings.Repeat("]", 5000)
	got := rawjson.Mask([]byte(deep), []string{"*.*.*.*.x", "x", "*.x"}, func([]byte) string { return "gone" })
	if strings.Contains(string(got), "secret") {
		t.Error("the secret is still there")
	}
}

// A masked value must never stay readable, wherever it is.
func TestMaskNeverLeavesTheSecret(t *testing.T) {
	const secret = "s3cr3t-value"
	rapid.Check(t, func(t *rapid.T) {
		var v any = secret
		var path []string
		for range rapid.IntRange(1, 6).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "array") {
				v = []any{1, v, "x"}
				if rapid.Bool().Draw(t, "named") {
					path = append([]string{"*"}, path...)
				}
				continue
			}
			name := rapid.StringN(1, 6, -1).Draw(t, "name")
			if strings.Contains(name, ".") {
				t.Skip("a dot")
			}
			v = map[string]any{name: v, "other": rapid.Int().Draw(t, "other")}
			path = append([]string{name}, path...)
		}
		if len(path) == 0 {
			t.Skip("no path")
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := rawjson.Mask(raw, []string{strings.Join(path, ".")}, func(b []byte) string { return fmt.Sprint(len(b)) })
		if !json.Valid(got) || strings.Contains(string(got), secret) {
			t.Fatalf("path %q in %s: %s", path, raw, got)
		}
	})
}
