//gotest:plain the library takes long under the race detector, and all but a few run one after the other
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// rulesOnce loads the rules once for all tests.
var rulesOnce = sync.OnceValues(newDetector)

func rules(t testing.TB) *detector {
	t.Helper()
	d, err := rulesOnce()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Test secrets are concatenated here, so that scanners do not report this file.
var (
	github = "ghp_" + "16C7e42F292c6912E7" + "710c838347Ae178B4a"
	slack  = "xoxb-" + "263594206564-2343594206574-" + "FGqddMF8t08v8N7Oq4i57vs1"
	aws    = "AKIA" + "LALEMEL33243OLIB"
	body   = strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n", 6)
	pem    = "-----BEGIN " + "PRIVATE KEY-----\n" + body + "-----END " + "PRIVATE KEY-----"
)

// plain returns the default settings.
func plain(t testing.TB) settings {
	t.Helper()
	s, err := readSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func quote(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return string(quoted)
}

func TestScrub(t *testing.T) {
	inText := func(text string) string { return `{"content":[ {"type":"text","text":` + text + `}],"isError":false}` }
	blob := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, test := range map[string]struct{ result, want string }{
		"nothing":      {inText(`"no secret \u0041 here"`), ``},
		"text":         {inText(`"a\ttoken: ` + github + ` \ud83d"`), inText(`"a\ttoken: [redacted: github-pat] \ud83d"`)},
		"escaped":      {inText(`"\u0067hp_` + github[4:20] + `\u00` + fmt.Sprintf("%02x", github[20]) + github[21:] + `"`), inText(`"[redacted: github-pat]"`)},
		"over lines":   {inText(quote("key:\n" + pem + "\nend")), inText(`"key:\n[redacted: private-key]\nend"`)},
		"cut off":      {inText(quote(pem[:300])), inText(`"[redacted: private-key]"`)},
		"json in text": {inText(quote(`{"k":` + quote(pem) + `}`)), inText(`"{\"k\":\"[redacted: private-key]\"}"`)},
		"allowed by the text itself": {inText(`"` + github + ` # gitleaks:allow"`),
			inText(`"[redacted: github-pat] # gitleaks:allow"`)},
		"twice": {inText(`"` + github + ` ` + github + `"`), inText(`"[redacted: github-pat] [redacted: github-pat]"`)},
		"in a structure": {`{"structuredContent":{"a":{"b":["x","` + slack + `"]}, "n": 1.50}}`,
			`{"structuredContent":{"a":{"b":["x","[redacted: slack-bot-token]"]}, "n": 1.50}}`},
		"as a name":   {`{"structuredContent":{"` + github + `":1}}`, `{"structuredContent":{"[redacted: github-pat]":1}}`},
		"in a uri":    {`{"content":[{"type":"resource_link","uri":"https://x/?t=` + github + `"}]}`, `{"content":[{"type":"resource_link","uri":"https://x/?t=[redacted: github-pat]"}]}`},
		"resource":    {`{"content":[{"type":"resource","resource":{"uri":"a","text":"` + aws + `"}}]}`, `{"content":[{"type":"resource","resource":{"uri":"a","text":"[redacted: aws-access-token]"}}]}`},
		"text blob":   {`{"contents":[{"blob":"` + blob("a "+github+" b") + `","mimeType":"text/plain; charset=utf-8"}]}`, `{"contents":[{"blob":"` + blob("a [redacted: github-pat] b") + `","mimeType":"text/plain; charset=utf-8"}]}`},
		"blob of ...": {`{"contents":[{"mimeType":"application/octet-stream","blob":"` + blob("a "+github+" b") + `"}]}`, `{"contents":[{"mimeType":"application/octet-stream","blob":"` + blob("a [redacted: github-pat] b") + `"}]}`},
		"odd blob":    {`{"contents":[{"mimeType":"text/plain","blob":"` + blob("a\xff "+github+" b") + `"}]}`, `{"contents":[{"mimeType":"text/plain","blob":"` + blob("a\xff [redacted: github-pat] b") + `"}]}`},
		"image":       {`{"content":[{"type":"image","data":"` + blob("\xff\xfe "+github) + `","mimeType":"image/png"}]}`, ``},
		"no image":    {`{"content":[{"type":"image","data":"` + github + ` -","mimeType":"image/png"}]}`, `{"content":[{"type":"image","data":"[redacted: github-pat] -","mimeType":"image/png"}]}`},
		"elsewhere too": {`{"content":[{"type":"text","text":"password of it: abc"}],"structuredContent":{"password":"s3cretpass9","again":"is s3cretpass9"}}`,
			`{"content":[{"type":"text","text":"password of it: abc"}],"structuredContent":{"password":"[redacted: member-name]","again":"is [redacted: member-name]"}}`},
		"a word":          {`{"structuredContent":{"db_password":"longword","text":"a longword"}}`, `{"structuredContent":{"db_password":"[redacted: member-name]","text":"a longword"}}`},
		"no passwords":    {`{"password":"string","apiKey":"${KEY}","secret":"<secret>","passphrase":"what you typed","pwd":"****","x":{"password":{"type":"string"}}}`, ``},
		"url":             {inText(`"postgres://u:p4ss@db:5432/x and redis://:pw@h"`), inText(`"postgres://u:[redacted: url-password]@db:5432/x and redis://:[redacted: url-password]@h"`)},
		"url, loose":      {inText(`"postgres://u:p@ss@db/x mysql://u:a/b?c#d@db/x"`), inText(`"postgres://u:[redacted: url-password]@db/x mysql://u:[redacted: url-password]@db/x"`)},
		"url, escaped":    {inText(quote(`{"u":"amqp:\/\/u:hunter2@h\/v"}`)), inText(`"{\"u\":\"amqp:\\/\\/u:[redacted: url-password]@h\\/v\"}"`)},
		"url, none":       {inText(`"http://registry:4873/@scope/name ssh://git@host:22/x https://h:80/?mail=a@b.c http://u:@h mailto:a@b"`), ``},
		"not an object":   {`["` + github + `"]`, `["[redacted: github-pat]"]`},
		"with blanks":     {" {\n \"content\" : [ ]\r\n}\t", ``},
		"a short secret":  {inText(`"curl -u a:b1c2d https://x and a:b1c2d"`), inText(`"curl -u [redacted: curl-auth-user] https://x and a:b1c2d"`)},
		"names collide":   {`{"` + github + `":1,"[redacted: github-pat]":2}`, `!names of members`},
		"no json":         {`{"a":` + github, `!no JSON at byte`},
		"no utf-8":        {"\"\xff\"", `!not UTF-8`},
		"more than limit": {`"` + strings.Repeat("x", usualLimit) + `"`, `!its limit`},
	} {
		got, counts, err := plain(t).scrub(t.Context(), rules(t), []byte(test.result))
		if want, ok := strings.CutPrefix(test.want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), github) {
				t.Errorf("%s: %s, %v; want an error with %q", name, got, err, want)
			}
			continue
		}
		if err != nil || string(got) != test.want || (len(counts) == 0) != (test.want == "") {
			t.Errorf("%s:\n%s\n%s, %v %v\nwant\n%s", name, test.result, got, counts, err, test.want)
		}
	}
}

