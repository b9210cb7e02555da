package facts

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The automaton finds the same as a search for each single word.
func TestAutomatonFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.SampledFrom([]rune("abA_-."))
		words := rapid.SliceOfNDistinct(rapid.Map(rapid.StringOfN(letter, 1, 5, -1), strings.ToLower), 1, 8, rapid.ID).Draw(t, "words")
		text := rapid.StringOfN(letter, 0, 60, -1).Draw(t, "text")
		var got, want []string
		newAutomaton(words).scan([]byte(text), func(word, end int) { got = append(got, fmt.Sprint(words[word], end)) })
		lower := strings.ToLower(text)
		for _, w := range words {
			for i := 0; i+len(w) <= len(lower); i++ {
				if lower[i:i+len(w)] == w {
					want = append(want, fmt.Sprint(w, i+len(w)))
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("words %q in %q: got %q, want %q", words, text, got, want)
		}
	})
}

// Each borrowed rule compiles, and its computed properties hold.
func TestBorrowedRules(t *testing.T) {
	if len(borrowed) < 200 {
		t.Errorf("%d rules, want at least 200", len(borrowed))
	}
	seen := map[string]bool{}
	for i := range borrowed {
		c := compiled{rule: &borrowed[i]}
		c.ready()
		if seen[c.id] {
			t.Errorf("%s is there twice", c.id)
		}
		seen[c.id] = true
		for _, k := range c.keywords {
			if k != strings.ToLower(k) || k == "" {
				t.Errorf("%s: keyword %q", c.id, k)
			}
		}
		for _, h := range c.heads {
			if !slices.ContainsFunc(c.keywords, func(k string) bool { return strings.HasPrefix(strings.ToLower(h), k) }) {
				t.Errorf("%s: head %q begins with none of %q", c.id, h, c.keywords)
			}
		}
	}
	for _, left := range []string{"generic-api-key", "private-key", "discord-client-id"} {
		if seen[left] {
			t.Errorf("%s was to be left out", left)
		}
	}
}

// A rule finds the texts that its expression generates, inside other text and wherever a window
// may begin or end.
func TestRulesFindTheirOwn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	token := func(n int, letters string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	const lower, hex, all = "abcdefghijklmnopqrstuvwxyz0123456789", "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for id, make := range map[string]func() string{
		"github-pat":             func() string { return "ghp_" + token(36, all) },
		"npm-access-token":       func() string { return "npm_" + token(36, lower) },
		"databricks-api-token":   func() string { return "dapi" + token(32, hex) },
		"openai-api-key":         func() string { return "sk-proj-" + token(74, all) + "T3BlbkFJ" + token(74, all) },
		"hashicorp-tf-api-token": func() string { return token(14, lower) + ".atlasv1." + token(64, lower) },
		"azure-ad-client-secret": func() string { return "aB3" + "8Q~" + token(32, all) },
		"discord-api-token":      func() string { return "discord_key = '" + token(64, hex) + "'" },
		"datadog-access-token":   func() string { return "DATADOG_KEY=" + token(40, lower) },
		"maxmind-license-key":    func() string { return token(6, all) + "_" + token(29, all) + "_mmk" },
		"jwt":                    func() string { return "eyJ" + token(700, all) + ".eyJ" + token(900, all) + "." + token(43, all) },
		"sourcegraph-access-token": func() string {
			return "sourcegraph: " + token(40, hex)
		},
	} {
		for _, pad := range []int{0, 1, 59, 158, 161, 599, 601, 5000} {
			text := strings.Repeat(". ", pad) + make() + strings.Repeat(" .", pad)
			left := budget
			var got []find
			s := scan{engine: theEngine(), text: []byte(text), budget: &left, secret: func(f find) bool {
				got = append(got, f)
				return true
			}}
			if !s.run() || len(got) == 0 {
				t.Errorf("%s, %d bytes before: got nothing in %.100s", id, 2*pad, strings.Trim(text, " ."))
				continue
			}
			if !slices.ContainsFunc(got, func(f find) bool { return f.kind == id }) {
				t.Errorf("%s: found as %v", id, got)
			}
		}
	}
}

func TestFolded(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\r\n": "plain\ttext\r\n", "ｆｕｌｌ": "full", "𝗯𝗼𝗹𝗱": "bold", "ﬁle": "file", "ⓐ": "a", "a\u200bb\u00adc\ufeffd": "abcd", "\x1b[1;31mred\x1b[0m": "red",
		"\x1b]8;;http://x\x07link": "link", "\x1b": "", "a\x00b\x07": "ab", "é": "é", "日本": "日本", "x\u202ey": "xy", "a\ufe0f": "a", "\xff": "\xff", "\x1b[": "", "K": "K",
	} {
		got, _, same := folded([]byte(in))
		if string(got) != want || same != (in == want) {
			t.Errorf("%q: got %q (same: %v), want %q", in, got, same, want)
		}
	}
}

func TestPercentDecoded(t *testing.T) {
	for in, want := range map[string]string{"%41": "A", "%2541": "A", "%252541": "A", "%25252541": "%41", "100%": "100%", "%zz%41": "%zzA", "%4": "%4", "": ""} {
		got, changed := percentDecoded([]byte(in))
		if string(got) != want || changed != (in != want) {
			t.Errorf("%q: got %q %v, want %q", in, got, changed, want)
		}
	}
}

func TestBase64Value(t *testing.T) {
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for n := range 300 {
			in := noise(n)
			if got := decodeBase64(nil, []byte(e.EncodeToString(in))); !slices.Equal(got, in) {
				t.Errorf("got %x, want %x", got, in)
			}
		}
	}
}

