// Package tomledit parses TOML 1.1 for [edit].
//
// A TOML table may be scattered: its members can follow a header, use dotted keys, be in
// braces, or a mix of these. A new member becomes a line after the header, or before the first
// line, or pair in braces, that defines the table by a dotted key. Removing a member removes
// every line or pair that concerns it.
//
// The library's own decoder reads each text as well, because the parser that reports positions
// accepts some duplicate definitions and invalid numbers.
package tomledit

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// MaxDepth is the maximum nesting of tables and arrays.
const MaxDepth = 256

// Syntax is TOML 1.1. A byte order mark is accepted, as most readers do.
type Syntax struct{}

// Name implements [edit.Syntax].
func (Syntax) Name() string { return "toml" }

// Parse implements [edit.Syntax].
func (s Syntax) Parse(src []byte) (*edit.Document, error) { return edit.RequireNoDoubts(s.Read(src)) }

// Read implements [edit.Syntax]. An empty file is an empty table.
func (s Syntax) Read(src []byte) (*edit.Document, error) {
	d := edit.NewDocument(s, src)
	text, broken := edit.ReplaceInvalidUTF8(src)
	b := newBuilder(d, text)
	err := b.read()
	if err == nil {
		broken = slices.DeleteFunc(d.SetRoot(b.root.value).MarkInvalidUTF8(broken), func(at int) bool { return b.statementAt(at) == nil })
	}
	if len(broken) > 0 {
		err = d.NotUTF8(broken[0])
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// read builds the tree, and has the decoder check everything that is not doubtful.
func (b *builder) read() error {
	d := b.doc
	var p unstable.Parser
	p.Reset(b.src[d.Base():])
	for p.NextExpression() {
		if err := b.add(p.Expression()); err != nil {
			return err
		}
	}
	if err := p.Error(); err != nil {
		return parserError(d, &p, err)
	}
	if err := b.decode(); err != nil {
		return err
	}
	b.sort(b.root)
	return nil
}

// parserError converts an error of the parser. The error refers to a part of the text that the
// parser was given.
func parserError(d *edit.Document, p *unstable.Parser, err error) *edit.SyntaxError {
	var refused *unstable.ParserError
	at := 0
	if errors.As(err, &refused) {
		at = min(max(cap(p.Data())-cap(refused.Highlight), 0), len(p.Data()))
	}
	return d.ErrorAt(d.Base()+at, "%s", err)
}

// maxInvalidNumbers is the maximum number of invalid numbers in a file.
const maxInvalidNumbers = 16

// decode has the decoder check everything that is not doubtful. A scalar that the decoder
// rejects, such as a number that is too large, becomes doubtful.
func (b *builder) decode() error {
	text := bytes.Clone(b.src[b.doc.Base():])
	drop := func(s *statement) {
		for i := s.start - b.doc.Base(); i < s.end-b.doc.Base(); i++ {
			if text[i] != '\n' && text[i] != '\r' {
				text[i] = ' '
			}
		}
	}
	for _, s := range b.all {
		if s.doubtful {
			drop(s)
		}
	}
	for range maxInvalidNumbers {
		var values map[string]any
		err := toml.Unmarshal(text, &values)
		if err == nil {
			return nil
		}
		why := decoderError(err)
		at := b.offset(why)
		v := scalarAt(b.root.value, at)
		if v == nil {
			return why
		}
		v.Unsure = why
		drop(b.statementAt(at))
	}
	return b.doc.ErrorAt(b.doc.Base(), "more than %d numbers that are no numbers of TOML", maxInvalidNumbers)
}

// offset returns the offset in the file of an error.
func (b *builder) offset(e *edit.SyntaxError) int {
	at := b.doc.Base()
	for range e.Line - 1 {
		at = b.doc.Lines().End(at)
	}
	return at + e.Column - 1
}

// scalarAt returns the number or other scalar at an offset, or nil if there is none.
func scalarAt(v *edit.Value, at int) *edit.Value {
	for _, kid := range v.Kids {
		if found := scalarAt(kid, at); found != nil {
			return found
		}
	}
	if (v.Kind == edit.Number || v.Kind == edit.Other) && v.Start <= at && at < v.End {
		return v
	}
	return nil
}

// statementAt returns the statement at an offset, or nil if there is none.
func (b *builder) statementAt(at int) *statement {
	after, _ := slices.BinarySearchFunc(b.all, at+1, func(s *statement, at int) int { return s.start - at })
	if after == 0 || b.all[after-1].end <= at {
		return nil
	}
	return b.all[after-1]
}

func decoderError(err error) *edit.SyntaxError {
	var refused *toml.DecodeError
	if !errors.As(err, &refused) {
		return &edit.SyntaxError{Line: 1, Column: 1, Msg: err.Error()}
	}
	line, column := refused.Position()
	return &edit.SyntaxError{Line: line, Column: column, Msg: strings.TrimPrefix(refused.Error(), "toml: ")}
}

// Value implements [edit.Syntax].
func (s Syntax) Value(text string) (edit.Node, error) { return edit.LoneValue(s, separator, text) }

// Quote implements [edit.Syntax].
func (Syntax) Quote(s string) string {
	return edit.Quoted(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// quoteKey returns the text of a name. It adds quotes if they are needed.
func quoteKey(name string) string {
	const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if name != "" && strings.Trim(name, bare) == "" {
		return name
	}
	return Syntax{}.Quote(name)
}

// List implements [edit.Syntax].
func (Syntax) List(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// Table implements [edit.Syntax].
func (Syntax) Table(members []edit.Member) string {
	if len(members) == 0 {
		return "{}"
	}
	return "{ " + edit.Members(members, quoteKey, separator) + " }"
}

// separator is the default text between a name and its value.
const separator = " = "
