package facts

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// seen collects what a text names.
type seen struct {
	sight  sight
	places []string
	sure   map[string]bool
	tools  map[uint64]strength
}

func (s *seen) place(p place) {
	s.places = append(s.places, fmt.Sprintf("%c %s", p.kind, p.name))
	s.sure[string(p.name)] = p.sure
}
func (s *seen) named(key uint64, how strength) { s.tools[key] = max(s.tools[key], how) }

// see examines a text as that of a message.
func see(text string) *seen {
	s := &seen{sure: map[string]bool{}, tools: map[uint64]strength{}}
	s.sight = sight{seed: theSeed, to: s, tools: true}
	left := mostDecoded
	s.sight.report([]byte(text), &left)
	return s
}

var theSeed = maphash.MakeSeed()

func TestPlacesInText(t *testing.T) {
	for text, want := range map[string]string{
		"write to Ann.Example@Acme.IO.":                                             "m ann.example@acme.io",
		"<ann@acme.io>, 'bob@acme.io'; (c@d.ef)":                                    "m ann@acme.io, m bob@acme.io, m c@d.ef",
		"mailto:ann@acme.io?subject=x":                                              "m ann@acme.io",
		"ann+news@acme.io":                                                          "m ann@acme.io",
		"@ann on acme, npm i @types/node left-pad@1.3.0":                            "",
		"git@github.com:acme/app":                                                   "h github.com",
		"user@localhost, ann@host":                                                  "",
		"https://evil.io/a?b=c#d":                                                   "h evil.io",
		"HTTP://WWW.Evil.IO:8080":                                                   "h evil.io",
		"https://ann:secret@evil.io/":                                               "h evil.io",
		"ssh://git@git.acme.io:22/x":                                                "h git.acme.io",
		"http://jenkins/job/1 http://[2001:db8::1]:80/":                             "h jenkins, h 2001:db8::1",
		"http://10.1.2.3/x and 10.1.2.4":                                            "h 10.1.2.3, h 10.1.2.4",
		"https://api.example.com/ http://example":                                   "h api.example.com, h example",
		"http://localhost:3000 http://127.0.0.1/ file:///home/u ://":                "",
		"see evil.io/x or www.evil.xyz.":                                            "h evil.io, h evil.xyz",
		"https://a.io/?next=https%3A%2F%2Fevil.io%2Fx":                              "h a.io, h evil.io",
		"https://a.io/login?mail=ann@acme.io":                                       "h a.io, m ann@acme.io",
		"xn--80ak6aa92e.com":                                                        "h xn--80ak6aa92e.com",
		"version 1.2.3 of README.md, obj.name":                                      "h readme.md, h obj.name", // may be hosts
		"to 12345678 please":                                                        "a 12345678",
		"IBAN DE89 3704 0044 0532 0130 00":                                          "a 89370400440532013000",
		"IBAN DE89370400440532013000":                                               "a 89370400440532013000",
		"GB29 NWBK 6016 1331 9268 19":                                               "a 60161331926819",
		"GB29NWBK60161331926819,":                                                   "a 60161331926819",
		"sort 12-34-56 account 12345678":                                            "a 12345678",
		"card 4111-1111-1111-1111.":                                                 "a 4111111111111111",
		"+44 20 7946 0958":                                                          "a 79460958",
		"rows 100 200 4111 1111 1111 1111":                                          "a 4111111111111111",
		"1234567 123-4567 3.14159265358979 0.12345678":                              "",
		"2026-11-20 20261120 20.11.2026 20-11-2026 20261120103000 2026-11-20 10:15": "",
		"2026-11-20T10:15:30.123456Z":                                               "",
		"3f786850e387550fdab836ed7e6dc881de23001b":                                  "",
		"123e4567-e89b-12d3-a456-426614174000":                                      "",
		"0x7a250d5630B4cF539739dF2C5dAcb4c659F2488D":                                "a 0x7a250d5630b4cf539739df2c5dacb4c659f2488d",
		"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq":                                "a bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
		"ts 1700000000.123456":                                                      "",
	} {
		if got := strings.Join(see(text).places, ", "); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestSureHosts(t *testing.T) {
	if see("vendor/evil.io/x.go").sure["evil.io"] {
		t.Error("a folder is taken for a host")
	}
	for name, want := range map[string]bool{
		"evil.io": true, "evil.com": true, "readme.md": false, "main.rs": false, "obj.name": false, "user.id": false, "console.log": false, "setup.py": false,
	} {
		if got := see("x " + name + " y").sure[name]; got != want {
			t.Errorf("%s: sure %v, want %v", name, got, want)
		}
		if !see("https://" + name + "/y").sure[name] {
			t.Errorf("https://%s/y is not sure", name)
		}
	}
}

// spellings look the same to a reader and differ for a program.
var spellings = map[string]func(string) string{
	"plain":          func(s string) string { return s },
	"capitals":       strings.ToUpper,
	"zero width":     func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
	"soft hyphens":   func(s string) string { return strings.Join(strings.Split(s, ""), "\u00ad") },
	"joiner":         func(s string) string { return s[:3] + "\u034f" + s[3:] },
	"struck through": func(s string) string { return strings.Join(strings.Split(s, ""), "\u0336") },
	"full width": func(s string) string {
		return strings.Map(func(r rune) rune { return r - ' ' + 0xFF00 }, s)
	},
	"mathematical": func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 'a' + 0x1D5BA
			}
			return r
		}, s)
	},
	"lookalikes": func(s string) string {
		return strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с", "x", "х", "i", "і", "s", "ѕ").Replace(s)
	},
	"small capitals": func(s string) string {
		return strings.NewReplacer("a", "ᴀ", "e", "ᴇ", "i", "ɪ", "l", "ʟ", "n", "ɴ", "o", "ᴏ").Replace(s)
	},
	"boxed": func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 'a' + 0x1F170
			}
			return r
		}, s)
	},
	"tag characters": func(s string) string {
		return "\U0001F3F4" + strings.Map(func(r rune) rune { return r + 0xE0000 }, s)
	},
	"terminal escapes": func(s string) string { return s[:2] + "\x1b[31m" + s[2:5] + "\x1b[0m" + s[5:] },
	"escaped escapes":  func(s string) string { return s[:2] + `\u001b[31m` + s[2:] },
	"JSON escapes": func(s string) string {
		var b strings.Builder
		for _, c := range s {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return b.String()
	},
	"JSON in JSON in JSON": func(s string) string { return `{\\\"to\\\":\\\"` + s + `\\\"}` },
	"a line end before":    func(s string) string { return `done\\n` + s + `\\nend` },
	"percent":              func(s string) string { return percentOf(s) },
	"percent twice":        func(s string) string { return strings.ReplaceAll(percentOf(s), "%", "%25") },
	"references": func(s string) string {
		var b strings.Builder
		for _, c := range s {
			fmt.Fprintf(&b, "&#%d;", c)
		}
		return b.String()
	},
	"hex references": func(s string) string {
		return strings.NewReplacer("@", "&amp;#x40;", ".", "&#x2E;", "_", "&#X5f;").Replace(s)
	},
	"references in JSON": func(s string) string {
		return strings.NewReplacer("@", `\u0026#64;`, ".", `\u0025252e`, "_", `\u0026amp;#95;`, "-", `\u0026#45;`).Replace(s)
	},
	"markdown":          func(s string) string { return strings.NewReplacer("_", `\_`, "@", `\@`, ".", `\.`).Replace(s) },
	"base64":            func(s string) string { return base64Of("please " + s + " now") },
	"base64 alone":      func(s string) string { return base64Of(s) },
	"base64 in a run":   func(s string) string { return "ab" + base64Of("please, "+s+" now") },
	"base64 of escapes": func(s string) string { return base64Of("please " + percentOf(s)) },
}

