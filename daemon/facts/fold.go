package facts

import (
	"bytes"
	"html"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// A text is examined in the forms in which a program or a model might read it, which may differ
// from the written form. This applies to a copy only: what is forwarded is never changed.

// readAs describes how a reading was derived from the text.
type readAs uint8

const (
	asWritten readAs = iota // the text itself
	unfolded                // without disguises
	decoded                 // decoded from a run of base64 or hex digits
	rejoined                // without the breaks that split it; only forms that prose cannot produce count
)

// eachReading calls look with each form in which text can be read, until look returns false. look
// must not retain a reading.
func eachReading(text []byte, look func(reading []byte, as readAs) (more bool)) {
	plain, hidden, same := folded(text)
	as := unfolded
	if same {
		as = asWritten
	}
	if !look(plain, as) || len(hidden) > 0 && !look(hidden, unfolded) {
		return
	}
	more := true
	left := len(plain) + mostRecoded
	found := func(run []byte) {
		more = more && look(run, decoded)
	}
	if percent, ok := percentDecoded(plain); ok {
		if !look(percent, unfolded) {
			return
		}
		base64Runs(percent, 1, &left, found) // as it may be in the query of an address
	}
	if read, ok := unescaped(plain); ok && more && !look(read, unfolded) {
		return
	}
	base64Runs(plain, 0, &left, found)
	if whole, ok := withoutBreaks(plain); ok && more && look(whole, rejoined) {
		base64Runs(whole, 0, &left, found)
	}
}

// unescaped returns text with HTML character references and the escapes of JSON and of
// programming languages decoded. It reports whether there were any.
func unescaped(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '&') < 0 && bytes.IndexByte(text, '\\') < 0 {
		return text, false
	}
	read := string(text)
	for range 3 { // &amp;amp;#103;
		read = html.UnescapeString(read)
	}
	out := new(cleaner).clean([]byte(read))
	return out, !bytes.Equal(out, text)
}

// withoutBreaks returns text without the line breaks, and the blanks that follow them, that may
// split a token. It reports whether there were any.
func withoutBreaks(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text, false
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != '\n' && c != '\r' {
			out = append(out, c)
			continue
		}
		for i+1 < len(text) && text[i+1] <= ' ' {
			i++
		}
		out = bytes.TrimRight(out, " \t\\")
	}
	return out, true
}

// folded returns text without terminal escapes, control characters and format characters. It
// replaces characters that stand for ASCII ones (full-width, mathematical or circled letters,
// ligatures) by these. hidden is the text in tag characters, which are invisible on screens. same
// reports that nothing changed.
func folded(text []byte) (out, hidden []byte, same bool) {
	if unprintable(text) == 0 {
		return text, nil, true
	}
	out = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == 0x1b:
			n += escapeLength(text[i+1:])
		case r < utf8.RuneSelf:
			if unprintable(text[i:i+1]) == 0 {
				out = append(out, text[i])
			}
		case r > 0xE0020 && r < 0xE007F:
			hidden = append(hidden, byte(r-0xE0000))
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), r >= 0x80 && r < 0xA0:
		default:
			out = append(out, asASCII(text[i:i+n])...)
		}
		i += n
	}
	return out, hidden, bytes.Equal(out, text)
}

// asASCII returns the decomposition of a character if all of it is ASCII, or else the character
// itself.
func asASCII(char []byte) []byte {
	d := norm.NFKC.Properties(char).Decomposition()
	for _, c := range d {
		if c >= utf8.RuneSelf {
			return char
		}
	}
	if len(d) == 0 {
		return char
	}
	return d
}

// longestEscape is the maximum length of most kinds of terminal escapes, in bytes after ESC.
const longestEscape = 63

// escapeLength returns how many bytes of text, which follows an ESC, belong to the terminal
// escape.
func escapeLength(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '[': // up to a letter or the like
		for i := 1; i < len(text) && i < longestEscape; i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
		}
	case ']': // up to BEL or ESC
		for i := 1; i < len(text) && i < 4095; i++ {
			if text[i] == 7 {
				return i + 1
			}
			if text[i] == 0x1b {
				return i
			}
		}
	}
	return 1
}

// percentDecoded returns text with %XX decoded twice. It reports whether that changed anything.
func percentDecoded(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '%') < 0 {
		return text, false
	}
	read := string(text)
	for range 3 {
		read = uri.Decoded(read)
	}
	return []byte(read), len(read) < len(text)
}

func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
