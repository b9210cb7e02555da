package uri

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Reading{
		"":                                   {"", "", "", ""},
		"file:///a/b":                        {"file", "", "/a/b", "file:///a/b"},
		"FILE://LocalHost/a//b/./c/../d":     {"file", "", "/a/b/d", "file:///a/b/d"},
		"file:/etc/x":                        {"file", "", "/etc/x", "file:/etc/x"},
		"file:///a%2f..%2Fetc":               {"file", "", "/etc", "file:///etc"},
		"file:///a%zz":                       {"file", "", "/a%zz", "file:///a%zz"},
		"file:///%65tc/%zz/../x":             {"file", "", "/etc/x", "file:///etc/x"},
		"https://u:p@EX.org:8080/a?b=../c#d": {"https", "ex.org", "/a", "https://u:p@ex.org:8080/a?b=../c#d"},
		"http://[::1]:80/x":                  {"http", "::1", "/x", "http://[::1]:80/x"},
		"note://My Note/x":                   {"note", "my note", "/x", "note://My Note/x"},
		"memo:today":                         {"memo", "", "today", "memo:today"},
		"no scheme/../x":                     {"", "", "x", "x"},
		"/abs/./path/":                       {"", "", "/abs/path/", "/abs/path/"},
		"c:\\x":                              {"c", "", "\\x", "c:\\x"},
		"file:///{path}":                     {"file", "", "/{path}", "file:///{path}"},
		"..":                                 {"", "", "..", ".."},
	} {
		if got := Parse(text); got != want {
			t.Errorf("Parse(%q):\ngot  %+v\nwant %+v", text, got, want)
		}
	}
}

func TestTidy(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "memo:today": "memo:today", "note://My Note/x": "note://my note/x", "no scheme/../x": "x",
		// Files.
		"file:/etc/x": "file:///etc/x", "file:etc/x": "file:///etc/x", "file://127.0.0.1/etc/x": "file:///etc/x",
		"file://localhost./etc/x": "file:///etc/x", "file:////etc/x": "file:///etc/x", `file:\\\etc\x`: "file:///etc/x",
		`file:\etc\x`: "file:///etc/x", "file://0x7f.1/etc/x": "file:///etc/x", "file://[::1]/etc/x": "file:///etc/x",
		"\u00a0 file:///etc/x\ufeff": "file:///etc/x", "fi\tle:///e\ntc/\rx": "file:///etc/x", "FiLe:///etc/x?y#z": "file:///etc/x",
		"file:///etc%252fx": "file:///etc/x", "file:///etc/%252e%252e/x": "file:///x", `file:///a%5c..%5cx`: "file:///x",
		"file:///etc/x%00.txt": "file:///etc/x", "/etc/x": "file:///etc/x", `\etc\x`: "file:///etc/x", "file://Server/x": "file://server/x",
		// Hosts.
		"http:a.org/x": "http://a.org/x", "http:/a.org/x": "http://a.org/x", "http:////a.org/x": "http://a.org/x", `https:\\a.org\x`: "https://a.org/x",
		"https://u:p@A.org:443/x": "https://a.org/x", "http://a.org:0080": "http://a.org/", "https://a.org:8443/x": "https://a.org:8443/x",
		"https://a.org./x": "https://a.org/x", "https://ａ．ｏｒｇ/x": "https://a.org/x", "https://a。org/x": "https://a.org/x",
		"https://a%2eorg/x": "https://a.org/x", "https://a\u00ad.org/x": "https://a.org/x", `https://a.org\@b.org/`: "https://a.org/@b.org/",
		"https://bücher.org/": "https://xn--bcher-kva.org/", "https://a.org/x?y#z": "https://a.org/x?y", "http://a.org:/x": "http://a.org/x",
		"file://localhost:80/x": "file:///x", "file://:1/x": "file:///x", "http://a.org:+8_0 /x": "http://a.org/x", "http://a.org:８０/x": "http://a.org/x",
		"http://a.org:8_1/x": "http://a.org:81/x", "http://a.org%00.b.org/x": "http://a.org/x", "http://a.org%20/x": "http://a.org/x",
		// Addresses.
		"http://3405803783/": "http://203.0.113.7/", "http://0xcb007107": "http://203.0.113.7/", "http://0313.0.0161.7/": "http://203.0.113.7/",
		"http://203.28935/": "http://203.0.113.7/", "http://[::ffff:203.0.113.7]/": "http://203.0.113.7/", "http://[0:0::1]:8080/": "http://[::1]:8080/",
		"http://２０３.0.113.7/": "http://203.0.113.7/", "http://1.2.3.4.5/": "http://1.2.3.4.5/", "http://256.1/": "http://256.1/", "http://09/": "http://09/",
	} {
		got := Tidy(text)
		if got.Text != want {
			t.Errorf("Tidy(%q): got %q, want %q", text, got.Text, want)
		}
		if again := Tidy(got.Text); again.Text != want {
			t.Errorf("Tidy(%q) is not tidy: it becomes %q", got.Text, again.Text)
		}
	}
}

