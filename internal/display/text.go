// Package display makes untrusted text safe to show to a person.
// //
// A person who answers a question reads on a terminal what somebody else wrote: a tool's
// name, its arguments, a model's reason. A terminal executes some of what it prints, and
// hides or reorders more. So no such text is shown unchanged. Every character that a
// terminal could act on, that is invisible, that moves its neighbors, or that passes for
// another one is escaped as \u{202e}; a byte that belongs to no character as \x{ff}. The
// two forms can't be forged: a backslash that would begin one is itself escaped as
// \u{5c}.
// //
// Text that was made safe has the type [Safe], and tables accept nothing else. Names are
// treated more strictly than prose: in a name every lookalike of an ASCII letter is
// escaped, in prose only where it could deceive, since otherwise people could not read
// their own language.
package display

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Safe is text that may be shown: printable, in reading order, and on one line unless the
// function that made it says otherwise.
type Safe string

// Name returns s for display on one line, strictly: for ids, names of tools and servers,
// paths, keys.
func Name(s string) Safe { return all(s, names) }

// Text returns s for display on one line, as prose or as a value. Right-to-left text is
// escaped if s also contains ASCII letters or digits, because terminals would reorder
// them.
func Text(s string) Safe { return all(s, prose) }

// Lines is like Text but keeps newlines. Trailing newlines are removed.
func Lines(s string) Safe {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = string(Text(line))
	}
	return Safe(strings.Join(lines, "\n"))
}

// Bytes is like Text for bytes.
func Bytes(b []byte) Safe { return Text(string(b)) }

// all returns all of s in the given mode.
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

// plain reports whether s is printable ASCII without a backslash, as most text is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// each calls emit for each character of s, with its displayed form, the number of columns
// of that form, and the offset where the character ends in s, until emit returns false.
func each(s string, m mode, emit func(shown string, cells, end int) bool) {
	r := newReader(s, m)
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		var shown string
		switch {
		case c == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x{%02x}`, s[i])
			r.escaped()
		case r.shows(c, s[i+size:]):
			shown = s[i : i+size]
		default:
			shown = fmt.Sprintf(`\u{%x}`, c)
		}
		i += size
		if !emit(shown, cells(shown), i) {
			return
		}
	}
}

// Width returns the number of columns that s takes on a terminal, in its widest line.
func Width(s Safe) int {
	widest := 0
	for line := range strings.SplitSeq(string(s), "\n") {
		widest = max(widest, cells(line))
	}
	return widest
}

// cells returns the number of columns of one line.
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
