package facts

import (
	"bytes"
	"encoding/hex"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
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

// lookalikes maps an ASCII character to characters that a reader or a model mistakes for it. It
// omits the forms that Unicode itself relates to another character (full-width, mathematical and
// circled letters, letters with accents), which are derived, see reduced. The list is maintained
// by hand. It need not cover all scripts, only what people find when they look for a substitute.
var lookalikes = map[rune]string{
	'a': "аɑαᴀ⍺", 'A': "АΑᎪᗅꓮ",
	'b': "ьЬвƄƃɓβʙᖯᏏ", 'B': "ВΒᏴᗷꓐ",
	'c': "сϲᴄƈⲥ", 'C': "СϹᏟꓚⲤ",
	'd': "ԁɗđðᴅᏧᑯꓒ", 'D': "ĐÐᎠᗞᗪꓓԀ",
	'e': "еєҽεɛəᴇ℮", 'E': "ЕΕƐᎬꓰⴹ⋿",
	'f': "ƒϝքꬵꜰẝ", 'F': "ϜᖴꓝƑ",
	'g': "ɡցǥԍɢᶃƍ", 'G': "ԌᏀᏳꓖ",
	'h': "һհнħɦʜᏂ", 'H': "НΗҺĦᎻᕼꓧⲎ",
	'i': "іıιɩɪᎥꙇ⍳", 'I': "ІΙӀƖꓲⲒⵏᛁ",
	'j': "јϳȷɟᴊ", 'J': "ЈͿᎫᒍꓙ",
	'k': "кκқƙĸᴋⲕ", 'K': "КΚҚᏦᛕꓗⲔ",
	'l': "ӏłɫƚǀʟ∣", 'L': "ŁᏞᒪꓡⳐ",
	'm': "мɱᴍ", 'M': "МΜϺᎷᗰᛖꓟⲘ",
	'n': "ոռпηɴƞ", 'N': "ΝꓠⲚ",
	'o': "оοօσøɵᴏჿଠഠဝዐⲟס", 'O': "ОΟՕØⵔꓳⲞ〇",
	'p': "рρþƿᴘⲣ⍴", 'P': "РΡᏢᑭꓑⲢ",
	'q': "ԛգզɋꞯ", 'Q': "Ԛⵕ",
	'r': "гᴦꭇꭈɾɼʀⲅ", 'R': "ƦᎡᏒᖇꓣ",
	's': "ѕꜱƽʂꙅ", 'S': "ЅՏᏕᏚꓢ",
	't': "тτŧƭᴛⲧ", 'T': "ТΤŦᎢꓔⲦ⊤⟙",
	'u': "υսᴜʋꞟꭎꭒ", 'U': "ՍᑌꓴƱ⋃∪",
	'v': "ѵνᴠ∨", 'V': "ѴᏙᐯꓦⴸ",
	'w': "ԝѡաωɯᴡ", 'W': "ԜᎳᏔꓪ",
	'x': "хχ×ᕁᕽⲭ", 'X': "ХΧꓫⲬ᙭ⵝ╳",
	'y': "уγүყɣʏỿ", 'Y': "УΥҮᎩᎽꓬⲨ",
	'z': "ᴢʐƶ", 'Z': "ΖƵᏃꓜ",
	'2': "Ƨ", '3': "ЗзƷȜ", '4': "Ꮞ", '5': "Ƽ", '6': "бᏮ", '8': "Ȣ",
	'-': "‐‒–⁃−➖", '_': "ˍ", '.': "。۔ꓸ", '/': "⁄∕╱", ':': "։ː꞉∶",
}

// glued are ligatures, with the letters that they stand for.
var glued = map[rune]string{'æ': "ae", 'Æ': "AE", 'ӕ': "ae", 'Ӕ': "AE", 'œ': "oe", 'Œ': "OE", 'ß': "ss", 'ẞ': "SS", 'ꜳ': "aa", 'ꝏ': "oo"}

// enclosed holds the first letter of each alphabet of enclosed letters that Unicode does not
// relate to plain letters.
var enclosed = []rune{0x1F150, 0x1F170, 0x1F1E6}

// unseen are invisible characters whose Unicode category does not say so.
var unseen = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"

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
