package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxGlob is the maximum length of a pattern, in bytes. Matching costs at most the length of the
// text times that of the pattern, so this bound keeps it linear in the text.
const maxGlob = 1024

// Glob is a compiled pattern. * matches any number of characters, ? one character, [abc] and
// [a-z] one of those listed, [!abc] one that is not listed. All of them match / too. Matching is
// case-sensitive. There is no escape character: a special character is written in brackets, as
// [*]. The zero Glob has no pattern and matches nothing.
type Glob struct {
	text  string
	parts []part // what lies between the stars; always has a first and a last part
}

// part is a sequence of characters without a star.
type part struct {
	literal string  // if every element is a single character
	classes []class // otherwise, one for each character
	chars   int     // how many characters it matches
}

// class is the set of characters that one character of the text may be.
type class struct {
	any    bool
	not    bool
	ranges []runeRange
}

type runeRange struct{ lo, hi rune }

// NewGlob compiles pattern.
func NewGlob(pattern string) (Glob, error) {
	switch {
	case pattern == "":
		return Glob{}, errors.New("an empty glob matches nothing")
	case len(pattern) > maxGlob:
		return Glob{}, fmt.Errorf("the glob has %d bytes; the maximum is %d", len(pattern), maxGlob)
	case !utf8.ValidString(pattern):
		return Glob{}, errors.New("the glob is not valid UTF-8")
	}
	if err := braces(pattern); err != nil {
		return Glob{}, err
	}
	g := Glob{text: pattern}
	var run []class
	for rest := pattern; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		switch r {
		case '*':
			g.parts = append(g.parts, newPart(run))
			run = nil
		case '?':
			run = append(run, class{any: true})
		case '[':
			c, size, err := readClass(rest)
			if err != nil {
				return Glob{}, err
			}
			run, n = append(run, c), size
		default:
			run = append(run, class{ranges: []runeRange{{r, r}}})
		}
		rest = rest[n:]
	}
	g.parts = append(g.parts, newPart(run))
	return g, nil
}

// braces rejects {a,b}. Other globs take it as alternatives; here it would match only itself, and
// a rule that never matches is not noticed.
func braces(pattern string) error {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		return nil
	}
	if end := strings.IndexByte(pattern[open:], '}'); end > 0 && strings.Contains(pattern[open:open+end], ",") {
		return errors.New("{a,b} is not supported in globs; write two rules or a list")
	}
	return nil
}

// readClass parses the [...] at the start of text and returns its length.
func readClass(text string) (class, int, error) {
	var c class
	at := 1
	switch {
	case strings.HasPrefix(text[at:], "!"):
		c.not = true
		at++
	case strings.HasPrefix(text[at:], "^"):
		return c, 0, errors.New("[^...] is not supported in globs; write [!...]")
	}
	for first := true; ; first = false {
		if at >= len(text) {
			return c, 0, errors.New("unclosed [; write a literal [ as [[]")
		}
		lo, n := utf8.DecodeRuneInString(text[at:])
		if lo == ']' && !first {
			return c, at + n, nil
		}
		at += n
		hi := lo
		if next := text[at:]; len(next) > 1 && next[0] == '-' && next[1] != ']' {
			hi, n = utf8.DecodeRuneInString(next[1:])
			at += 1 + n
		}
		if hi < lo {
			return c, 0, fmt.Errorf("the range %c-%c is reversed", lo, hi)
		}
		c.ranges = append(c.ranges, runeRange{lo, hi})
	}
}

func newPart(run []class) part {
	var b strings.Builder
	for _, c := range run {
		if c.any || c.not || len(c.ranges) != 1 || c.ranges[0].lo != c.ranges[0].hi {
			return part{classes: run, chars: len(run)}
		}
		b.WriteRune(c.ranges[0].lo)
	}
	return part{literal: b.String(), chars: len(run)}
}

// String returns the pattern as it was written.
func (g Glob) String() string { return g.text }

// IsZero reports whether g is the zero Glob.
func (g Glob) IsZero() bool { return g.text == "" }

// Literal reports whether g matches only its own text.
func (g Glob) Literal() bool { return len(g.parts) == 1 && g.parts[0].classes == nil }

// Match reports whether g matches the whole of text. It takes time linear in the length of text
// and does not allocate.
func (g Glob) Match(text string) bool {
	if len(g.parts) == 0 {
		return false
	}
	head, last := g.parts[0], len(g.parts)-1
	n, ok := head.prefix(text)
	if !ok {
		return false
	}
	text = text[n:]
	if last == 0 {
		return text == ""
	}
	for _, p := range g.parts[1:last] {
		if text, ok = p.after(text); !ok {
			return false
		}
	}
	return g.parts[last].suffix(text)
}

// prefix returns how many bytes of text p matches at its start.
func (p *part) prefix(text string) (int, bool) {
	if p.classes == nil {
		return len(p.literal), strings.HasPrefix(text, p.literal)
	}
	at := 0
	for _, c := range p.classes {
		if at == len(text) {
			return 0, false
		}
		r, n := utf8.DecodeRuneInString(text[at:])
		if !c.has(r) {
			return 0, false
		}
		at += n
	}
	return at, true
}

// after returns what follows the first match of p in text. After a star the first match is
// sufficient, since it leaves the most text for the rest of the pattern.
func (p *part) after(text string) (string, bool) {
	if p.classes == nil {
		_, rest, found := strings.Cut(text, p.literal)
		return rest, found
	}
	for {
		if n, ok := p.prefix(text); ok {
			return text[n:], true
		}
		if text == "" {
			return "", false
		}
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
}

// suffix reports whether text ends with a match of p.
func (p *part) suffix(text string) bool {
	if p.classes == nil {
		return strings.HasSuffix(text, p.literal)
	}
	at := len(text)
	for range p.chars {
		if at == 0 {
			return false
		}
		_, n := utf8.DecodeLastRuneInString(text[:at])
		at -= n
	}
	_, ok := p.prefix(text[at:])
	return ok
}

func (c *class) has(r rune) bool {
	if c.any {
		return true
	}
	for _, in := range c.ranges {
		if in.lo <= r && r <= in.hi {
			return !c.not
		}
	}
	return c.not
}

// MatchAny reports whether any of globs matches text.
func MatchAny(globs []Glob, text string) bool {
	for _, g := range globs {
		if g.Match(text) {
			return true
		}
	}
	return false
}