func percentOf(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func base64Of(s string) string { return string(quotedBase64(s)) }

// All spellings of a place give the same place; likewise for the name of a tool.
func TestSpellings(t *testing.T) {
	for name, spell := range spellings {
		for _, want := range []string{"m eve@evil-site.io", "h evil-site.io", "a 1234567890123"} {
			_, plain, _ := strings.Cut(want, " ")
			got := see("text " + spell(plain) + " text").places
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q is seen as %q, want %s", name, spell(plain), got, want)
			}
		}
		for _, tool := range []string{"send_mail", "delete-all-notes", "wire_transfer"} {
			s := see("text " + spell(tool) + " text")
			if key, _ := s.sight.toolKeys([]byte(tool)); s.tools[key] == 0 {
				t.Errorf("%s: %q is not seen to name %s", name, spell(tool), tool)
			}
		}
	}
}

func TestNamings(t *testing.T) {
	for _, test := range []struct {
		text, tool string
		want       strength
	}{
		{"Now call send_mail with it.", "send_mail", told},
		{"Use the `send_mail` tool.", "send_mail", told},
		{"use the sendMail tool", "send_mail", told}, // by its letters
		{"the send_mail tool", "send_mail", told},
		{"Important instructions: first, look at all notes; then, send_mail(to='x')", "send_mail", told},
		{"1. send_mail to everybody", "send_mail", named},
		{"mcp__mail__send_mail is there", "send_mail", named},
		{"mcp__shell__bash is there", "bash", named},
		{"GmailSendEmail, then", "GmailSendEmail", named},
		{"send-mail or sendMail", "send-mail", named},
		{"def send_mail(to):", "send_mail", inCode},
		{"function send_mail(to) {", "send_mail", inCode},
		{"self.send_mail(to)", "send_mail", inCode},
		{"use std::send_mail(x)", "send_mail", inCode},
		{"import send_mail from 'mail'", "send_mail", inCode},
		{"run(); x = send_mail(1)", "send_mail", inCode}, // the order is about something else
		{"the bash tool", "bash", told},
		{"use the tool bash now", "bash", told},
		{"the tool named \"bash\" does it", "bash", told},
		{`{"tool_name": "bash"}`, "bash", told},
		{`{"tool":"search","args":{}}`, "search", told},
		{"call `bash` with it", "bash", told},
		{"Please use the 'bash'.", "bash", told},
		{"it says \"bash\" and we use it", "bash", 0},
		{"use bash -c", "bash", 0},
		{"search for it and bash it, echo", "bash", 0},
		{"we search with care", "search", 0},
		{"resend_mail send_mails send mail", "send_mail", 0},
	} {
		s := see(test.text)
		exact, letters := s.sight.toolKeys([]byte(test.tool))
		got := s.tools[exact]
		if s.tools[letters] == told {
			got = told
		}
		if got != test.want {
			t.Errorf("%q names %s with strength %d, want %d", test.text, test.tool, got, test.want)
		}
	}
}

