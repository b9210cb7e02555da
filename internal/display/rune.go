package display

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// mode is how strictly text is shown.
type mode uint8

const (
	names  mode = iota // escape everything that passes for ASCII
	values             // escape it only where it could deceive
	prose              // like values, but alone on its line: it may run from right to left
)

// Maximum number of marks on one letter. More would extend over the lines above.
const (
	marksOnASCII = 2
	marksOnOther = 4
)

// invisible are characters that Unicode classifies as graphic but nobody can see, and the
// two replacement characters.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian variation selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // blank Braille pattern
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // half-width Hangul filler
		{Lo: 0xfffc, Hi: 0xfffd, Stride: 1}, // object replacement, replacement
	},
	R32: []unicode.Range32{
		{Lo: 0x133fc, Hi: 0x133fc, Stride: 1}, // Egyptian blanks
		{Lo: 0x13441, Hi: 0x13446, Stride: 1},
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // Khitan filler
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // musical null notehead
		{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}, // variation selectors
	},
}

// reader decides for each character whether it is shown as it is.
type reader struct {
	mode mode
	text surroundings

	base  rune // letter that marks would be placed on; 0 if none
	marks int  // number of marks on it
	mixed bool // the word has ASCII letters
	left  int  // remaining bytes of the word
}

// surroundings is what must be known about a whole text to judge one letter.
type surroundings struct {
	ascii    bool                         // it has ASCII letters or digits
	readable map[*unicode.RangeTable]bool // scripts with a letter that is not a lookalike
}

func newReader(s string, m mode) *reader {
	r := &reader{mode: m}
	if m != names {
		r.text = survey(s)
	}
	return r
}

// survey scans s once.
func survey(s string) surroundings {
	var t surroundings
	for _, c := range s {
		switch {
		case c < 0x80:
			t.ascii = t.ascii || isWord(c) && c != '_'
		case unicode.IsLetter(c) && !isTwin(c):
			if script := twinScript(c); script != nil {
				if t.readable == nil {
					t.readable = map[*unicode.RangeTable]bool{}
				}
				t.readable[script] = true
			}
		}
	}
	return t
}

// shows reports whether c is shown as it is. rest is the text after it.
func (r *reader) shows(c rune, rest string) bool {
	r.advance(c, rest)
	if isMark(c) {
		return r.showsMark(c)
	}
	ok := r.showsBase(c, rest)
	switch {
	case ok && unicode.IsLetter(c):
		r.base, r.marks = c, 0
	case !ok || !unicode.Is(unicode.Mc, c):
		r.base, r.marks = 0, 0
	}
	return ok
}

// escaped records that a character was escaped instead.
func (r *reader) escaped() { r.base, r.marks, r.left = 0, 0, 0 }

func (r *reader) showsBase(c rune, rest string) bool {
	switch {
	case c == '\\':
		return !strings.HasPrefix(rest, "u{") && !strings.HasPrefix(rest, "x{")
	case c < 0x80:
		return c >= ' ' && c != 0x7f
	case !unicode.IsGraphic(c), unicode.Is(unicode.Zs, c), unicode.Is(unicode.Me, c), unicode.Is(invisible, c):
		return false
	case unicode.Is(unicode.Mc, c): // a mark with a width of its own
		return r.base >= 0x80
	case strings.ContainsRune(prosePunctuation, c):
		return r.mode != names
	case strings.ContainsRune(punctuation, c), foldsToASCII(c):
		return false
	case isRightToLeft(c):
		return r.mode == prose && !r.text.ascii
	case isTwin(c):
		return r.mode != names && !r.deceives(c)
	}
	return true
}

// deceives reports whether a lookalike of an ASCII letter deceives here: in a word with
// ASCII letters, or in a text with no other letter of its script by which a reader would
// recognize the script.
func (r *reader) deceives(c rune) bool {
	script := twinScript(c)
	switch {
	case c == dotlessI:
		return false // common in Turkish prose, and its missing dot is noticed
	case r.mixed, unicode.Is(twinBlocks, c):
		return true
	case script == nil:
		return false
	}
	return !r.text.readable[script]
}

// showsMark reports whether the combining mark c is shown as it is.
func (r *reader) showsMark(c rune) bool {
	if r.base == 0 || unicode.Is(invisible, c) || isRightToLeft(r.base) && r.text.ascii {
		return false
	}
	limit := marksOnOther
	if r.base < 0x80 {
		limit = marksOnASCII
		if r.mode == names || c < 0x300 || c > 0x36f || c >= 0x334 && c <= 0x338 {
			return false // on ASCII only accents, no strokes through the letter
		}
	}
	r.marks++
	return r.marks <= limit
}

// advance keeps track of the word that contains c.
func (r *reader) advance(c rune, rest string) {
	if r.mode == names {
		return
	}
	size := len(string(c))
	if r.left -= size; r.left >= 0 || !isWord(c) {
		return
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return !isWord(c) })
	if end < 0 {
		end = len(rest)
	}
	r.left = end
	r.mixed = isASCIILetter(c) || strings.ContainsFunc(rest[:end], isASCIILetter)
}

func isASCIILetter(c rune) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isWord reports whether c is a word character.
func isWord(c rune) bool {
	if c < 0x80 {
		return isASCIILetter(c) || '0' <= c && c <= '9' || c == '_'
	}
	return unicode.IsLetter(c) || unicode.IsDigit(c) || isMark(c)
}

// isMark reports whether c is placed on the previous letter and takes no column.
func isMark(c rune) bool { return c >= 0x300 && unicode.Is(unicode.Mn, c) }

func isRightToLeft(c rune) bool {
	if c < 0x590 {
		return false
	}
	p, _ := bidi.LookupRune(c)
	switch p.Class() {
	case bidi.R, bidi.AL, bidi.AN:
		return true
	}
	return false
}

// foldsToASCII reports whether c is a variant of ASCII text or of its lookalikes: full
// width, bold, circled, a ligature.
func foldsToASCII(c rune) bool {
	if c < 0xa0 || strings.ContainsRune(raised, c) {
		return false
	}
	folded := norm.NFKC.PropertiesString(string(c)).Decomposition()
	for _, part := range string(folded) {
		if part >= 0x80 && !isTwin(part) && !strings.ContainsRune(punctuation, part) {
			return false
		}
	}
	return len(folded) > 0
}
