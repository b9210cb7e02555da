package facts

import (
	"bytes"
	"unicode/utf8"
)

// cleaner converts a text to the form in which it is read. It decodes JSON escapes of any depth,
// percent-encoding, character references, terminal escapes and disguised letters, in a single
// pass, since each of them may be nested in another. It works on whole messages, so it accepts
// raw JSON strings as well as plain text, and treats quotes as text.
//
// The result is only examined, never forwarded. An escape that separates words (\n, \t) becomes a
// line end. Therefore `C:\new` is misread, which does no harm.
type cleaner struct {
	out    []byte
	hidden []byte // text in characters that are invisible on screens
}

// clean returns text in the form in which it is read. The result is valid until the next call. It
// is text itself if there is nothing to change.
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

// isSpecial marks the bytes that need handling: starts of escapes, control characters, and
// everything that is not ASCII.
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

// special handles what begins with a special byte, and returns its length.
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
	case b < utf8.RuneSelf: // other control characters are removed
		return 1
	}
	r, n := utf8.DecodeRune(text)
	c.put(r, nil)
	return n
}

// put writes a decoded character. It returns how many bytes of after, the text that follows, it
// has consumed.
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

// afterESC returns how many bytes of text, which follows an ESC, belong to a long terminal
// escape. It does not count short ones, since a model sees their letter.
func afterESC(text []byte) int {
	if len(text) == 0 || text[0] != '[' && text[0] != ']' {
		return 0
	}
	if n := escapeLength(text[:min(len(text), longestEscape)]); n > 1 { // otherwise it has no end
		return n
	}
	return 0
}

// backslash handles an escape. Before a letter without a meaning the backslash separates words,
// as in DOMAIN\user. Before punctuation it only protects it.
func (c *cleaner) backslash(text []byte) int {
	if len(text) < 2 {
		return 1
	}
	switch b := text[1]; b {
	case '\\': // the second one may begin an escape
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

// escaped writes the character r that the first n bytes of text stand for. If r begins an escape
// of another kind, it handles that, too: many JSON encoders write \u0026 for &.
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

// percent decodes %XX even if the percent sign itself is escaped, any number of times. text[0] is
// the last byte of that sign in whatever form.
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

// reference decodes a numeric character reference of HTML. text[0] is the last byte of the & in
// whatever form.
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
