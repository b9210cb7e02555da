package facts

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What servers say and what agents say must compare equal when a model would
// read it alike: so for the memory every character is reduced to the ASCII ones
// it stands for or is drawn like. That is more than the search for secrets does,
// where accents and other alphabets are part of the text.

// latin is what becomes of each character, worked out once.
type latin struct {
	each   [0x20000]uint16
	longer []string // what more than one character stands for
}

// Values of a character. One that is ASCII is itself what the character becomes, and
// those above longForm count through longer.
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

// reduced returns the ASCII text that r stands for, empty when nobody sees r;
// false when it stands for itself.
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

// digitOf returns what a decimal digit of any script is worth: the digits of a
// script stand in a row.
func digitOf(r rune) byte {
	n := rune(0)
	for unicode.Is(unicode.Nd, r-n-1) {
		n++
	}
	return byte(n % 10)
}

// append appends what r becomes to dst. hidden takes what is written in tag
// characters, which no screen shows and models read.
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
