package yamledit

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Reasons why a value can't be edited.
const (
	anchored = "it has an anchor or a tag, which other places may refer to; write it without"
	aliased  = "it is an alias of another place; write it out"
	merging  = "it merges another mapping (<<); write it out"
	ofLines  = "it is a block of text (| or >); put it between quotes on one line"
	overLine = "it is text without quotes over several lines; put it between quotes on one line"
	odd      = "it is written in an unusual way"
)

// block is the layout of a mapping or sequence that is written by indentation.
type block struct {
	starts []int // offset of each item's dash, or member's name
}

// builder converts the library's nodes to values, in the order of the text.
type builder struct {
	doc   *edit.Document
	src   []byte
	lines []int // offset of each line
}

func lineStarts(d *edit.Document) []int {
	starts := []int{d.Base()}
	for i, c := range d.Bytes() {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// offset returns the offset of a line and a column. The column counts characters.
func (b *builder) offset(line, column int) int {
	at := b.lines[min(line, len(b.lines))-1]
	for range column - 1 {
		if at >= len(b.src) {
			break
		}
		_, size := utf8.DecodeRune(b.src[at:])
		at += size
	}
	return at
}

// value converts n, whose text begins at or after the offset at. indent is the indentation, in
// columns, of the line that n belongs to, or -1.
func (b *builder) value(n *yaml.Node, at, indent, depth int) (*edit.Value, error) {
	v := &edit.Value{Kind: kindOf(n), Text: n.Value, Start: b.offset(n.Line, n.Column)}
	if depth > MaxDepth {
		return nil, b.doc.ErrorAt(v.Start, "nested deeper than %d levels", MaxDepth)
	}
	if v.Start < at && !b.isEmptyScalar(n) {
		return nil, b.unclearExtentError(v.Start)
	}
	if n.Kind == yaml.AliasNode {
		v.Fixed, v.Loose = aliased, n.Alias.Kind == yaml.ScalarNode
		v.Text, v.End = n.Alias.Value, b.word(v.Start)
		return v, nil
	}
	content := v.Start
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || b.isEmptyScalar(n) && b.hasProperty(at) {
		v.Fixed, v.Loose = anchored, true
		content = b.properties(v.Start)
	}
	var err error
	switch {
	case b.isEmptyScalar(n):
		b.empty(v, max(content, at))
	case n.Kind == yaml.ScalarNode:
		err = b.scalar(v, n, content, indent)
	case n.Style&yaml.FlowStyle != 0:
		err = b.flow(v, n, content, depth)
	case n.Kind == yaml.MappingNode:
		err = b.mapping(v, n, content, depth)
	default:
		err = b.sequence(v, n, content, depth)
	}
	return v, err
}

var kinds = map[string]edit.Kind{
	"!!str": edit.String, "!!int": edit.Number, "!!float": edit.Number, "!!bool": edit.Bool, "!!null": edit.Null,
}

func kindOf(n *yaml.Node) edit.Kind {
	if n.Kind == yaml.AliasNode && n.Alias.Kind != yaml.ScalarNode {
		return edit.Other
	}
	switch n.Kind {
	case yaml.MappingNode:
		return edit.Object
	case yaml.SequenceNode:
		return edit.Array
	}
	return cmp.Or(kinds[n.ShortTag()], edit.Other)
}

// unclearExtentError returns the error for a text whose parts are not where they should be.
func (b *builder) unclearExtentError(at int) error {
	return b.doc.ErrorAt(at, "it cannot be told for certain where this begins or ends")
}

// isEmptyScalar reports whether n is written as nothing.
func (b *builder) isEmptyScalar(n *yaml.Node) bool {
	const quotes = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&quotes == 0
}

// empty sets the position of a null that is written as nothing: directly after the colon or
// dash before it.
func (b *builder) empty(v *edit.Value, at int) {
	if v.Fixed != "" {
		v.End = at
		return
	}
	for at > b.doc.Base() && strings.IndexByte(edit.Blanks, b.src[at-1]) >= 0 {
		at--
	}
	v.Start, v.End = at, at
	if at == b.doc.Base() || b.src[at-1] != ':' && b.src[at-1] != '-' {
		v.Fixed = odd
	}
}

// hasProperty reports whether an anchor or tag comes next, starting at at.
func (b *builder) hasProperty(at int) bool {
	at = b.skip(at, "")
	return at < len(b.src) && strings.IndexByte("&!", b.src[at]) >= 0
}

// word returns the end of an alias, an anchor or a tag.
func (b *builder) word(at int) int {
	for at < len(b.src) && strings.IndexByte(edit.Blanks+",[]{}", b.src[at]) < 0 {
		at++
	}
	return at
}

// properties returns the start of the content of a value whose anchors or tags begin at at.
// Those on a later line would belong to a value inside it.
func (b *builder) properties(at int) int {
	line := b.doc.Lines().End(at)
	for at < line && at < len(b.src) && (b.src[at] == '&' || b.src[at] == '!') {
		end := b.word(at)
		if bytes.HasPrefix(b.src[at:], []byte("!<")) {
			end = at + 1 + max(bytes.IndexByte(b.src[at:], '>'), 0)
		}
		at = b.skip(end, "")
	}
	return at
}

// skip returns the offset of the first byte, starting at at, that is not white space, not part
// of a comment and not in more.
func (b *builder) skip(at int, more string) int {
	for at < len(b.src) {
		switch c := b.src[at]; {
		case strings.IndexByte(edit.Blanks+more, c) >= 0:
			at++
		case c == '#' && (at == b.doc.Base() || strings.IndexByte(edit.Blanks+more, b.src[at-1]) >= 0):
			at = edit.HashComment(b.src, at)
		default:
			return at
		}
	}
	return at
}

// scalar finds the end of a scalar that begins at content.
func (b *builder) scalar(v *edit.Value, n *yaml.Node, content, indent int) error {
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		v.End = b.quoted(content, '"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		v.End = b.quoted(content, '\'')
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		v.End, v.Loose = b.lineBlock(content, indent), true
		fix(v, ofLines)
	default:
		v.End = b.plain(content, n.Value)
		v.Loose = v.Loose || !harmless(n.Value)
		if strings.Trim(n.Value, "?:-") == "" { // a string only in some places
			fix(v, odd)
		}
	}
	if v.End < 0 {
		return b.unclearExtentError(content)
	}
	if bytes.IndexByte(b.src[v.Start:v.End], '\n') >= 0 {
		v.Loose = true
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
			fix(v, overLine)
		}
	}
	return nil
}

