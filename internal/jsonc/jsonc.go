// Package jsonc reads JSON for [edit], often with comments, trailing commas or a
// byte order mark.
//
// An object that has a name twice is doubtful: agents take the last, libraries
// often the first. Nesting past 256 is refused.
package jsonc

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/tailscale/hujson"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 256

// Syntax is what an agent takes besides plain JSON. The zero value takes
// nothing; a byte order mark is always taken.
type Syntax struct {
	Comments       bool // both // and /* */
	TrailingCommas bool
}

// parser reads one text.
type parser struct {
	doc    *edit.Document
	text   []byte // proper: without the byte order mark
	syntax Syntax
}

// Name implements [edit.Syntax].
func (Syntax) Name() string { return "json" }

// Parse implements [edit.Syntax].
func (s Syntax) Parse(src []byte) (*edit.Document, error) { return edit.Certain(s.Read(src)) }

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
	if err != nil && s.Comments { // the parser wants a comment in the last line to end
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

// value makes of v what editing needs to know of it.
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
		out.Unsure = p.doc.TwiceIn(out)
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

// Splices implements [edit.Syntax].
func (s Syntax) Splices(n edit.Node, op edit.Op) ([]edit.Splice, error) {
	if op.Do == edit.Replace {
		return []edit.Splice{{Start: n.Value().Start, End: n.Value().End, Text: op.Text}}, nil
	}
	return edit.NewList(n, ": ", commentEnd).Splices(n, op, Quote), nil
}

// errorAt takes an offset in the text proper.
func (p *parser) errorAt(offset int, format string, args ...any) *edit.SyntaxError {
	return p.doc.ErrorAt(p.doc.Base()+offset, format, args...)
}

// parserSays matches the text in which the parser hides the place.
var parserSays = regexp.MustCompile(`(?s)^hujson: line (\d+), column (\d+): (.*)$`)

func (p *parser) parseError(err error) *edit.SyntaxError {
	m := parserSays.FindStringSubmatch(err.Error())
	if m == nil {
		return &edit.SyntaxError{Line: 1, Column: 1, Msg: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	return &edit.SyntaxError{Line: line, Column: column, Msg: m[3]}
}
