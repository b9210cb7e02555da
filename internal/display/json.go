package display

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// indentMost is the deepest level that is still indented: a hostile value
	// of ten thousand levels would fill the screen with spaces.
	indentMost = 24

	// lineString is how many columns a string may take in a JSON value that is
	// shown on one line, so that a long one does not hide what follows it.
	lineString = 40

	// leastRoom is how many columns a string gets on each line however deep it
	// stands.
	leastRoom = 20

	// continued begins each further line of a string.
	// Since it stands left of the text, the text cannot look like a member.
	continued = "│ "
)

// JSON returns raw, a JSON value, for show on as many lines as it needs, and
// leaves nothing out. Members stay in their order and numbers as they were
// written. Strings are shown as whoever decodes them sees them, \u0072m as rm,
// with quotes, backslashes and newlines escaped as in JSON and all else as Text
// does it. After each newline in it, and where it would pass columns, a string
// goes on in a new line that begins with a bar. Fewer than one column means no
// limit. What is no JSON, or has a name twice, is said to be so and shown as
// text.
func JSON(raw []byte, columns int) Safe {
	p := &printer{columns: columns}
	if err := p.print(raw); err != nil {
		return "(this is not valid JSON) " + Bytes(raw)
	}
	return Safe(p.out.String())
}

// JSONLine returns raw, a JSON value, for show on one line of at most columns
// columns. Long strings are cut so that the members after them are seen; each
// cut says how many bytes are missing, and hint where to see them. Fewer than
// one column means no limit on the line.
func JSONLine(raw []byte, columns int, hint Safe) Safe {
	note := more(len(raw), hint)
	if Width(note) > columns/2 {
		note, hint = more(len(raw), ""), ""
	}
	p := &printer{short: true, room: columns - Width(note)}
	if err := p.print(raw); err != nil {
		return Clip("(this is not valid JSON) "+string(raw), columns, hint)
	}
	line := Safe(p.out.String())
	if columns < 1 || Width(line) <= columns {
		return line
	}
	return line[:p.fitOut] + more(len(raw)-p.fitRaw, hint)
}

// printer lays out one JSON value.
type printer struct {
	out   strings.Builder
	short bool // on one line
	depth int

	columns int // on many lines: where strings are broken, 0 for nowhere

	// On one line: what fits into room columns, and how much of the value it is.
	room, cells, counted int
	fitOut, fitRaw       int
}

// fits notes that everything up to here ends on a token, which is where a line
// may be cut.
func (p *printer) fits(raw int) {
	if !p.short || p.cells > p.room {
		return
	}
	p.cells += cells(p.out.String()[p.counted:])
	p.counted = p.out.Len()
	if p.cells <= p.room {
		p.fitOut, p.fitRaw = p.counted, raw
	}
}

func (p *printer) print(raw []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false))
	if err := p.value(dec); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// value prints the next value. It does not recurse: the depth is the sender's.
func (p *printer) value(dec *jsontext.Decoder) error {
	fresh := true // nothing printed yet on this level
	for {
		kind := dec.PeekKind()
		switch kind {
		case '}', ']':
			if _, err := dec.ReadToken(); err != nil {
				return err
			}
			p.depth--
			if !fresh {
				p.newline("")
			}
			p.out.WriteByte(byte(kind))
			fresh = false
		default:
			parent, n := dec.StackIndex(dec.StackDepth())
			isName := parent == '{' && n%2 == 0
			p.separate(parent, isName, fresh)
			opened, err := p.token(dec, kind)
			if err != nil {
				return err
			}
			if opened {
				p.depth++
			}
			fresh = opened
			if isName {
				p.out.WriteString(": ")
			}
		}
		p.fits(int(dec.InputOffset()))
		if dec.StackDepth() == 0 {
			return nil
		}
	}
}

// separate prints what stands before a name or a value.
func (p *printer) separate(parent jsontext.Kind, isName, fresh bool) {
	if parent == 0 || parent == '{' && !isName {
		return
	}
	if !fresh {
		p.out.WriteByte(',')
	}
	p.newline(" ")
}

// newline begins a new line, or on a single line prints instead.
func (p *printer) newline(instead string) {
	if p.short {
		if s := p.out.String(); instead != "" && s[len(s)-1] == ',' {
			p.out.WriteString(instead)
		}
		return
	}
	p.out.WriteString("\n" + strings.Repeat("  ", min(p.depth, indentMost)))
}

// token prints a name, a scalar, or the beginning of an array or object.
func (p *printer) token(dec *jsontext.Decoder, kind jsontext.Kind) (opened bool, err error) {
	switch kind {
	case '{', '[':
		_, err := dec.ReadToken()
		p.out.WriteByte(byte(kind))
		return true, err
	case '"':
		tok, err := dec.ReadToken()
		if err != nil {
			return false, err
		}
		p.string(tok.String())
		return false, nil
	}
	raw, err := dec.ReadValue()
	p.out.Write(raw) // a number, true, false or null: ASCII, as it was written
	return false, err
}

// string prints the decoded string s.
func (p *printer) string(s string) {
	if p.short {
		p.shortString(s)
		return
	}
	p.out.WriteByte('"')
	at := cells(lastLine(p.out.String()))
	indent := 2*min(p.depth, indentMost) + cells(continued)
	limit := max(p.columns-2, indent+leastRoom) // a quote and a comma follow
	each(s, prose, func(shown string, _, end int) bool {
		last := s[end-1]
		shown = escapeJSON(shown, last)
		w := cells(shown)
		if p.columns > 0 && at+w > limit {
			p.newline("")
			p.out.WriteString(continued)
			at = indent
		}
		p.out.WriteString(shown)
		at += w
		if last == '\n' && end < len(s) {
			p.newline("")
			p.out.WriteString(continued)
			at = indent
		}
		return true
	})
	p.out.WriteByte('"')
}

// lastLine returns what stands after the last newline.
func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// shortString prints as much of s as may be on a shared line.
func (p *printer) shortString(s string) {
	head := s[:min(len(s), 8*lineString)]
	for len(head) < len(s) && !utf8.RuneStart(s[len(head)]) {
		head = head[:len(head)-1]
	}
	used, at := 0, 0
	p.out.WriteByte('"')
	each(head, values, func(shown string, w, end int) bool {
		shown = escapeJSON(shown, head[end-1])
		if used += cells(shown); used > lineString {
			return false
		}
		at = end
		p.out.WriteString(shown)
		return true
	})
	p.out.WriteByte('"')
	if at < len(s) {
		p.out.WriteString(ellipsis + "+" + string(Count(len(s)-at)))
	}
}

// escapeJSON writes what JSON has an escape for in that way; last is the last
// byte of the character that is shown.
func escapeJSON(shown string, last byte) string {
	switch last {
	case '\\':
		return `\\`
	case '"':
		return `\"`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return shown
}

// EscapeJSON returns raw, valid JSON on one line, with each character in its
// strings that Text would write out escaped in the way of JSON: it is the same
// value for a program, and safe on a terminal.
func EscapeJSON(raw []byte) Safe {
	var b strings.Builder
	at := 0
	each(string(raw), values, func(shown string, _, end int) bool {
		switch was := string(raw[at:end]); was {
		case "\t", "\n", "\r": // not in a string, where they are escaped
			b.WriteByte(' ')
		case shown, `\`:
			b.WriteString(was)
		default:
			for _, unit := range utf16.Encode([]rune(was)) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		at = end
		return true
	})
	return Safe(b.String())
}