// quoted returns the offset after the closing quote, or -1 if there is none.
func (b *builder) quoted(at int, quote byte) int {
	if at >= len(b.src) || b.src[at] != quote {
		return -1
	}
	for at++; at < len(b.src); at++ {
		switch {
		case b.src[at] == '\\' && quote == '"':
			at++
		case b.src[at] != quote:
		case quote == '\'' && at+1 < len(b.src) && b.src[at+1] == quote:
			at++
		default:
			return at + 1
		}
	}
	return -1
}

// plain returns the offset after text, ignoring white space between its characters, or -1 if
// text is not found.
func (b *builder) plain(at int, text string) int {
	for i := 0; i < len(text); i++ {
		if strings.IndexByte(edit.Blanks, text[i]) >= 0 {
			continue
		}
		for at < len(b.src) && strings.IndexByte(edit.Blanks, b.src[at]) >= 0 {
			at++
		}
		if at == len(b.src) || b.src[at] != text[i] {
			return -1
		}
		at++
	}
	return at
}

// lineBlock returns the end of a block scalar: the end of its last line that is indented by
// more than indent.
func (b *builder) lineBlock(at, indent int) int {
	l := b.doc.Lines()
	end := at + len(bytes.TrimRight(b.src[at:l.End(at)], edit.Blanks))
	for next := l.End(at); next < len(b.src); next = l.End(next) {
		line := b.src[next:l.End(next)]
		text := bytes.TrimRight(line, edit.Blanks)
		if len(text) == 0 {
			continue
		}
		if len(text)-len(bytes.TrimLeft(text, " ")) <= indent {
			break
		}
		end = next + len(text)
	}
	return end
}

