package facts

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedact(t *testing.T) {
	token := "ghp_" + body[:36]
	for _, test := range []struct {
		name, in string
		paths    []string
		want     string
		masked   []string
	}{
		{"nothing", ` { "a" : 1.50, "b":"plain é\u00e9" } `, nil, ` { "a" : 1.50, "b":"plain é\u00e9" } `, nil},
		{"by name", `{"password":"hunter2","n":1}`, nil, `{"password":"#","n":1}`, []string{"hunter2"}},
		{"a number", `{"passcode": 12345678 }`, nil, `{"passcode": "#" }`, []string{"12345678"}},
		{"in text", `{"note":"use ` + token + ` now"}`, nil, `{"note":"use # now"}`, []string{token}},
		{"among escapes", `{"note":"\u00e9\n\ud83d\ude00 \"` + token + `\"\t"}`, nil, `{"note":"\u00e9\n\ud83d\ude00 \"#\"\t"}`, []string{token}},
		{"an escaped secret", `{"note":"x \u0067hp_` + body[:36] + ` y"}`, nil, `{"note":"x # y"}`, []string{token}},
		{"two", `{"note":"` + token + ` AKIA2E5FGH7JKLMNPQRS"}`, nil, `{"note":"# #"}`, []string{token, "AKIA2E5FGH7JKLMNPQRS"}},
		{"only the password of a URL", `{"u":"postgres://app:s3cr3t@db/x"}`, nil, `{"u":"postgres://app:#@db/x"}`, []string{"s3cr3t"}},
		{"only the value of an assignment", `{"c":"mysql --password=hunter2 db"}`, nil, `{"c":"mysql --password=# db"}`, []string{"hunter2"}},
		{"the whole key", `{"k":"a -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n-----END PRIVATE KEY----- b"}`, nil, `{"k":"a # b"}`,
			[]string{"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n-----END PRIVATE KEY-----"}},
		{"a member's name", `{"` + token + `":{"a":1}}`, nil, `{"#":{"a":1}}`, []string{token}},
		{"disguised", `{"note":"see ghp_\u200b` + body[:36] + `"}`, nil, `{"note":"#"}`, []string{"see ghp_\u200b" + body[:36]}},
		{"a pair", `{"value":"hunter2","name":"db_password"}`, nil, `{"value":"#","name":"db_password"}`, []string{"hunter2"}},
		{"named", `{"a":{"b":"x","c":"y"},"b":"z"}`, []string{"a.b"}, `{"a":{"b":"#","c":"y"},"b":"z"}`, []string{"x"}},
		{"named, whatever it is", `{"a":{"x":[1,{}]},"b":[1],"c":null,"d":true}`, []string{"a", "b", "c", "d"}, `{"a":"#","b":"#","c":"#","d":"#"}`,
			[]string{`{"x":[1,{}]}`, `[1]`, `null`, `true`}},
		{"in arrays", `{"items":[{"secret":"a"},{"secret":"b","n":1}]}`, []string{"items.*.secret"}, `{"items":[{"secret":"#"},{"secret":"#","n":1}]}`, []string{"a", "b"}},
		{"through arrays unsaid", `{"items":[[{"key":"a"}]]}`, []string{"items.key"}, `{"items":[[{"key":"#"}]]}`, []string{"a"}},
		{"any member", `{"a":{"pin":"1"},"b":{"pin":"2"}}`, []string{"*.pin"}, `{"a":{"pin":"#"},"b":{"pin":"#"}}`, []string{"1", "2"}},
		{"a name with a dot", `{"auth.token":"t","auth":{"token":"u"}}`, []string{"auth.token"}, `{"auth.token":"#","auth":{"token":"#"}}`, []string{"t", "u"}},
		{"an element", `{"items":["a",["b"]]}`, []string{"items.0"}, `{"items":["#",["#"]]}`, []string{"a", "b"}},
		{"a name that looks like it", `{"Auth":{"to\u212aen\u200b":"t"}}`, []string{"auth.token"}, `{"Auth":{"to\u212aen\u200b":"#"}}`, []string{"t"}},
		{"another case", `{"Auth":{"TOKEN":"t"}}`, []string{"auth.token"}, `{"Auth":{"TOKEN":"#"}}`, []string{"t"}},
		{"a name with escapes", `{"\u0061uth":{"token":"t"}}`, []string{"auth.token"}, `{"\u0061uth":{"token":"#"}}`, []string{"t"}},
		{"not below", `{"x":{"auth":{"token":"t"}}}`, []string{"auth.token"}, `{"x":{"auth":{"token":"t"}}}`, nil},
		{"named twice over", `{"a":{"password":"hunter2"}}`, []string{"a", "a.password"}, `{"a":"#"}`, []string{`{"password":"hunter2"}`}},
		{"twins", `{"k":"1","k":"2"}`, []string{"k"}, `{"k":"#","k":"#"}`, []string{"1", "2"}},
		{"a bare string", `"` + token + `"`, nil, `"#"`, []string{token}},
		{"no JSON", `{"password":"hunter2"`, nil, `"#"`, []string{`{"password":"hunter2"`}},
		{"two values", `{} {"password":"hunter2"}`, nil, `"#"`, []string{`{} {"password":"hunter2"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var masked []string
			in := []byte(test.in)
			got := Redact(in, test.paths, func(secret []byte) string {
				masked = append(masked, string(secret))
				return "#"
			})
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("redacted (-want +got):\n%s", diff)
			}
			slices.Sort(masked)
			slices.Sort(test.masked)
			if diff := cmp.Diff(test.masked, masked); diff != "" && !(len(masked) == 0 && len(test.masked) == 0) {
				t.Errorf("masked (-want +got):\n%s", diff)
			}
			if string(in) != test.in {
				t.Error("the values that were handed in were changed")
			}
		})
	}
}

// Nested arrays must not multiply the ways to match a path, which would take forever.
func TestRedactOfDeepArrays(t *testing.T) {
	deep := strings.Repeat("[", 900) + `{"x":"y"}` + strings.Repeat("]", 900)
	got := Redact([]byte(deep), []string{"*.*.*.*.*.x"}, func([]byte) string { return "#" })
	if want := strings.Replace(deep, `"y"`, `"#"`, 1); string(got) != want {
		t.Errorf("got %.40s...", got)
	}
}

// Whatever mask returns, the result is valid JSON.
func TestRedactEscapesTheMask(t *testing.T) {
	got := Redact([]byte(`{"password":"hunter2","n":"x ghp_`+body[:36]+` y"}`), nil, func([]byte) string { return "\"\\\n\xff<" })
	var v struct{ Password, N string }
	if err := json.Unmarshal(got, &v); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if v.Password != "\"\\\n\uFFFD<" || v.N != "x \"\\\n\uFFFD< y" {
		t.Errorf("got %q", v)
	}
}

// What could not be examined completely is kept out of the record.
func TestRedactBeyondTheBudget(t *testing.T) {
	token := "ghp_" + body[:36]
	text := strings.Repeat(" eyJhbGciOiJIUzI1NiIsInR5cCI6", 100) + token
	r := redactors.New().(*redactor)
	r.budget, r.mask = 1000, func([]byte) string { return "#" }
	got := r.redacted([]byte(`{"note":"` + text + `","n":1}`))
	if string(got) != `{"note":"#","n":1}` {
		t.Errorf("got %.200s", got)
	}
}

func TestWithinMapsEscapes(t *testing.T) {
	raw := []byte(`"a\u00e9\ud83d\ude00\n\ud800z"`)
	text := unquoted(raw)
	if want := "aé😀\n\uFFFDz"; string(text) != want {
		t.Fatalf("unquoted: got %q, want %q", text, want)
	}
	got := within(raw, []span{{0, 1}, {1, 3}, {3, 7}, {7, 8}, {11, 12}})
	var parts []string
	for _, s := range got {
		parts = append(parts, string(raw[s.start:s.end]))
	}
	if diff := cmp.Diff([]string{"a", `\u00e9`, `\ud83d\ude00`, `\n`, "z"}, parts); diff != "" {
		t.Error(diff)
	}
}

func FuzzRedact(f *testing.F) {
	token := "ghp_" + body[:36]
	f.Add([]byte(`{"password":"hunter2","a":["\u00e9 `+token+`"]}`), "a.b")
	f.Add([]byte(`{"a":"`+base64.StdEncoding.EncodeToString([]byte("x "+token+" y"))+`"}`), "*")
	f.Add([]byte(`{"name":"token","value":12345678901234567890}`), "items.*.secret")
	f.Add([]byte(`"\ud800\u200b-----BEGIN PRIVATE KEY-----"`), "..")
	f.Fuzz(func(t *testing.T, values []byte, path string) {
		const mark = "QQQ"
		got := Redact(values, []string{path, "items.*.secret"}, func(secret []byte) string { return mark })
		if json.Valid(values) && !json.Valid(got) {
			t.Fatalf("%q became %q", values, got)
		}
		if !strings.Contains(string(got), mark) && string(got) != string(values) {
			t.Fatalf("%q was changed to %q without a replacement", values, got)
		}
		// The token must be gone.
		if json.Valid(values) && strings.Contains(string(values), token) && strings.Contains(string(got), token) {
			t.Fatalf("%q still holds the token: %q", values, got)
		}
	})
}

// A redactor is reused and retains nothing of earlier input.
func TestRedactAfterAnother(t *testing.T) {
	token := "ghp_" + body[:36]
	mask := func([]byte) string { return "#" }
	for range 3 {
		for _, tt := range []struct {
			values string
			paths  []string
			want   string
		}{
			{`{"a":"` + token + `","b":"x"}`, nil, `{"a":"#","b":"x"}`},
			{`{"a":"plain","b":"text"}`, []string{"b"}, `{"a":"plain","b":"#"}`},
			{`{"a":"plain","b":"text"}`, []string{"a"}, `{"a":"#","b":"text"}`},
			{`{"a":"plain","b":"text"}`, nil, `{"a":"plain","b":"text"}`},
			{`{"a":`, nil, `"#"`},
		} {
			if got := string(Redact([]byte(tt.values), tt.paths, mask)); got != tt.want {
				t.Errorf("of %s without %q: got %s, want %s", tt.values, tt.paths, got, tt.want)
			}
		}
	}
}