func TestAllow(t *testing.T) {
	s, err := readSettings(map[string]string{"allow": "ghp_.*\n\n  hunter[0-9]"})
	if err != nil {
		t.Fatal(err)
	}
	got, counts, err := s.scrub(t.Context(), rules(t), []byte(`["`+github+`","`+slack+`","ab://u:hunter2@h","ab://u:hunter22@h"]`))
	want := `["` + github + `","[redacted: slack-bot-token]","ab://u:hunter2@h","ab://u:[redacted: url-password]@h"]`
	if err != nil || string(got) != want || !maps.Equal(counts, map[string]int{"slack-bot-token": 1, "url-password": 1}) {
		t.Errorf("%s, %v, %v", got, counts, err)
	}
	for _, config := range []map[string]string{{"allow": "("}, {"limit": "x"}, {"limit": "0"}, {"limit": "100000000"}} {
		if _, err := readSettings(config); err == nil {
			t.Errorf("%v is taken", config)
		}
	}
}

// anyString encodes text as a JSON string in a random way, with unnecessary escapes.
func anyString(r *rand.Rand, text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c < ' ' || c == '"' || c == '\\' || r.IntN(6) == 0 && c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TestOnlySecretsChange tests the property that a scrubbed result equals a result written with
// the marks from the start, however its strings are encoded.
func TestOnlySecretsChange(t *testing.T) {
	secrets := map[string]string{github: "github-pat", slack: "slack-bot-token", aws: "aws-access-token", pem: "private-key"}
	words := []string{" ", "plain words\n", "é\"\\", "\U0001F600", "and so on, ", "\x01", "(", "1.5 ", "/path/to "}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		var in, want strings.Builder
		in.WriteString(`{"content":[`)
		want.WriteString(`{"content":[`)
		some := false
		for i := range 1 + r.IntN(5) {
			if i > 0 {
				in.WriteString(" ,")
				want.WriteString(" ,")
			}
			for j := range 1 + r.IntN(6) {
				part := words[r.IntN(len(words))]
				text := anyString(r, part)
				if r.IntN(5) == 0 {
					secret := slices.Sorted(maps.Keys(secrets))[r.IntN(len(secrets))]
					in.WriteString(glue(j) + strings.Trim(text, `"`) + ` ` + strings.Trim(anyString(r, secret), `"`) + ` `)
					want.WriteString(glue(j) + strings.Trim(text, `"`) + ` ` + mark(secrets[secret]) + ` `)
					some = true
				} else {
					in.WriteString(glue(j) + strings.Trim(text, `"`))
					want.WriteString(glue(j) + strings.Trim(text, `"`))
				}
			}
			in.WriteByte('"')
			want.WriteByte('"')
		}
		in.WriteString("]}")
		want.WriteString("]}")
		if !json.Valid([]byte(in.String())) {
			t.Fatalf("seed %d: the test made %s", seed, in.String())
		}
		got, counts, err := plain(t).scrub(t.Context(), rules(t), []byte(in.String()))
		if !some {
			if got != nil || len(counts) > 0 || err != nil {
				t.Fatalf("seed %d: %s\n%s %v %v", seed, in.String(), got, counts, err)
			}
		} else if err != nil || string(got) != want.String() {
			t.Fatalf("seed %d: %s\n%s, %v\nwant\n%s", seed, in.String(), got, err, want.String())
		}
	}
}

