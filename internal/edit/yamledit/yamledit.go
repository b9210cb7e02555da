// Package yamledit parses YAML for [edit].
//
// The library reports where a value begins but not where it ends. This package looks for the
// end: the closing quote or bracket, or the end of the text of a plain value. It rejects a text
// whose end it can't find.
//
// Values that have several readings, or that affect other places, are parsed but never edited:
// anchors, aliases, tags, merged mappings, block scalars, and plain scalars over several lines.
package yamledit

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// MaxDepth is the maximum nesting of mappings and sequences.
const MaxDepth = 256

// Syntax is YAML 1.2. A file must hold one document. A byte order mark is accepted.
type Syntax struct{}

// Name implements [edit.Syntax].
func (Syntax) Name() string { return "yaml" }

// Parse implements [edit.Syntax].
func (s Syntax) Parse(src []byte) (*edit.Document, error) { return edit.RequireNoDoubts(s.Read(src)) }

// Read implements [edit.Syntax]. A file without content is an empty mapping.
func (s Syntax) Read(src []byte) (*edit.Document, error) {
	d := edit.NewDocument(s, src)
	text, broken := edit.ReplaceInvalidUTF8(src)
	root, err := s.read(d, text)
	if err == nil {
		broken = d.SetRoot(root).MarkInvalidUTF8(broken)
	}
	if len(broken) > 0 {
		err = d.NotUTF8(broken[0])
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// read parses src, the text of d with the bytes replaced that are not UTF-8.
func (s Syntax) read(d *edit.Document, src []byte) (*edit.Value, error) {
	if err := checkCharacters(d, src); err != nil {
		return nil, err
	}
	if blank(src[d.Base():]) {
		return &edit.Value{Kind: edit.Object, Start: d.Base(), End: d.Base(), Fixed: "the file is empty"}, nil
	}
	src = withoutVersion(src, d.Base())
	b := &builder{doc: d, src: src, lines: lineStarts(d)}
	var document yaml.Node
	if err := yaml.Load(src[d.Base():], &document); err != nil {
		return nil, b.loadError(err)
	}
	root, err := b.value(document.Content[0], d.Base(), -1, 0)
	if err != nil {
		return nil, err
	}
	if root.Kind != edit.Object && root.Kind != edit.Array {
		fix(root, odd) // the file is one scalar
	}
	return root, nil
}

// checkCharacters rejects characters that only some readers take for a line ending.
func checkCharacters(d *edit.Document, src []byte) error {
	for i := d.Base(); i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == '\r' && !bytes.HasPrefix(src[i:], []byte("\r\n")) {
			return d.ErrorAt(i, "the character %U, which not all readers take for the same", r)
		}
		i += size
	}
	return nil
}

// versionLine matches a %YAML 1.x directive. Files are read as if it were not there; the
// library accepts only 1.1.
var versionLine = regexp.MustCompile(`^(?:[ \t]*(?:#[^\n]*)?\r?\n)*%YAML[ \t]+1\.[0-9]+[ \t]*(?:#[^\n]*)?\r?\n`)

// withoutVersion returns src with the %YAML directive turned into a comment of the same length.
func withoutVersion(src []byte, base int) []byte {
	at := versionLine.FindIndex(src[base:])
	if at == nil {
		return src
	}
	src = bytes.Clone(src)
	src[base+bytes.LastIndexByte(src[base:base+at[1]], '%')] = '#'
	return src
}

// blank reports whether text has only white space and comments.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// loadError converts an error of the library, with its position.
func (b *builder) loadError(err error) *edit.SyntaxError {
	var refused *yaml.LoadError
	if !errors.As(err, &refused) {
		return &edit.SyntaxError{Line: 1, Column: 1, Msg: err.Error()}
	}
	if strings.Contains(refused.ContextMsg, "quoted scalar") { // the error is at the end of the text, and the quote is not
		return b.doc.ErrorAt(b.offset(max(refused.ContextMark.Line, 1), max(refused.ContextMark.Column, 1)), "the quote that begins here has no end")
	}
	msg := refused.Message
	if refused.ContextMsg != "" {
		msg = refused.ContextMsg + ": " + msg
	}
	return b.doc.ErrorAt(b.offset(max(refused.Mark.Line, 1), max(refused.Mark.Column, 1)), "%s", msg)
}

// Value implements [edit.Syntax].
func (s Syntax) Value(text string) (edit.Node, error) {
	if blank([]byte(text)) {
		return edit.NewDocument(s, []byte(text)).SetRoot(&edit.Value{Kind: edit.Null}).Root(), nil
	}
	return edit.LoneValue(s, ": ", text)
}

// Quote implements [edit.Syntax].
func (Syntax) Quote(s string) string {
	return edit.Quoted(s, func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
	})
}

// quoteKey returns the text of a name in a block mapping. It adds quotes where they may be
// needed.
func quoteKey(name string) string {
	if harmless(name) {
		return name
	}
	return Syntax{}.Quote(name)
}

// harmless reports whether s is the same string anywhere without quotes. It is stricter than
// necessary.
func harmless(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if s == "" || !strings.ContainsRune(letters+"/_", rune(s[0])) || strings.Trim(s, letters+"0123456789_-./+") != "" {
		return false
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

// List implements [edit.Syntax].
func (Syntax) List(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// Table implements [edit.Syntax].
func (s Syntax) Table(members []edit.Member) string {
	return "{" + edit.Members(members, s.Quote, ": ") + "}"
}