func TestSpellings(t *testing.T) {
	for text, want := range map[string][]string{
		"file:///a/b":           {"file:///a/b"},
		"https://a.org/x?y":     {"https://a.org/x?y"},
		"memo:today":            {"memo:today"},
		"file://share/My Files": {"file://share/My Files", "file://share/My%20Files", "file:///My Files", "file:///My%20Files"},
		"https://bücher.org/":   {"https://bücher.org/", "https://xn--bcher-kva.org/"},
		"https://faß.org/":      {"https://faß.org/", "https://xn--fa-hia.org/", "https://fass.org/"},
		"<URL:file:///a/b>":     {"<URL:file:///a/b>", "<URL:file:/a/b>", "file:///a/b", "%3CURL:file:/a/b%3E"},
		"file%3a%2f%2f/a":       {"file%3a%2f%2f/a", "file:/a", "file:///a"},
		"http://[::1]/":         {"http://[::1]/"}, "http://1.2.3.4/": {"http://1.2.3.4/"}, "http://0.0.0.0/": {"http://0.0.0.0/"},
		"file:///proc/self/status": {"file:///proc/self/status"}, "file:///a/proc/1/root/b": {"file:///a/proc/1/root/b"},
		"//a.org/b": {"//a.org/b", "file://a.org/b", "file:///b", "http://a.org/b", "https://a.org/b"},
		"https://xn--bcher-kva.org/a/../b": {
			"https://xn--bcher-kva.org/a/../b", "https://xn--bcher-kva.org/b", "https://bücher.org/b",
		},
	} {
		if got := Spellings(text); !slices.Equal(got, want) {
			t.Errorf("Spellings(%q):\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// The spellings of a URI that is wrapped, or that parsers read differently, include where it
// leads.
func TestSpellingsHold(t *testing.T) {
	for text, want := range map[string]string{
		`https://a.org\@b.org/x`:    "https://b.org/x",
		`https://a.org\@b.org/y`:    "https://a.org/@b.org/y",
		"<URL:HTTPS://A.org:443/x>": "https://a.org/x",
		"view-source:file:///a":     "file:///a",
		"blob:https://a.org/x":      "https://a.org/x",
		"filesystem:file:///a":      "file:///a",
		"feed:https://a.org/x":      "https://a.org/x",
		"jar:file:///a":             "file:///a",
		// Embedded addresses, and numbers that parsers read differently.
		"http://[::169.254.169.254]/x":        "http://169.254.169.254/x",
		"http://[::a9fe:a9fe]/x":              "http://169.254.169.254/x",
		"http://[64:ff9b::169.254.169.254]/x": "http://169.254.169.254/x",
		"http://[64:ff9b::a9fe:a9fe]/":        "http://[64:ff9b::a9fe:a9fe]/",
		"http://[64:ff9b:0::a9fe:a9fe]/y":     "http://[64:ff9b::a9fe:a9fe]/y",
		"http://[2002:a9fe:a9fe::1]/x":        "http://169.254.169.254/x",
		"http://425.510.425.510/x":            "http://169.254.169.254/x",
		"http://7147006462/x":                 "http://169.254.169.254/x",
		"http://0169.0254.0169.0254/x":        "http://169.254.169.254/x",
		"http://0251.0376.0251.0376/x":        "http://169.254.169.254/x",
		"http://0177.0.0.1/x":                 "http://177.0.0.1/x",
		"http://0177.0.0.1/y":                 "http://127.0.0.1/y",
		// WebSockets.
		"wss://a.org:443/x": "https://a.org/x",
		"WSS://a.org/x":     "wss://a.org/x",
		"ws://a.org/x":      "http://a.org/x",
		// Paths through /proc.
		"file:///proc/self/root/etc/x":                "file:///etc/x",
		"file:///proc/self/root/../etc/x":             "file:///etc/x",
		"file:///proc/self/../1234/root/etc/x":        "file:///etc/x",
		"file:///proc/1/cwd/../../etc/x":              "file:///etc/x",
		"file:///proc/thread-self/root/etc/x":         "file:///etc/x",
		"file:///proc/thread-self/../../root/etc/x":   "file:///etc/x",
		"file:///proc/self/task/12/root/etc/":         "file:///etc/",
		"file:///dev/fd/../root/etc/x":                "file:///etc/x",
		"file:///dev/fd/../..":                        "file:///proc",
		"/proc/self/root/proc/self/root/etc/x":        "file:///etc/x",
		"file:///proc%2fself/%72oot/%252e%252e/etc/x": "file:///etc/x",
		"file://h/proc/self/root/a b":                 "file:///a%20b",
	} {
		if got := Spellings(text); !slices.Contains(got, want) {
			t.Errorf("Spellings(%q) lacks %q: %q", text, want, got)
		}
	}
}

func FuzzSpellings(f *testing.F) {
	for _, text := range []string{"file:/x", `\\a\b`, "http://u@[::1]:1/%2e", "<url:file%3a//fa\u00df%2f:+8_0/x>", "//\u00df\\@\u00df%2fb/%20", "://", "http://%zz/%", "wss://0777.1@[64:ff9b::1]", "//0400.0/proc/self/root/\u00df%2f"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := Spellings(text); got[0] != text || len(got) > 100 {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func BenchmarkSpellings(b *testing.B) {
	for b.Loop() {
		Spellings("file:///home/ann/projects/thing/README.md")
	}
}

// A server is the same one as long as its origin and path are, however they are written. What may be
// secret is no part of that.
func TestIdentity(t *testing.T) {
	for text, want := range map[string]string{
		"https://MCP.test":                       "https://mcp.test/",
		"https://mcp.test:443/?key=s#f":          "https://mcp.test/",
		"https://user:pass@mcp.test/a%2Fb?x":     "https://mcp.test/a%2Fb",
		"http://mcp.test:443/mcp":                "http://mcp.test:443/mcp",
		"https://mcp.test/MCP":                   "https://mcp.test/MCP",
		"http://[::1]:80/x":                      "http://[::1]/x",
		"unix:///run/s.sock":                     "unix:///run/s.sock#/",
		"unix:///run/s.sock#mcp":                 "unix:///run/s.sock#/mcp",
		"https://b\u00fccher.test/x":             "https://xn--bcher-kva.test/x",
		"https://mcp.test\n.evil.test":           "",
		"https:mcp.test":                         "",
		"file:///etc/passwd":                     "",
		"https://h/" + strings.Repeat("x", 9000): "",
	} {
		s, err := ParseServer(text)
		got := ""
		if err == nil {
			got = s.Identity()
		}
		if got != want {
			t.Errorf("%.100q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
