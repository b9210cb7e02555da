package display

import (
	"strings"
	"unicode/utf8"
)

// ellipsis ends what was cut. It cannot be forged: in what is shown from
// outside it is written out.
const ellipsis = "…"

// Fit returns s in at most columns columns; when something had to go, an
// ellipsis stands in its place at the end. Fewer than one column means no limit.
func Fit(s Safe, columns int) Safe {
	if columns < 1 || Width(s) <= columns {
		return s
	}
	used, at := 0, 0
	pieces(s, func(piece string) bool {
		w := cells(piece)
		if used+w > columns-1 {
			return false
		}
		used += w
		at += len(piece)
		return true
	})
	return s[:at] + ellipsis
}

// Clip returns the text of s as far as it fits into columns columns. When
// something had to go the end says how much, and where to see it:
// `… 1,204 more bytes; tgctl approvals show A-1`. Where that note leaves little
// room for the text, the note is shortened to the number.
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

// more is the note on n bytes that are not shown.
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

// Wrap breaks s at spaces into lines of at most columns columns; a word that is
// longer is broken too. Spaces are kept but for those at a break. Fewer than one
// column means no limit.
func Wrap(s Safe, columns int) []Safe {
	if columns < 1 || Width(s) <= columns {
		return []Safe{s}
	}
	var lines []Safe
	start, used := 0, 0  // of the line
	space, after := 0, 0 // the last run of spaces in it: where it begins and ends, 0 for none
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

// Break breaks s into lines of at most columns columns, wherever that is, and
// keeps every character. Only a single one that is wider stays as it is. Fewer
// than one column means no limit.
func Break(s Safe, columns int) []Safe {
	if columns < 1 || Width(s) <= columns {
		return []Safe{s}
	}
	var lines []Safe
	start, at, used := 0, 0, 0
	pieces(s, func(piece string) bool {
		w := cells(piece)
		if used+w > columns && start < at {
			lines = append(lines, s[start:at])
			start, used = at, 0
		}
		used += w
		at += len(piece)
		return true
	})
	return append(lines, s[start:])
}

// pieces yields what must not be cut: a letter with its marks, a character that
// is written out.
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