// A run that decodes mostly to text is decoded, wherever the other bytes are.
func TestTextIsDecoded(t *testing.T) {
	for n := 18; n < 600; n += 7 {
		for odd := range n/10 + 2 {
			in := slices.Concat(slices.Repeat([]byte{1}, odd), slices.Repeat([]byte{'x'}, n-odd))
			run := []byte(base64.RawStdEncoding.EncodeToString(in))
			if looksLikeText(in) != (odd <= n/10) || looksLikeText(in) && !mayDecodeToText(run) {
				t.Errorf("%d bytes of which %d are odd: looks like text %v, is decoded %v", n, odd, looksLikeText(in), mayDecodeToText(run))
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string]string{
		"delete_note": "delete note", "deleteNote": "delete note", "HTTPServerKey": "http server key", "API_KEY": "api key", "apiKey2Value": "api key2 value", "a--b..c/d e": "a b c d e", "": "",
		"ID": "id", "_x_": "x", "getÄpfel": "getÄpfel", "one two three four five six seven eight nine ten eleven twelve thirteen": "two three four five six seven eight nine ten eleven twelve thirteen",
	} {
		w := split([]byte(in))
		var got []string
		for i := range w.n {
			got = append(got, string(w.word(i)))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: got %q, want %q", in, s, want)
		}
	}
	if w := split([]byte(strings.Repeat("x", 500) + "_password")); string(w.word(-1)) != "password" {
		t.Errorf("the end of a long name: got %q", w.word(-1))
	}
}

func TestWalkKnowsWhereItIs(t *testing.T) {
	var p paths
	w := walk{raw: []byte(`{"a":1,"b":{"c":[true,{"d":"x"},["y"]]},"e\u002ff":null,"":[[]],"g":{}}`)}
	if err := w.run(&p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(paths{"a", "b.c[0]", "b.c[1].d", "b.c[2][0]", "e/f"}, p); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "{", `{"a"`, `{"a":}`, "[1,]", "1 2", "{} x", "nul"} {
		w := walk{raw: []byte(bad)}
		if err := w.run(&p); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

type paths []string

func (p *paths) member(*walk, span)                     {}
func (p *paths) enter(*walk) bool                       { return true }
func (p *paths) value(w *walk, _ jsontext.Kind, _ span) { *p = append(*p, w.path()) }
func (p *paths) pair(*walk, span, span)                 {}

// A member's name could be a secret, and people see the path of a text.
func TestPathsHoldNoSecrets(t *testing.T) {
	token := "ghp_" + body[:36]
	for _, f := range finder().Of(context.Background(), callTo("x", `{"`+token+`":{"password":"hunter2"}}`)) {
		if strings.Contains(f.Member+f.Detail, token) {
			t.Errorf("%v tells the secret", f)
		}
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range []string{kilobyte, `{"command":"cat ~/.ssh/id_rsa; export A_TOKEN=1a2b3c4d5e6f"}`, `{"a":"\ud83d\ude00 https://a:b@c \u001b[3"}`,
		`{"q":"Bearer ` + body + `","x":["-----BEGIN PRIVATE KEY-----"],"name":"password","value":{}}`, `"password\\\": \\\"x"`, `{"p":"file://%2e%2e/*[/$HOME/~"}`} {
		f.Add("run_tool", s)
	}
	finder := New(Options{Home: "/home/u", Ours: func() []string { return []string{"/home/u/.config/thoughtgate"} }})
	f.Fuzz(func(t *testing.T, tool, args string) {
		facts := finder.Of(context.Background(), callTo(tool, args))
		again := finder.Of(context.Background(), callTo(tool, args))
		if diff := cmp.Diff(facts, again); diff != "" {
			t.Fatalf("two looks at %q differ:\n%s", args, diff)
		}
		if len(facts) > 5*maxFactsPerName {
			t.Fatalf("%d facts", len(facts))
		}
	})
}

// The engine finds all that any rule finds in the whole text: keywords, windows and the
// properties of rules lose nothing.
func TestEngineFindsWhatRulesFind(t *testing.T) {
	for i := range borrowed {
		r := &borrowed[i]
		whole := compiled{rule: &rule{id: r.id, expr: r.expr, entropy: r.entropy, group: r.group, allow: r.allow, allowMatch: r.allowMatch}}
		samples := rapid.StringMatching(strings.NewReplacer(`\b`, "", `\B`, "", `|\z`, "", `|$`, "", `$|`, "", "^|", "").Replace(r.expr))
		tried := 0
		for seed := range 12 {
			sample := ""
			func() {
				defer func() { _ = recover() }() // the generator gives up on some
				sample = samples.Example(seed)
			}()
			text, _, _ := folded([]byte("value: " + strings.ToValidUTF8(sample, "?") + "\nend"))
			hasKeyword := slices.ContainsFunc(r.keywords, func(k string) bool { return containsFold(text, k) })
			if _, _, ok := whole.match(text, 0, len(text)); !ok || !hasKeyword || len(text) > 2000 {
				continue
			}
			tried++
			left, found := budget, false
			s := scan{engine: theEngine(), text: text, budget: &left, secret: func(find) bool { found = true; return false }}
			if s.run(); !found {
				t.Errorf("%s: nothing found in %q", r.id, text)
			}
		}
		if tried == 0 {
			t.Logf("%s: no sample", r.id)
		}
	}
}
