package audit

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const secret = "sk-live-0123456789abcdef"

// redactor masks the secret of these tests everywhere, and what paths names.
func redactor(values []byte, paths []string, mask func([]byte) string) []byte {
	masked := rawjson.Mask(values, paths, mask)
	return []byte(strings.ReplaceAll(string(masked), secret, mask([]byte(secret))))
}

// grep fails if any file below dir contains text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			t.Errorf("%q stands in %s", text, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestValues(t *testing.T) {
	const hmac = `"hmac":"[0-9a-f]{64}"`
	tests := []struct {
		name   string
		o      Options
		values string
		redact []string
		want   string // a regular expression for the text after {"values":2
		hides  string
	}{
		{"nothing to keep", Options{}, "", nil, "", ""},
		{"none", Options{Values: config.ValuesNone, Redact: redactor}, `{"a":"x"}`, nil, `,"bytes":9,` + hmac + `}`, `"a"`},
		{"redacted by default", Options{Redact: redactor}, `{"a":"x` + secret + `y"}`, nil,
			`,"arguments":{"a":"xhmac:[0-9a-f]{16}y"},"bytes":34,` + hmac + `}`, secret},
		{"redacted with members", Options{Values: config.ValuesRedacted, Redact: redactor}, `{"a":"x","p":{"q":"hidden"}}`, []string{"p.q"},
			`,"arguments":{"a":"x","p":{"q":"hmac:[0-9a-f]{16}"}},"bytes":28,` + hmac + `}`, "hidden"},
		{"redacted without a redactor", Options{}, `{"a":"` + secret + `"}`, nil, `,"bytes":32,` + hmac + `}`, secret},
		{"full", Options{Values: config.ValuesFull}, `{"a":"` + secret + `"}`, nil, `,"arguments":{"a":"` + secret + `"},"bytes":32,` + hmac + `}`, ""},
		{"full with members", Options{Values: config.ValuesFull}, `{"p":"hidden","a":1}`, []string{"p"},
			`,"arguments":{"p":"hmac:[0-9a-f]{16}","a":1},"bytes":20,` + hmac + `}`, "hidden"},
		{"line ends between tokens", Options{Values: config.ValuesFull}, "{\r\n \"a\":\n1\r}", nil, `,"arguments":{   "a": 1 },"bytes":12,` + hmac + `}`, ""},
		{"not JSON", Options{Values: config.ValuesFull}, "{\"a\":\nx\xff", nil, `,"arguments":"{\\"a\\":\\nx\x{fffd}","bytes":8,` + hmac + `}`, ""},
		{"not JSON with members", Options{Values: config.ValuesFull}, `{"p":"hidden"`, []string{"p"}, `,"bytes":13,` + hmac + `}`, "hidden"},
		{"large", Options{Redact: redactor}, `"` + strings.Repeat("é", maxArguments) + `"`, nil,
			`,"preview":"\\"é+","bytes":131074,` + hmac + `}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, test.o)
			r := &record.Record{Kind: record.KindCall}
			if err := l.Record(context.Background(), r, []byte(test.values), test.redact); err != nil {
				t.Fatal(err)
			}
			got := read(t, l, Query{From: 2})
			if len(got) != 1 {
				t.Fatalf("%d records", len(got))
			}
			if test.want == "" {
				if got[0].values != "" {
					t.Errorf("got %s", got[0].values)
				}
				return
			}
			want := regexp.MustCompile(`^\{"values":2` + strings.ReplaceAll(test.want, "{\"", `\{"`) + `$`)
			if !want.MatchString(got[0].values) || !json.Valid([]byte(got[0].values)) {
				t.Errorf("got %.300s", got[0].values)
			}
			if test.hides != "" {
				grep(t, dir, test.hides)
			}
			if len(got[0].values) > maxArguments {
				t.Errorf("%d bytes kept", len(got[0].values))
			}
			closeLog(t, l)
			verified(t, dir)
		})
	}
}

// Equal values have equal HMACs, in one log only, also after it was reopened.
func TestHMACsMatchWithinOneLog(t *testing.T) {
	hmacOf := func(l *Log) string {
		t.Helper()
		r := put(t, l, "tool", `{"a":1}`)
		lines := read(t, l, Query{From: r.Seq})
		if len(lines) != 1 {
			t.Fatalf("%d records", len(lines))
		}
		var v struct{ HMAC string }
		if err := json.Unmarshal([]byte(lines[0].values), &v); err != nil {
			t.Fatal(err)
		}
		return v.HMAC
	}
	dir := t.TempDir()
	l := open(t, dir, Options{})
	first := hmacOf(l)
	closeLog(t, l)
	if again := hmacOf(open(t, dir, Options{})); first == "" || again != first {
		t.Errorf("got %q, then %q", first, again)
	}
	if other := hmacOf(open(t, t.TempDir(), Options{})); other == first {
		t.Error("another log has the same HMAC")
	}
}

func TestABrokenKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	closeLog(t, open(t, dir, Options{}))
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "is not a key") {
		t.Errorf("got %v, %v", l, err)
	}
	// The refused log is not locked for the next attempt.
	if err := os.Remove(filepath.Join(dir, keyFile)); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{})
}

// The texts of a record contain no secret either, whatever the options say about values;
// the caller's record still has it.
func TestTextsHoldNoSecrets(t *testing.T) {
	for _, values := range []config.Values{config.ValuesNone, config.ValuesRedacted, config.ValuesFull} {
		dir := t.TempDir()
		l := open(t, dir, Options{Values: values, Redact: redactor})
		r := record.Record{Kind: record.KindCall, Tool: "note://" + secret, Method: secret, MessageID: `"` + secret + `"`, Reason: "since " + secret, Rule: secret}
		before := r
		for range 2 { // the second time from the cache
			if err := l.Record(t.Context(), &r, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if r.Tool != before.Tool || r.Reason != before.Reason || r.Seq == 0 {
			t.Errorf("%s: the record has become %+v", values, r)
		}
		if got := records(t, l, Query{Kind: record.KindCall}); len(got) != 2 || !strings.HasPrefix(got[1].Tool, "note://hmac:") || got[0].Reason != got[1].Reason {
			t.Errorf("%s: on record: %+v", values, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		grep(t, dir, secret)
	}
}

// A reload changes how the log is kept from then on.
func TestApply(t *testing.T) {
	l := open(t, t.TempDir(), Options{Values: config.ValuesNone, Redact: redactor})
	defer l.Close()
	kept := func() string {
		t.Helper()
		r := record.Record{Kind: record.KindCall}
		if err := l.Record(t.Context(), &r, []byte(`{"a":"x"}`), nil); err != nil {
			t.Fatal(err)
		}
		var last string
		if err := l.Read(t.Context(), Query{From: r.Seq}, func(_ uint64, _, values []byte) error { last = string(values); return nil }); err != nil {
			t.Fatal(err)
		}
		return last
	}
	if got := kept(); strings.Contains(got, "arguments") {
		t.Errorf("none keeps %s", got)
	}
	l.Apply(Options{Values: config.ValuesFull, Sync: config.SyncAlways})
	if got := kept(); !strings.Contains(got, `"arguments":{"a":"x"}`) {
		t.Errorf("full keeps %s", got)
	}
	l.Apply(Options{Values: config.ValuesNone, MaxSize: 1 << 20})
	if got, how := kept(), l.keeping(); strings.Contains(got, "arguments") || how.SegmentSize != 1<<17 || how.Sync != config.SyncInterval || how.Redact == nil {
		t.Errorf("none again keeps %s, as %+v", got, how)
	}
}