// column returns the column of an offset, counted from 0 in characters.
func (b *builder) column(at int) int {
	return utf8.RuneCount(b.src[b.doc.Lines().Start(at):at])
}

// fix sets the reason why a value can't be edited, unless it has one.
func fix(v *edit.Value, why string) {
	v.Fixed = cmp.Or(v.Fixed, why)
}

// mapping converts a mapping that is written by indentation. Its first name begins at content.
func (b *builder) mapping(v *edit.Value, n *yaml.Node, content, depth int) error {
	layout := &block{}
	v.Layout, v.Loose, v.End = layout, true, content
	indent := b.column(content)
	for i := 0; i < len(n.Content); i += 2 {
		name, err := b.name(v, n.Content[i], depth)
		if err != nil {
			return err
		}
		start := name.Start
		if start < v.End {
			return b.unclearExtentError(start)
		}
		if b.column(start) != indent { // after a question mark or an anchor
			fix(v, odd)
		}
		value, err := b.value(n.Content[i+1], b.pastColon(name), indent, depth+1)
		if err != nil {
			return err
		}
		layout.starts = append(layout.starts, start)
		v.Names, v.Kids, v.End = append(v.Names, name), append(v.Kids, value), value.End
	}
	v.Unsure = b.doc.FindDuplicateName(v)
	return nil
}

// name converts the name of a member.
func (b *builder) name(of *edit.Value, n *yaml.Node, depth int) (*edit.Value, error) {
	name, err := b.value(n, 0, -1, depth+1)
	if err != nil {
		return nil, err
	}
	if n.Kind != yaml.ScalarNode || name.Fixed != "" || b.isEmptyScalar(n) {
		fix(of, odd)
		name.Text = string(b.src[name.Start:name.End])
	}
	if n.ShortTag() == "!!merge" {
		fix(of, merging)
	}
	name.Kind = edit.String
	return name, nil
}

// pastColon returns the offset after the colon that follows a name, or the end of the name if
// there is none.
func (b *builder) pastColon(name *edit.Value) int {
	if at := b.skip(name.End, ""); at < len(b.src) && b.src[at] == ':' {
		return at + 1
	}
	return name.End
}

// sequence converts a sequence that is written by indentation. Its first dash is at content.
func (b *builder) sequence(v *edit.Value, n *yaml.Node, content, depth int) error {
	layout := &block{}
	v.Layout, v.Loose, v.End = layout, true, content
	for _, kid := range n.Content {
		dash := b.skip(v.End, "")
		if dash >= len(b.src) || b.src[dash] != '-' || b.column(dash) != b.column(content) {
			return b.unclearExtentError(content)
		}
		value, err := b.value(kid, dash+1, b.column(dash), depth+1)
		if err != nil {
			return err
		}
		layout.starts = append(layout.starts, dash)
		v.Kids, v.End = append(v.Kids, value), value.End
	}
	return nil
}

// flow converts a mapping or sequence in brackets that begins at content.
func (b *builder) flow(v *edit.Value, n *yaml.Node, content, depth int) error {
	closing := byte(']')
	if n.Kind == yaml.MappingNode {
		closing = '}'
	}
	bracketed := content < len(b.src) && b.src[content] == closing-2
	at := content
	if bracketed {
		at++
	}
	for i, kid := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			name, err := b.name(v, kid, depth)
			if err != nil {
				return err
			}
			v.Names, at = append(v.Names, name), b.pastColon(name)
			continue
		}
		value, err := b.value(kid, at, -1, depth+1)
		if err != nil {
			return err
		}
		v.Kids, at = append(v.Kids, value), max(at, value.End)
	}
	if !bracketed { // a single pair in a sequence needs no braces
		v.End = at
		fix(v, odd)
		return nil
	}
	if at = b.skip(at, ","); at >= len(b.src) || b.src[at] != closing {
		return b.unclearExtentError(content)
	}
	v.End = at + 1
	if v.Loose = v.Loose || bytes.IndexByte(b.src[v.Start:v.End], '\n') >= 0; !v.Loose {
		for _, kid := range v.Kids {
			v.Loose = v.Loose || kid.Loose
		}
	}
	v.Unsure = b.doc.FindDuplicateName(v)
	return nil
}
