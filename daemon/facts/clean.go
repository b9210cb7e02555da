package facts

import (
	"bytes"
	"unicode/utf8"
)

// cleaner makes of what was written what is read: escapes of JSON at any depth,
// percent signs, character references, terminal escapes and disguised letters,
// all in one pass, since whoever writes may use any of them within another. It
// works on whole messages, so it takes the text of a JSON value as it stands in
// the line as well as plain text, and quotes are text to it.
//
// What comes out is only ever looked at. An escape that parts words (\n, \t) is
// a line end in it; `C:\new` is misread for that, and nothing hangs on it.
type cleaner struct {
	out    []byte
	hidden []byte // what was written in characters that no screen shows
}

// clean returns text as it reads. The result is valid until the next call, and
// is text itself where there was nothing to do.
func (c *cleaner) clean(text []byte) []byte {
	at := nextSpecial(text, 0)
	if at == len(text) {
		return text
	}
	c.out, c.hidden = append(c.out[:0], text[:at]...), c.hidden[:0]
	for at < len(text) {
		at += c.special(text[at:])
		next := nextSpecial(text, at)
		c.out = append(c.out, text[at:next]...)
		at = next
	}
	if len(c.hidden) > 0 {
		c.out = append(append(c.out, '\n'), c.hidden...)
	}
	return c.out
}

// isSpecial are the bytes that need a look: what begins an escape, control
// characters, and all but ASCII.
var isSpecial = func() (table [256]bool) {
	for i := range table {
		table[i] = i < ' ' && i != '\n' && i != '\t' && i != '\r' || i == '\\' || i == '%' || i == '&' || i >= 0x7f
	}
	return table
}()

func nextSpecial(text []byte, at int) int {
	for at < len(text) && !isSpecial[text[at]] {
		at++
	}
	return at
}

// special reads what begins with a special byte, and returns how long it is.
func (c *cleaner) special(text []byte) int {
	switch b := text[0]; {
	case b == '\\':
		return c.backslash(text)
	case b == '%':
		return c.percent(text)
	case b == '&':
		return c.reference(text)
	case b == 0x1b:
		return 1 + afterESC(text[1:])
	case b < utf8.RuneSelf: // other control characters leave no trace
		return 1
	}
	r, n := utf8.DecodeRune(text)
	c.put(r, nil)
	return n
}

// put writes a character that was found; after is what stands behind it.
func (c *cleaner) put(r rune, after []byte) (more int) {
	switch {
	case r == 0x1b:
		return afterESC(after)
	case r >= utf8.RuneSelf:
		c.out, c.hidden = theLatin().append(c.out, c.hidden, r)
	case r >= ' ' && r != 0x7f:
		c.out = append(c.out, byte(r))
	case r == '\n', r == '\r', r == '\t':
		c.out = append(c.out, '\n')
	}
	return 0
}

// afterESC returns how much of what stands behind an ESC is a terminal escape
// with it: only what may be long. A model sees the letter of a short one.
func afterESC(text []byte) int {
	if len(text) == 0 || text[0] != '[' && text[0] != ']' {
		return 0
	}
	if n := escapeLength(text[:min(len(text), longestEscape)]); n > 1 { // else it has no end
		return n
	}
	return 0
}

// backslash reads an escape. One before a letter that means nothing parts words,
// as in DOMAIN\user; one before a mark is only there to protect it.
func (c *cleaner) backslash(text []byte) int {
	if len(text) < 2 {
		return 1
	}
	switch b := text[1]; b {
	case '\\': // the second may itself begin an escape
		return 1
	case 'n', 't', 'r', 'b', 'f', 'v':
		c.out = append(c.out, '\n')
		return 2
	case 'u':
		if r, n := escape(text); r >= 0 {
			return c.escaped(r, text, n)
		}
	case 'x':
		if len(text) > 3 && hexValue(text[2]) < 16 && hexValue(text[3]) < 16 {
			return c.escaped(rune(hexValue(text[2])<<4|hexValue(text[3])), text, 4)
		}
	default:
		if !isWord(b) || b == '_' {
			return 1
		}
	}
	c.out = append(c.out, ' ')
	return 1
}

// escaped writes the character that the n bytes at the head of text stand for,
// or reads on when it begins an escape of another kind: many encoders of JSON
// write \u0026 for &.
func (c *cleaner) escaped(r rune, text []byte, n int) int {
	switch r {
	case '&':
		return n - 1 + c.reference(text[n-1:])
	case '%':
		return n - 1 + c.percent(text[n-1:])
	case '\\':
		if n < len(text) && (text[n] == 'n' || text[n] == 't' || text[n] == 'r') {
			c.out = append(c.out, '\n')
			return n + 1
		}
		return n
	}
	return n + c.put(r, text[n:])
}

// percent reads %XX, however often the percent sign itself was escaped. text[0]
// is that sign however it is written.
func (c *cleaner) percent(text []byte) int {
	at := 1
	for at+1 < len(text) && text[at] == '2' && text[at+1] == '5' {
		at += 2
	}
	var char []byte
	var buf [utf8.UTFMax]byte
	for at+1 < len(text) && hexValue(text[at]) < 16 && hexValue(text[at+1]) < 16 {
		b := hexValue(text[at])<<4 | hexValue(text[at+1])
		at += 2
		if b < utf8.RuneSelf {
			if b <= ' ' {
				b = ' '
			}
			return at + c.put(rune(b), text[at:])
		}
		char = append(char, b)
		if len(char) == len(buf) || utf8.FullRune(char) || at >= len(text) || text[at] != '%' {
			break
		}
		at++
	}
	if r, _ := utf8.DecodeRune(char); len(char) > 0 && r != utf8.RuneError {
		c.put(r, nil)
		return at
	}
	c.out = append(c.out, '%')
	return 1
}

// reference reads a numeric character reference of HTML, of which text[0] is the
// first character however it is written.
func (c *cleaner) reference(text []byte) int {
	at := 1
	for bytes.HasPrefix(text[at:], []byte("amp;")) {
		at += 4
	}
	if at+1 < len(text) && text[at] == '#' {
		base, r, digits := rune(10), rune(0), 0
		at++
		if text[at]|0x20 == 'x' {
			base = 16
			at++
		}
		for ; at < len(text) && digits < 8 && rune(hexValue(text[at])) < base; at++ {
			r = r*base + rune(hexValue(text[at]))
			digits++
		}
		if digits > 0 && at < len(text) && text[at] == ';' && r > 0 && r <= utf8.MaxRune {
			return at + 1 + c.put(r, text[at+1:])
		}
	}
	c.out = append(c.out, '&')
	return 1
}
