package config

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, text string
		want       bool
	}{
		{"*", "", true},
		{"*", "a/b\nc", true},
		{"delete_*", "delete_", true},
		{"delete_*", "delete_repo", true},
		{"delete_*", "Delete_repo", false},
		{"delete_*", "undelete_repo", false},
		{"read", "read", true},
		{"read", "reads", false},
		{"read", "", false},
		{"?", "é", true},
		{"?", "", false},
		{"?", "ab", false},
		{"a?c", "a/c", true},
		{"file:///*", "file:///etc/passwd", true},
		{"*/mcp-server *", "/usr/bin/mcp-server /home/u", true},
		{"*a*b", "xaxxb", true},
		{"*a*b", "xbxxa", false},
		{"*aab", "aaab", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"[abc]x", "bx", true},
		{"[abc]x", "dx", false},
		{"[!abc]x", "dx", true},
		{"[!abc]x", "ax", false},
		{"[!abc]x", "/x", true},
		{"[a-c]", "b", true},
		{"[a-c]", "d", false},
		{"[а-я]", "ж", true},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[!]]", "x", true},
		{"[*]", "*", true},
		{"[*]", "x", false},
		{"[a-]", "-", true},
		{"[-a]", "-", true},
		{"x*[ab]", "xzzb", true},
		{"x*[ab]", "xb", true},
		{"x*[ab]", "xzzc", false},
		{"*[0-9][0-9]*", "ab12cd", true},
		{"*[0-9][0-9]*", "a1b2cd", false},
		{"{id}/x", "{id}/x", true},
		{"x]", "x]", true},
	} {
		g, err := NewGlob(test.glob)
		if err != nil {
			t.Errorf("NewGlob(%q): %v", test.glob, err)
			continue
		}
		if got := g.Match(test.text); got != test.want {
			t.Errorf("glob %q, text %q: got %v, want %v", test.glob, test.text, got, test.want)
		}
	}
	if (Glob{}).Match("") || (Glob{}).Match("x") {
		t.Error("the zero Glob matches something")
	}
}

func TestGlobRefused(t *testing.T) {
	for glob, want := range map[string]string{
		"":                         "matches nothing",
		"[abc":                     "unclosed",
		"[":                        "unclosed",
		"[]":                       "unclosed",
		"[!]":                      "unclosed",
		"[^a]":                     "[!...]",
		"[z-a]":                    "reversed",
		"{read,list}_*":            "list",
		"\xff":                     "UTF-8",
		strings.Repeat("a", 1<<11): "the maximum is",
	} {
		_, err := NewGlob(glob)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewGlob(%.20q): got %v, want an error with %q", glob, err, want)
		}
	}
}

// A pattern that causes backtracking must not cost more than any other.
func TestGlobIsLinear(t *testing.T) {
	for _, pattern := range []string{strings.Repeat("*a", 500) + "*b", strings.Repeat("*[ab]", 200) + "?c", strings.Repeat("?*", 500)} {
		g, err := NewGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("a", 1<<20)
		start := time.Now()
		g.Match(text)
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%.12q... took %v for 1 MiB", pattern, d)
		}
	}
}

// naive returns the same as Match by trying all possibilities.
func naive(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	p, size := utf8.DecodeRuneInString(pattern)
	if p == '*' {
		for i := 0; i <= len(text); i++ {
			if (i == len(text) || utf8.RuneStart(text[i])) && naive(pattern[1:], text[i:]) {
				return true
			}
		}
		return false
	}
	if text == "" {
		return false
	}
	r, n := utf8.DecodeRuneInString(text)
	ok := p == r
	switch p {
	case '?':
		ok = true
	case '[':
		c, length, err := readClass(pattern)
		if err != nil {
			return false
		}
		ok, size = c.has(r), length
	}
	return ok && naive(pattern[size:], text[n:])
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"delete_*", "delete_x"}, {"*a*b?c", "xaxbxc"}, {"[!a-c]*[x]", "dzx"}, {"é?*", "éxy"}, {"*?*?", "ab"}, {"[]-a]", "^"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 16 || len(text) > 24 || !utf8.ValidString(text) {
			return
		}
		g, err := NewGlob(pattern)
		if err != nil {
			return
		}
		if got, want := g.Match(text), naive(pattern, text); got != want {
			t.Errorf("glob %q, text %q: got %v, want %v", pattern, text, got, want)
		}
	})
}
