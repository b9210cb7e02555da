package facts

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The texts of servers and agents must compare equal if a model would read them alike. So the
// memory reduces every character to the ASCII characters that it stands for or resembles. The
// search for secrets reduces less: there, accents and other alphabets are part of the text.

// latin maps each character to its replacement. It is computed once.
type latin struct {
	each   [0x20000]uint16
	longer []string // replacements of more than one character
}

// Values of latin.each. An ASCII value is the replacement itself. A value from longForm on is an
// index into longer.
const (
	stays    uint16 = 0
	vanishes uint16 = 1
	longForm uint16 = 0x80
)

var theLatin = sync.OnceValue(newLatin)

func newLatin() *latin {
	same := map[rune]byte{}
	for c, drawn := range lookalikes {
		for _, r := range drawn {
			same[r] = byte(c)
		}
	}
	for _, first := range enclosed {
		for i := range rune(26) {
			same[first+i] = byte('A' + i)
		}
	}
	l := &latin{}
	known := map[string]uint16{}
	for r := rune(0x80); int(r) < len(l.each); r++ {
		if r == 0xAC00 { // Hangul and surrogates stay
			r = 0xE000
		}
		switch value, ok := reduced(r, same); {
		case !ok:
		case value == "":
			l.each[r] = vanishes
		case len(value) == 1:
			l.each[r] = uint16(value[0])
		default:
			if known[value] == 0 {
				known[value] = longForm + uint16(len(l.longer))
				l.longer = append(l.longer, value)
			}
			l.each[r] = known[value]
		}
	}
	return l
}

// reduced returns the ASCII text for which r stands, or "" if r is invisible. It returns false if
// r stands for itself.
func reduced(r rune, same map[rune]byte) (string, bool) {
	switch {
	case r < 0xA0, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), strings.ContainsRune(unseen, r):
		return "", true
	case unicode.IsSpace(r):
		return " ", true
	}
	if two, ok := glued[r]; ok {
		return two, true
	}
	if c, ok := same[r]; ok {
		return string(rune(c)), true
	}
	if 0xAB70 <= r && r < 0xABC0 { // Cherokee's small letters
		r -= 0xAB70 - 0x13A0
	}
	var buf [utf8.UTFMax]byte
	char := buf[:utf8.EncodeRune(buf[:], r)]
	parts := norm.NFKD.Properties(char).Decomposition()
	if parts == nil {
		parts = char
	}
	var out []byte
	for _, p := range string(parts) {
		switch c, alike := same[p]; {
		case unicode.Is(unicode.Mn, p):
		case p < utf8.RuneSelf:
			out = append(out, byte(p))
		case alike:
			out = append(out, c)
		case unicode.Is(unicode.Nd, p):
			out = append(out, '0'+digitOf(p))
		default:
			return "", false
		}
	}
	return string(out), true
}

// digitOf returns the value of a decimal digit of any script. The digits of a script are
// consecutive.
func digitOf(r rune) byte {
	n := rune(0)
	for unicode.Is(unicode.Nd, r-n-1) {
		n++
	}
	return byte(n % 10)
}

// append appends the replacement of r to dst. It appends text in tag characters, which are
// invisible on screens but read by models, to hidden.
func (l *latin) append(dst, hidden []byte, r rune) (out, unshown []byte) {
	value := stays
	switch {
	case int(r) < len(l.each):
		value = l.each[r]
	case r > 0xE0020 && r < 0xE007F:
		return dst, append(hidden, byte(r-0xE0000))
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
		value = vanishes
	}
	switch {
	case value == stays:
		dst = utf8.AppendRune(dst, r)
	case value == vanishes:
	case value < longForm:
		dst = append(dst, byte(value))
	default:
		dst = append(dst, l.longer[value-longForm]...)
	}
	return dst, hidden
}
