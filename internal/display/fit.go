package display

import (
	"strings"
	"unicode/utf8"
)

// ellipsis marks a cut. It can't be forged: in untrusted text it is escaped.
const ellipsis = "…"

// Fit returns s cut to at most columns columns. A cut text ends in an ellipsis. If
// columns is less than 1, there is no limit.
func Fit(s Safe, columns int) Safe {
	if columns < 1 || Width(s) <= columns {
		return s
	}
	return s[:fitting(s, columns-1)] + ellipsis
}

// fitting returns how many bytes of s fit into columns columns.
func fitting(s Safe, columns int) (n int) {
	pieces(s, func(piece string) bool {
		if columns -= cells(piece); columns < 0 {
			return false
		}
		n += len(piece)
		return true
	})
	return n
}

// Clip returns the text of s cut to at most columns columns. A cut text ends with a note
// that says how much is missing and where to see it: `… 1,204 more bytes; tgctl approvals
// show A-1`. If the note would take more than half the columns, it is shortened to the
// number.
func Clip(s string, columns int, hint Safe) Safe {
	whole := Text(s)
	if columns < 1 || Width(whole) <= columns {
		return whole
	}
	head, rest := clip(s, columns, hint)
	return head + rest
}

func clip(s string, columns int, hint Safe) (head, note Safe) {
	note = more(len(s), hint)
	if Width(note) > columns/2 {
		note = more(len(s), "")
	}
	room := columns - Width(note)
	var b strings.Builder
	used, at := 0, 0
	each(s, prose, func(shown string, w, end int) bool {
		if used+w > room {
			return false
		}
		used += w
		at = end
		b.WriteString(shown)
		return true
	})
	return Safe(b.String()), more(len(s)-at, "") + note[len(more(len(s), "")):]
}

// more returns the note on n bytes that are not shown.
func more(n int, hint Safe) Safe {
	unit := Safe(" more bytes")
	if n == 1 {
		unit = " more byte"
	}
	s := ellipsis + " " + Count(n) + unit
	if hint != "" {
		s += "; " + hint
	}
	return s
}

// Wrap breaks s at spaces into lines of at most columns columns; a longer word is broken
// too. Spaces are kept except those at a break. If columns is less than 1, there is no
// limit.
func Wrap(s Safe, columns int) []Safe {
	if columns < 1 || Width(s) <= columns {
		return []Safe{s}
	}
	var lines []Safe
	start, used := 0, 0  // of the line
	space, after := 0, 0 // start and end of the last run of spaces in the line; 0 if none
	at := 0
	pieces(s, func(piece string) bool {
		w := cells(piece)
		for used+w > columns && piece != " " && start < at {
			end, next := at, at
			if space > start {
				end, next = space, after
			}
			lines = append(lines, s[start:end])
			start = next
			used = Width(s[start:at])
		}
		if piece == " " {
			if after != at {
				space = at
			}
			after = at + 1
		}
		used += w
		at += len(piece)
		return true
	})
	return append(lines, Safe(strings.TrimRight(string(s[start:]), " ")))
}

// Break breaks s into lines of at most columns columns at any character and keeps every
// character. Only a single character that is wider exceeds the limit. If columns is less
// than 1, there is no limit.
func Break(s Safe, columns int) []Safe {
	if columns < 1 || Width(s) <= columns {
		return []Safe{s}
	}
	var lines []Safe
	for s != "" {
		n := max(fitting(s, columns), pieceLen(string(s)))
		lines, s = append(lines, s[:n]), s[n:]
	}
	return lines
}

// pieces yields the units that must not be cut: a letter with its marks, or an escaped
// character.
func pieces(s Safe, yield func(string) bool) {
	for text := string(s); text != ""; {
		n := pieceLen(text)
		if !yield(text[:n]) {
			return
		}
		text = text[n:]
	}
}

func pieceLen(s string) int {
	if strings.HasPrefix(s, `\u{`) || strings.HasPrefix(s, `\x{`) {
		if end := strings.IndexByte(s, '}'); end >= 0 && end < 10 {
			return end + 1
		}
	}
	_, n := utf8.DecodeRuneInString(s)
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if !isMark(r) {
			break
		}
		n += size
	}
	return n
}
