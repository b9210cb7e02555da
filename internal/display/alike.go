package display

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Shape is what a name looks like to a hurried reader, or to a program that normalizes
// names before it compares them.
type Shape struct {
	folded  string // without case, width, accents, separators and invisible characters
	similar string // likewise, and with 0 as o, 1 and I as l, rn as m
	twins   bool   // it has lookalikes of ASCII letters, each replaced by twinMark
}

// twinMark replaces a lookalike of an ASCII letter. It does not matter which letter:
// names that differ only in lookalikes are alike.
const twinMark = '\uFFFF'

// ShapeOf returns the shape of a name.
func ShapeOf(name string) Shape {
	var folded, similar strings.Builder
	var s Shape
	for _, r := range norm.NFKD.String(name) {
		switch {
		case unicode.Is(unicode.Mn, r), unicode.Is(invisible, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Cc, r):
			continue
		case r >= 0x80 && isTwin(r):
			s.twins = true
			folded.WriteRune(twinMark)
			similar.WriteRune(twinMark)
			continue
		case unicode.IsSpace(r), strings.ContainsRune("_-.:/", r), r >= 0x80 && (strings.ContainsRune(punctuation, r) || strings.ContainsRune(prosePunctuation, r)):
			r = '_'
		}
		folded.WriteRune(unicode.ToLower(r))
		similar.WriteRune(seenAs(r))
	}
	s.folded = folded.String()
	s.similar = strings.NewReplacer("rn", "m", "vv", "w").Replace(similar.String())
	return s
}

// seenAs returns the character that an ASCII character is easily mistaken for.
func seenAs(r rune) rune {
	switch r {
	case '0':
		return 'o'
	case '1', 'I', '|':
		return 'l'
	}
	return unicode.ToLower(r)
}

// Keys returns two texts. Shapes that are alike share at least one of them, provided that
// neither HasTwins.
func (s Shape) Keys() (folded, similar string) { return s.folded, s.similar }

// HasTwins reports whether the name has lookalikes of ASCII letters.
func (s Shape) HasTwins() bool { return s.twins }

// Like reports whether names of the shapes s and t could be mistaken for each other.
func (s Shape) Like(t Shape) bool {
	return alike(s.folded, t.folded) || alike(s.similar, t.similar)
}

func alike(a, b string) bool {
	if a == b {
		return true
	}
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y && (x != twinMark || y >= 0x80) && (y != twinMark || x >= 0x80) {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return a == b
}

// Disguised returns the first word of text that mixes ASCII letters with lookalikes of
// ASCII letters; empty if there is none. No language is written like that.
func Disguised(text string) string {
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return !isWord(c) }) {
		if !plain(word) && strings.ContainsFunc(word, isASCIILetter) && strings.ContainsFunc(word, disguises) {
			return word
		}
	}
	return ""
}

// disguises reports whether c, within a word of ASCII letters, is a lookalike. Digits of
// other scripts and a Turkish ı are not.
func disguises(c rune) bool {
	return c >= 0x80 && c != dotlessI && unicode.IsLetter(c) && (isTwin(c) || isStyled(c))
}

// isStyled reports whether c is a bold, full-width or otherwise styled form of an ASCII
// letter.
func isStyled(c rune) bool { return c >= 0x2000 && foldsToASCII(c) }

// Folded returns text without disguises, in lower case: it removes invisible characters
// and replaces variants of ASCII text (full width, bold, circled, a ligature) with ASCII.
// Every blank becomes a space.
func Folded(text string) string {
	if plain(text) {
		return strings.ToLower(text)
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range norm.NFKC.String(text) {
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.In(r, unicode.Cc, unicode.Cf), unicode.Is(invisible, r):
		case r == '’', r == '‘':
			b.WriteByte('\'')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}
