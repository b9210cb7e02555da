package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var ansiEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11,
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeANSI returns what stands in $'s', with every hole of s. What would not
// be valid text, or looks like a hole, is replaced.
func decodeANSI(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexFunc(s, isHole)
		if i < 0 {
			i = len(s)
		}
		b.WriteString(strings.Map(func(r rune) rune {
			if isHole(r) {
				return utf8.RuneError
			}
			return r
		}, strings.ToValidUTF8(decodeEscapes(s[:i]), string(utf8.RuneError))))
		if i < len(s) {
			b.WriteString(s[i : i+4])
			i += 4
		}
		s = s[i:]
	}
	return b.String()
}

// decodeEscapes returns s with its escapes decoded. A NUL ends it, as it does in
// bash.
func decodeEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if r, ok := ansiEscapes[c]; ok {
			b.WriteByte(r)
			continue
		}
		n, digits, base := 0, 0, 16
		switch c {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		case 'c':
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
			}
			continue
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i--
			digits, base = 3, 8
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		for n < digits && i+1+n < len(s) && isDigit(s[i+1+n], base) {
			n++
		}
		if n == 0 {
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		v, _ := strconv.ParseUint(s[i+1:i+1+n], base, 64) // n digits of that base
		i += n
		switch {
		case v == 0:
			return b.String()
		case c == 'u' || c == 'U':
			if v > utf8.MaxRune {
				v = utf8.RuneError
			}
			b.WriteRune(rune(v))
		default:
			b.WriteByte(byte(v))
		}
	}
	return b.String()
}

func isDigit(c byte, base int) bool {
	if base == 8 {
		return c >= '0' && c <= '7'
	}
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
