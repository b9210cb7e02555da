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
	// indentMost is the deepest level that is indented further: a hostile value of ten
	// thousand levels would fill the screen with spaces.
	indentMost = 24

	// lineString is the maximum number of columns of a string in a JSON value on one
	// line, so that a long string does not hide what follows it.
	lineString = 40

	// leastRoom is the minimum number of columns for a string on each line, however deep
	// it is nested.
	leastRoom = 20

	// continued begins each continuation line of a string. It is to the left of the text,
	// so the text can't look like a member.
	continued = "│ "
)

// JSON returns the JSON value raw for display on as many lines as needed; nothing is left
// out. The order of members and the form of numbers are kept. Strings are shown decoded
// (\u0072m as rm), with quotes, backslashes and newlines escaped as in JSON and
// everything else as in Text. A string continues on a new line that begins with a bar,
// after each of its newlines and where it would exceed columns. If columns is less than
// 1, there is no limit. Invalid JSON, including duplicate names, is labelled as such and
// shown as text.
func JSON(raw []byte, columns int) Safe {
	p := &printer{columns: columns}
	if err := p.print(raw); err != nil {
		return "(this is not valid JSON) " + Bytes(raw)
	}
	return Safe(p.out.String())
}

// JSONLine returns the JSON value raw for display on one line of at most columns columns.
// Long strings are cut so that the members after them are visible; each cut says how many
// bytes are missing. If the line is cut, hint says where to see the rest. If columns is
// less than 1, the line has no limit.
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

// printer formats one JSON value.
type printer struct {
	out   strings.Builder
	short bool // on one line
	depth int

	columns int // on many lines: where strings are broken; 0 for nowhere

	// On one line: what fits into room columns, and how much of the value that is.
	room, cells, counted int
	fitOut, fitRaw       int
}

// fits records that the output so far ends at a token, where a line may be cut.
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

// value prints the next value. It does not recurse, since the sender controls the depth.
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

// separate prints what precedes a name or a value.
func (p *printer) separate(parent jsontext.Kind, isName, fresh bool) {
	if parent == 0 || parent == '{' && !isName {
		return
	}
	if !fresh {
		p.out.WriteByte(',')
	}
	p.newline(" ")
}

// newline begins a new line. In a one-line value it prints instead.
func (p *printer) newline(instead string) {
	if p.short {
		if s := p.out.String(); instead != "" && s[len(s)-1] == ',' {
			p.out.WriteString(instead)
		}
		return
	}
	p.out.WriteString("\n" + strings.Repeat("  ", min(p.depth, indentMost)))
}

// token prints a name, a scalar, or the start of an array or object.
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
	p.out.Write(raw) // a number, true, false or null: ASCII, unchanged
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

// lastLine returns the text after the last newline.
func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// shortString prints as much of s as lineString allows.
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

// escapeJSON returns the JSON escape of a character that has one, or shown; last is the
// last byte of the character.
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

// EscapeJSON returns raw, valid JSON, on one line. Each character in its strings that
// Text would escape is escaped as \uXXXX: the value is the same for a program, and safe
// on a terminal.
func EscapeJSON(raw []byte) Safe {
	var b strings.Builder
	at := 0
	each(string(raw), values, func(shown string, _, end int) bool {
		switch was := string(raw[at:end]); was {
		case "\t", "\n", "\r": // outside strings, since in strings they are escaped
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
