// Package jsonc parses JSON for [edit], optionally with comments and trailing commas. A byte
// order mark is always accepted.
//
// An object that has a name twice is a doubt ([edit.Doubt]): agents use the last value,
// libraries often the first. Nesting deeper than 256 levels is an error.
package jsonc

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// MaxDepth is the maximum nesting of objects and arrays.
const MaxDepth = 256

// Syntax says which extensions of JSON an agent accepts. The zero value is plain JSON; a byte
// order mark is always accepted.
type Syntax struct {
	Comments       bool // both // and /* */
	TrailingCommas bool
}

// parser parses one text.
type parser struct {
	doc    *edit.Document
	text   []byte // without the byte order mark
	syntax Syntax
}

// Name implements [edit.Syntax].
func (Syntax) Name() string { return "json" }

// Parse implements [edit.Syntax].
func (s Syntax) Parse(src []byte) (*edit.Document, error) { return edit.RequireNoDoubts(s.Read(src)) }

// Read implements [edit.Syntax].
func (s Syntax) Read(src []byte) (*edit.Document, error) {
	p := &parser{doc: edit.NewDocument(s, src), syntax: s}
	p.text = src[p.doc.Base():]
	if len(bytes.TrimSpace(p.text)) == 0 {
		return nil, &edit.SyntaxError{Line: 1, Column: 1, Msg: "the file is empty, where an object in braces was expected"}
	}
	if at := tooDeep(p.text); at >= 0 {
		return nil, p.errorAt(at, "nested deeper than %d levels", MaxDepth)
	}
	root, err := hujson.Parse(p.text)
	if err != nil && s.Comments { // the parser requires a line end after a comment in the last line
		if ended, failed := hujson.Parse(append(bytes.Clone(p.text), '\n')); failed == nil {
			root, err = ended, nil
		}
	}
	if err != nil {
		return nil, p.parseError(err)
	}
	if err := p.check(&root); err != nil {
		return nil, err
	}
	return p.doc.SetRoot(p.value(&root)), nil
}

// Value implements [edit.Syntax].
func (s Syntax) Value(text string) (edit.Node, error) {
	d, err := s.Parse([]byte(text))
	if err != nil {
		return edit.Node{}, err
	}
	return d.Root(), nil
}

// value converts v to the form used for editing.
func (p *parser) value(v *hujson.Value) *edit.Value {
	base := p.doc.Base()
	out := &edit.Value{Start: base + v.StartOffset, End: base + v.EndOffset}
	switch t := v.Value.(type) {
	case *hujson.Object:
		out.Kind = edit.Object
		for i := range t.Members {
			out.Names = append(out.Names, p.value(&t.Members[i].Name))
			out.Kids = append(out.Kids, p.value(&t.Members[i].Value))
		}
		out.Unsure = p.doc.FindDuplicateName(out)
	case *hujson.Array:
		out.Kind = edit.Array
		for i := range t.Elements {
			out.Kids = append(out.Kids, p.value(&t.Elements[i]))
		}
	case hujson.Literal:
		out.Kind, out.Text = edit.Kind(t.Kind()), string(t)
		switch out.Kind {
		case edit.String:
			out.Text = unquote(t)
		case 'f':
			out.Kind = edit.Bool
		}
	}
	return out
}

// Extent implements [edit.Syntax].
func (Syntax) Extent(n edit.Node) (edit.Span, error) {
	return edit.Span{Start: n.Value().Start, End: n.Value().End}, nil
}

// Lift implements [edit.Syntax].
func (s Syntax) Lift(text string, _ []string) (*edit.Document, []string, error) {
	d, err := s.Read([]byte(text))
	return d, nil, err
}

// Splices implements [edit.Syntax].
func (s Syntax) Splices(n edit.Node, op edit.Op) ([]edit.Splice, error) {
	if op.Do == edit.Replace || op.Do == edit.Paste {
		return []edit.Splice{{Start: n.Value().Start, End: n.Value().End, Text: op.Text}}, nil
	}
	return edit.NewList(n, ": ", commentEnd).Splices(n, op, Quote), nil
}

// errorAt returns an error at an offset in p.text.
func (p *parser) errorAt(offset int, format string, args ...any) *edit.SyntaxError {
	return p.doc.ErrorAt(p.doc.Base()+offset, format, args...)
}

// parserSays extracts the position from the text of a parser error.
var parserSays = regexp.MustCompile(`(?s)^hujson: line (\d+), column (\d+): (.*)$`)