// glue returns the start of a string.
func glue(j int) string {
	if j == 0 {
		return `"`
	}
	return ""
}

// A long result is searched completely, across the parts for the library, well within a hook's
// five seconds.
func TestLong(t *testing.T) {
	var text, want strings.Builder
	for i := range 8_000 {
		line := fmt.Sprintf("line %d with a token, a key and a password in words; ", i)
		text.WriteString(line)
		want.WriteString(line)
		if i%17 == 0 {
			text.WriteString(github + "\n")
			want.WriteString("[redacted: github-pat]\n")
		}
		if i%1000 == 0 {
			text.WriteString(pem + "\n")
			want.WriteString("[redacted: private-key]\n")
		}
	}
	result := `{"content":[{"type":"text","text":` + quote(text.String()) + `}]}`
	began := time.Now()
	got, counts, err := plain(t).scrub(t.Context(), rules(t), []byte(result))
	t.Logf("%d bytes in %v, %v", len(result), time.Since(began), counts)
	if err != nil || string(got) != `{"content":[{"type":"text","text":`+quote(want.String())+`}]}` {
		t.Errorf("%v: %d bytes, want %d", err, len(got), want.Len())
	}
}

// The parts of a long result are looked through at the same time.
//
//gotest:race they are
func TestParts(t *testing.T) {
	const lines = 6
	padding := strings.Repeat("word ", part/10)
	got, counts, err := plain(t).scrub(t.Context(), rules(t), []byte(quote(strings.Repeat(padding+github+"\n", lines))))
	if err != nil || string(got) != quote(strings.Repeat(padding+mark("github-pat")+"\n", lines)) {
		t.Errorf("%d bytes, %v, %v", len(got), counts, err)
	}
}

func TestTooMany(t *testing.T) {
	var items []string
	r := rand.New(rand.NewPCG(1, 1))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range mostSecrets + 200 {
		token := []byte("ghp_")
		for range 36 {
			token = append(token, letters[r.IntN(len(letters))])
		}
		items = append(items, string(token))
	}
	_, _, err := plain(t).scrub(t.Context(), rules(t), []byte(quote(strings.Join(items, "\n"))))
	if err == nil || !strings.Contains(err.Error(), "different secrets") {
		t.Errorf("%v", err)
	}
	// A result that is too long with its marks is not returned.
	s := settings{limit: mostLimit}
	_, _, err = s.scrub(t.Context(), rules(t), []byte(`["`+github+`","`+strings.Repeat("x ", mostOut/2)+`"]`))
	if err == nil || !strings.Contains(err.Error(), "too long to be handed back") {
		t.Errorf("%v", err)
	}
}

// FuzzOffsets checks the offset of each byte of a string.
func FuzzOffsets(f *testing.F) {
	for _, quoted := range []string{`""`, `"a\n\u0041\ud83d\ude00é"`, `"\ud83d\ud83d\ude00\ude00\ud83dx\ud83d\n\ud83d\u0041"`, `"\\u0041\/\""`} {
		f.Add([]byte(quoted))
	}
	f.Fuzz(func(t *testing.T, quoted []byte) {
		pieces, err := stringsOf(quoted)
		if err != nil || len(pieces) != 1 || pieces[0].start != 0 || pieces[0].end != len(quoted) {
			return
		}
		at := offsets(quoted)
		text := pieces[0].text
		if len(at) != len(text)+1 || at[len(text)] != len(quoted)-1 {
			t.Fatalf("%s: %d offsets of %q", quoted, len(at), text)
		}
		i := 0
		for _, c := range text {
			from, to := at[i], at[i+len(string(c))]
			one, _ := jsontext.AppendUnquote(nil, append(append([]byte{'"'}, quoted[from:to]...), '"'))
			if string(one) != string(c) {
				t.Fatalf("%s: at %d is %q, want %q", quoted, i, one, c)
			}
			i += len(string(c))
		}
	})
}