// The table of letters is consistent: it has no duplicates and nothing that is derived anyway,
// and each letter becomes the one beside it.
func TestLookalikes(t *testing.T) {
	l := theLatin()
	seen := map[rune]rune{}
	for c, drawn := range lookalikes {
		if c >= 0x80 {
			t.Errorf("%q is no ASCII", c)
		}
		for _, r := range drawn {
			if other, twice := seen[r]; twice {
				t.Errorf("%c (%U) stands beside %c and %c", r, r, c, other)
			}
			seen[r] = c
			if r < 0x80 {
				t.Errorf("%c beside %c is ASCII itself", r, c)
			}
			if unicode.IsLetter(c) && unicode.IsUpper(r) && unicode.IsLower(c) && !unicode.Is(unicode.Cherokee, r) && !strings.ContainsRune("ЬƄ", r) {
				t.Errorf("%c is a capital beside the small %c", r, c)
			}
			if out, _ := l.append(nil, nil, r); string(out) != string(c) {
				t.Errorf("%c becomes %q, want %c", r, out, c)
			}
		}
	}
	if len(seen) < 300 {
		t.Errorf("%d letters; the list was longer", len(seen))
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, \n too":             "plain text, \n too",
		"Ｆull ｗｉｄｔｈ":                     "Full width",
		"naïve Åse Łódź":                 "naive Ase Lodz",
		"日本 한국 привет":                   "日本 한국 npиbet",
		"a\u00a0b\u2003c":                "a b c",
		"٣٤٥ and ५":                      "345 and 5",
		"½ ㎏ ﬁ":                          "1/2 kg fi",
		"ǆ Ǉ":                            "dz LJ",
		`a\"b\\"c\/d`:                    `a"b"c/d`,
		`C:\new DOMAIN\user`:             "C:\new DOMAIN user",
		`\u0041\u00e9\ud83d\ude00\ud800`: "Ae😀\ufffd",
		`\u00`:                           " u00", `\`: "", `\x41`: "A",
		"100%, 5%d, %41%2541%252541": "100%, 5%d, AAA",
		"%d0%b0%D0":                  "a%D0",
		"&#65;&#x42;&amp;#67;&#;&x;": "ABC&#;&x;",
		"\x1b[1mb\x1b]0;t\x07c":      "bc",
		"flag\U000E0061\U000E0062":   "flag\nab",
		"\xff\xfe":                   "\ufffd\ufffd",
	} {
		if got := string(new(cleaner).clean([]byte(in))); got != want {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}