func (p *parser) parseError(err error) *edit.SyntaxError {
	m := parserSays.FindStringSubmatch(err.Error())
	if m == nil {
		return &edit.SyntaxError{Line: 1, Column: 1, Msg: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	switch {
	case strings.HasPrefix(m[3], "parsing string: "): // reported at the end of the text
		return p.errorAt(lastQuote(p.text), "the quote that begins here has no end")
	case strings.HasPrefix(m[3], `invalid literal: "`) && strings.Contains(m[3], "\n"): // it goes on to the next quote
		return &edit.SyntaxError{Line: line, Column: column, Msg: "the quote that begins here has no end on its line"}
	}
	return &edit.SyntaxError{Line: line, Column: column, Msg: m[3]}
}

// lastQuote returns the offset of the last quote in text that no backslash escapes.
func lastQuote(text []byte) int {
	for i := len(text) - 1; i > 0; i-- {
		before := bytes.TrimRight(text[:i], `\`)
		if text[i] == '"' && (i-len(before))%2 == 0 {
			return i
		}
	}
	return 0
}

// tooDeep returns the offset at which text is nested deeper than MaxDepth, or -1. It runs
// before the parser, which is recursive. Up to the first error that the parser finds, both see
// the same strings and comments.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '/':
			i = commentEnd(text, i) - 1
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// stringEnd returns the offset after the string that begins at i, or the end of text if the
// string is not closed.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// commentEnd returns the offset after the comment that begins at i, or i+1 if no comment begins
// there.
func commentEnd(text []byte, i int) int {
	end := ""
	switch {
	case bytes.HasPrefix(text[i:], []byte("//")):
		end = "\n"
	case bytes.HasPrefix(text[i:], []byte("/*")):
		end = "*/"
	default:
		return i + 1
	}
	n := bytes.Index(text[i+2:], []byte(end))
	if n < 0 {
		return len(text)
	}
	return i + 2 + n + len(end)
}

// check validates v and everything in it against the syntax.
func (p *parser) check(v *hujson.Value) error {
	if err := p.checkExtra(v.BeforeExtra, v.StartOffset-len(v.BeforeExtra)); err != nil {
		return err
	}
	if err := p.checkExtra(v.AfterExtra, v.EndOffset); err != nil {
		return err
	}
	switch t := v.Value.(type) {
	case *hujson.Object:
		for i := range t.Members {
			if err := p.check(&t.Members[i].Name); err != nil {
				return err
			}
			if err := p.check(&t.Members[i].Value); err != nil {
				return err
			}
		}
		if n := len(t.Members); n > 0 {
			return p.checkEnd(&t.Members[n-1].Value, t.AfterExtra, v.EndOffset-1)
		}
		return p.checkExtra(t.AfterExtra, v.EndOffset-1-len(t.AfterExtra))
	case *hujson.Array:
		for i := range t.Elements {
			if err := p.check(&t.Elements[i]); err != nil {
				return err
			}
		}
		if n := len(t.Elements); n > 0 {
			return p.checkEnd(&t.Elements[n-1], t.AfterExtra, v.EndOffset-1)
		}
		return p.checkExtra(t.AfterExtra, v.EndOffset-1-len(t.AfterExtra))
	}
	return nil
}

// checkEnd validates the text between the last value of an object or array and the closing
// bracket. The parser sets AfterExtra of the value, even if to an empty one, when a comma
// follows.
func (p *parser) checkEnd(last *hujson.Value, after hujson.Extra, closing int) error {
	if last.AfterExtra != nil && !p.syntax.TrailingCommas {
		return p.errorAt(last.EndOffset+len(last.AfterExtra), "a comma after the last value, which this file's reader does not take")
	}
	return p.checkExtra(after, closing-len(after))
}

func (p *parser) checkExtra(extra hujson.Extra, offset int) error {
	if i := bytes.IndexByte(extra, '/'); i >= 0 && !p.syntax.Comments {
		return p.errorAt(offset+i, "a comment, which this file's reader does not take")
	}
	return nil
}

// Quote implements [edit.Syntax].
func (Syntax) Quote(s string) string { return Quote(s) }

// List implements [edit.Syntax].
func (Syntax) List(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// Table implements [edit.Syntax].
func (Syntax) Table(members []edit.Member) string {
	return "{" + edit.Members(members, Quote, ": ") + "}"
}

// Quote returns s as a JSON string. Bytes that are not UTF-8 stay as they are.
func Quote(s string) string {
	return edit.Quoted(s, func(r rune) bool { return r < ' ' })
}

// unquote returns the value of a well-formed JSON string. Unlike encoding/json, it does not
// replace lone surrogates and bytes that are not UTF-8 by U+FFFD: a lone surrogate becomes the
// three bytes that UTF-8 would use for it, so that different strings stay different.
func unquote(literal hujson.Literal) string {
	inner := string(literal[1 : len(literal)-1])
	if !strings.Contains(inner, `\`) {
		return inner
	}
	b := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			b = append(b, inner[i])
			continue
		}
		i++
		if inner[i] != 'u' {
			b = append(b, unescape(inner[i]))
			continue
		}
		r := hexRune(inner[i+1:])
		i += 4
		if utf16.IsSurrogate(r) && strings.HasPrefix(inner[i+1:], `\u`) {
			if pair := utf16.DecodeRune(r, hexRune(inner[i+3:])); pair != utf8.RuneError {
				r = pair
				i += 6
			}
		}
		b = appendRune(b, r)
	}
	return string(b)
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

func hexRune(s string) rune {
	n, _ := strconv.ParseUint(s[:4], 16, 16) // the parser has checked that there are four digits
	return rune(n)
}

// appendRune is like utf8.AppendRune, but encodes surrogates as if they were runes.
func appendRune(b []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(b, r)
}
