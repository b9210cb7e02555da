package facts

import (
	"bytes"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// unquoted returns the decoded text of a JSON string. Without escapes, the result is a slice of
// raw. Half a surrogate pair is decoded as U+FFFD.
func unquoted(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	at := bytes.IndexByte(inner, '\\')
	if at < 0 {
		return inner
	}
	out := append(make([]byte, 0, len(inner)), inner[:at]...)
	for i := at; i < len(inner); {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			i++
			continue
		}
		r, n := escape(inner[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}

// escape decodes the escape at the start of text. It returns the character and the length of the
// escape. The character is negative if \u is not followed by digits.
func escape(text []byte) (rune, int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(text)
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if both := utf16.DecodeRune(r, hex4(text[6:])); both != utf8.RuneError {
			return both, 12
		}
		return utf8.RuneError, 6
	}
	return rune(text[1]), 2 // " \ /
}

// hex4 decodes \uXXXX at the start of text. It returns a negative value if there is none.
func hex4(text []byte) rune {
	var digits [2]byte
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	if _, err := hex.Decode(digits[:], text[2:6]); err != nil {
		return -1
	}
	return rune(digits[0])<<8 | rune(digits[1])
}

// within translates ranges of a decoded JSON string to ranges of the raw string. The ranges must
// be in order.
func within(raw []byte, ranges []span) []span {
	out := make([]span, 0, len(ranges))
	at, said := 1, 0 // said is the decoded length of raw[1:at]
	upTo := func(n int) int {
		for said < n && at < len(raw)-1 {
			if raw[at] != '\\' {
				at++
				said++
				continue
			}
			r, width := escape(raw[at:])
			at += width
			said += utf8.RuneLen(r)
		}
		return at
	}
	for _, s := range ranges {
		start := upTo(s.start)
		out = append(out, span{start, upTo(s.end)})
	}
	return out
}
