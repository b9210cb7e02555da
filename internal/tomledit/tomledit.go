// Package tomledit reads TOML 1.1 for [edit].
//
// A table of TOML need not stand in one piece: its members may be written under
// a header, with dotted keys, between braces, or partly each way. A member is
// added as a line of its own after the header, or before the first line, or pair
// between braces, that speaks of the table by a dotted key; it goes with all that
// speaks of it.
//
// The library's own decoder reads each text as well, since the parser that knows
// the places does not refuse what is defined twice.
package tomledit

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// MaxDepth is how deep tables and arrays may be nested.
const MaxDepth = 256

// Syntax is TOML 1.1. A byte order mark is taken, as most readers do.
type Syntax struct{}

// Name implements [edit.Syntax].
func (Syntax) Name() string { return "toml" }

// Parse implements [edit.Syntax]. An empty file is an empty table.
func (s Syntax) Parse(src []byte) (*edit.Document, error) {
	d := edit.NewDocument(s, src)
	b := newBuilder(d)
	var p unstable.Parser
	p.Reset(src[d.Base():])
	for p.NextExpression() {
		if err := b.add(p.Expression()); err != nil {
			return nil, err
		}
	}
	if err := p.Error(); err != nil {
		return nil, parserError(d, &p, err)
	}
	var values map[string]any
	if err := toml.Unmarshal(src[d.Base():], &values); err != nil {
		return nil, decoderError(err)
	}
	b.sort(b.root)
	return d.SetRoot(b.root.value), nil
}

// parserError finds the place of what the parser refuses: it names a piece of
// the text it was given.
func parserError(d *edit.Document, p *unstable.Parser, err error) *edit.SyntaxError {
	var refused *unstable.ParserError
	at := 0
	if errors.As(err, &refused) {
		at = min(max(cap(p.Data())-cap(refused.Highlight), 0), len(p.Data()))
	}
	return d.ErrorAt(d.Base()+at, "%s", err)
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
func (s Syntax) Value(text string) (edit.Node, error) { return edit.LoneValue(s, joint, text) }

// Quote implements [edit.Syntax].
func (Syntax) Quote(s string) string {
	return edit.Quoted(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// quoteKey writes a name, with quotes where it needs them.
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
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = quoteKey(m.Name) + joint + m.Value
	}
	return "{ " + strings.Join(texts, ", ") + " }"
}

// joint is what stands between a name and its value where nothing says better.
const joint = " = "

// commentEnd returns the offset past the comment that begins at i. When none
// begins there it is that of the next byte.
func commentEnd(text []byte, i int) int {
	if text[i] != '#' {
		return i + 1
	}
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}
