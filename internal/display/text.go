// Package display makes text that may be shown to a person out of bytes that
// somebody else chose.
//
// A tool's name, its arguments, a reason that a model wrote: whoever answers a
// question reads them on a terminal, and a terminal obeys some of what it is
// given and hides or reorders more. So nothing reaches a person as it came.
// Every character that a terminal could act on, that is not seen, that moves
// its neighbours, or that passes for another one is written out by number, as
// \u{202e}; a byte that belongs to no character as \x{ff}. The two forms cannot
// be forged: a backslash that would begin one is itself written \u{5c}.
//
// What has gone through this package has the type [Safe], and tables take
// nothing else. Names are treated more strictly than prose: in a name any
// letter that passes for an ASCII one is written out, in prose only where it
// could deceive, since otherwise nobody could read their own language.
package display

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Safe is text that may be shown: printable, in reading order, on one line
// unless the function that made it says otherwise.
type Safe string

// Name returns s for show on one line, strictly: for ids, names of tools and
// servers, paths, keys.
func Name(s string) Safe { return all(s, names) }

// Text returns s for show on one line, as prose or as a value. Text in a script
// that runs from right to left is written out by number when s holds ASCII
// letters or digits too, because terminals would reorder them.
func Text(s string) Safe { return all(s, prose) }

// Lines is Text for text of several lines: newlines are kept.
func Lines(s string) Safe {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = string(Text(line))
	}
	return Safe(strings.Join(lines, "\n"))
}

// Bytes is Text for bytes.
func Bytes(b []byte) Safe { return Text(string(b)) }

// all returns the whole of s as its mode shows it.
func all(s string, m mode) Safe {
	if plain(s) {
		return Safe(s)
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	each(s, m, func(shown string, _, _ int) bool {
		b.WriteString(shown)
		return true
	})
	return Safe(b.String())
}

// plain reports whether s is printable ASCII without a backslash, as most is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// each calls emit for each piece of s that must stay whole, with how it is
// shown, how many columns that takes, and where in s it ends, until emit
// returns false.
func each(s string, m mode, emit func(shown string, cells, end int) bool) {
	r := newReader(s, m)
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		var shown string
		switch {
		case c == utf8.RuneError && size == 1:
			shown = number('x', rune(s[i]))
			r.escaped()
		case r.shows(c, s[i+size:]):
			shown = s[i : i+size]
		default:
			shown = number('u', c)
		}
		i += size
		if !emit(shown, cells(shown), i) {
			return
		}
	}
}

// number writes a character or a byte out.
func number(form byte, c rune) string {
	const digits = "0123456789abcdef"
	var buf [8]byte
	at := len(buf)
	for {
		at--
		buf[at] = digits[c&15]
		if c >>= 4; c == 0 && (form != 'x' || len(buf)-at >= 2) {
			break
		}
	}
	return `\` + string(form) + "{" + string(buf[at:]) + "}"
}

// Width returns how many columns s takes on a terminal, in its widest line.
func Width(s Safe) int {
	widest := 0
	for line := range strings.SplitSeq(string(s), "\n") {
		widest = max(widest, cells(line))
	}
	return widest
}

// cells counts the columns of what is shown on one line.
func cells(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r < 0x300:
			n++
		case isMark(r):
		default:
			n++
			if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
				n++
			}
		}
	}
	return n
}
