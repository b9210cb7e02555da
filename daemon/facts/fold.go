package facts

import (
	"bytes"
	"encoding/base64"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A text is looked at as a program or a model might read it, which is not
// always how it is written. What is done here is done to a copy: nothing that
// is forwarded is ever folded.

// readAs says how a reading was come by.
type readAs uint8

const (
	asWritten readAs = iota // the text itself
	unfolded                // with disguises taken off
	decoded                 // what a run of base64 stands for
)

// eachReading calls look with each way that text can be read, until look says
// that it has seen enough. A reading is look's only until it returns.
func eachReading(text []byte, look func(reading []byte, as readAs) (more bool)) {
	plain, hidden, same := folded(text)
	as := unfolded
	if same {
		as = asWritten
	}
	if !look(plain, as) || len(hidden) > 0 && !look(hidden, unfolded) {
		return
	}
	if percent, ok := percentDecoded(plain); ok && !look(percent, unfolded) {
		return
	}
	more := true
	base64Runs(plain, func(run []byte) {
		more = more && look(run, decoded)
	})
}

// folded returns text with terminal escapes, control and format characters
// taken out and each character that stands for ASCII ones (full width,
// mathematical, circled letters, ligatures) replaced by them. hidden is what
// was written in tag characters, which no screen shows. same says that there was
// nothing to do.
func folded(text []byte) (out, hidden []byte, same bool) {
	if isPlain(text) {
		return text, nil, true
	}
	out = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		c := text[i]
		if c == 0x1b {
			i += escapeLength(text[i:])
			continue
		}
		if c < utf8.RuneSelf {
			if c >= ' ' && c != 0x7f || c == '\t' || c == '\n' || c == '\r' {
				out = append(out, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
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

func isPlain(text []byte) bool {
	for _, c := range text {
		if c-' ' > '~'-' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// asASCII returns what a character decomposes to when all of that is ASCII,
// else the character itself.
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

// escapeLength returns the length of the terminal escape sequence at the head
// of text, which begins with ESC.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 1
	}
	switch text[1] {
	case '[': // up to a letter or the like
		for i := 2; i < len(text) && i < 64; i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
		}
		return 2
	case ']': // up to BEL or ESC
		for i := 2; i < len(text) && i < 4096; i++ {
			if text[i] == 7 {
				return i + 1
			}
			if text[i] == 0x1b {
				return i
			}
		}
		return 2
	}
	return 2
}

// percentDecoded returns text with %XX read, twice over where that is what it
// takes, and whether there was any.
func percentDecoded(text []byte) ([]byte, bool) {
	out, found := text, false
	for range 2 {
		at := bytes.IndexByte(out, '%')
		if at < 0 {
			break
		}
		decoded := append(make([]byte, 0, len(out)), out[:at]...)
		changed := false
		for i := at; i < len(out); i++ {
			if out[i] == '%' && i+2 < len(out) && hexValue(out[i+1]) < 16 && hexValue(out[i+2]) < 16 {
				decoded = append(decoded, hexValue(out[i+1])<<4|hexValue(out[i+2]))
				changed, i = true, i+2
				continue
			}
			decoded = append(decoded, out[i])
		}
		if !changed {
			break
		}
		out, found = decoded, true
	}
	return out, found
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

const (
	shortestBase64 = 24   // shorter runs hold no secret worth the time
	mixedBase64    = 4096 // up to here a run may begin in the middle of a longer one
)

// base64Runs calls found with what each run of base64 in the text decodes to,
// when that could be text.
func base64Runs(text []byte, found func(decoded []byte)) {
	var buffer []byte
	for i := 0; i < len(text); {
		if base64Value[text[i]] == 0 {
			i++
			continue
		}
		start := i
		for i < len(text) && base64Value[text[i]] != 0 {
			i++
		}
		if i-start < shortestBase64 {
			continue
		}
		run := text[start:i]
		shifts := 1
		if len(run) <= mixedBase64 {
			shifts = 4
		}
		for shift := range shifts {
			buffer = decodeBase64(buffer[:0], run[shift:])
			if len(run) > mixedBase64 || looksLikeText(buffer) {
				found(buffer)
			}
		}
	}
}

// base64Value is 1 + the value of a letter of either alphabet, 0 for others.
var base64Value = func() (table [256]uint8) {
	for _, alphabet := range []string{base64.StdEncoding.EncodeToString(sextets()), base64.URLEncoding.EncodeToString(sextets())} {
		for i := range len(alphabet) {
			table[alphabet[i]] = uint8(i + 1)
		}
	}
	return table
}()

// sextets returns the 48 bytes that encode to the 64 letters in order.
func sextets() []byte {
	out := make([]byte, 0, 48)
	for i := byte(0); i < 64; i += 4 {
		out = append(out, i<<2|(i+1)>>4, (i+1)<<4|(i+2)>>2, (i+2)<<6|(i+3))
	}
	return out
}

func decodeBase64(dst, run []byte) []byte {
	var bits uint32
	have := 0
	for _, c := range run {
		bits = bits<<6 | uint32(base64Value[c]-1)
		if have += 6; have >= 8 {
			have -= 8
			dst = append(dst, byte(bits>>have))
		}
	}
	return dst
}

// looksLikeText reports whether nearly all of b is printable ASCII: of bytes
// that were never text about a third is.
func looksLikeText(b []byte) bool {
	printable := 0
	for _, c := range b {
		if c-' ' <= '~'-' ' || c == '\n' || c == '\t' || c == '\r' {
			printable++
		}
	}
	return printable*10 >= len(b)*9
}
