package yamledit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Why a value is never edited.
const (
	anchored = "it has an anchor or a tag, which other places may refer to; write it without"
	aliased  = "it is an alias of another place; write it out"
	merging  = "it merges another mapping (<<); write it out"
	ofLines  = "it is a block of text (| or >); put it between quotes on one line"
	overLine = "it is text without quotes over several lines; put it between quotes on one line"
	odd      = "it is written in an unusual way"
)

// block says that a mapping or sequence is written by indentation. It is the
// layout of such a value.
type block struct {
	starts []int // of each item's dash, or member's name
}

// builder makes values of the library's nodes, in the order of the text.
type builder struct {
	doc   *edit.Document
	src   []byte
	lines []int // where each line begins
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

// offset finds a line and a column, which counts characters.
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

// value makes a value of n, which stands somewhere from at on and belongs to a
// line that is indented by so many columns, -1 for none.
func (b *builder) value(n *yaml.Node, at, indent, depth int) (*edit.Value, error) {
	v := &edit.Value{Kind: kindOf(n), Text: n.Value, Start: b.offset(n.Line, n.Column)}
	if depth > MaxDepth {
		return nil, b.doc.ErrorAt(v.Start, "nested deeper than %d levels", MaxDepth)
	}
	if v.Start < at && !b.nothing(n) {
		return nil, b.unsure(v.Start)
	}
	if n.Kind == yaml.AliasNode {
		v.Fixed, v.Loose = aliased, n.Alias.Kind == yaml.ScalarNode
		v.Text, v.End = n.Alias.Value, b.word(v.Start)
		return v, nil
	}
	content := v.Start
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || b.nothing(n) && b.hasProperty(at) {
		v.Fixed, v.Loose = anchored, true
		content = b.properties(v.Start)
	}
	var err error
	switch {
	case b.nothing(n):
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
	if kind, ok := kinds[n.ShortTag()]; ok {
		return kind
	}
	return edit.Other
}

// unsure refuses a text whose parts are not found where they should be.
func (b *builder) unsure(at int) error {
	return b.doc.ErrorAt(at, "it cannot be told for certain where this begins or ends")
}

// nothing reports whether nothing is written for n.
func (b *builder) nothing(n *yaml.Node) bool {
	const quotes = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&quotes == 0
}

// empty gives a null for which nothing is written its place: right behind the
// colon or dash that it follows.
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

// hasProperty reports whether an anchor or tag is the next thing from at on.
func (b *builder) hasProperty(at int) bool {
	at = b.skip(at, "")
	return at < len(b.src) && strings.IndexByte("&!", b.src[at]) >= 0
}

// word returns where an alias, an anchor or a tag ends.
func (b *builder) word(at int) int {
	for at < len(b.src) && strings.IndexByte(edit.Blanks+",[]{}", b.src[at]) < 0 {
		at++
	}
	return at
}

// properties returns where the content begins of a value with anchors or tags,
// which begin at at. On another line they would be those of what is in the value.
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

// skip returns the offset of the first byte from at on that is neither blank nor
// in a comment nor one of more.
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

// scalar finds the end of a text that begins at content.
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
		if strings.Trim(n.Value, "?:-") == "" { // text in some places only
			fix(v, odd)
		}
	}
	if v.End < 0 {
		return b.unsure(content)
	}
	if bytes.IndexByte(b.src[v.Start:v.End], '\n') >= 0 {
		v.Loose = true
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
			fix(v, overLine)
		}
	}
	return nil
}

// quoted returns the offset past the closing quote, -1 when there is none.
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

// plain returns the offset at which all of text has been seen, whatever blanks
// stand between its characters, -1 when it is not there.
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

// lineBlock returns where a block of text ends: behind its last line that is
// indented by more than the line it belongs to.
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

// column counts from 0, in characters.
func (b *builder) column(at int) int {
	return utf8.RuneCount(b.src[b.doc.Lines().Start(at):at])
}

// fix notes why a value cannot be edited, unless it has a reason already.
func fix(v *edit.Value, why string) {
	if v.Fixed == "" {
		v.Fixed = why
	}
}

// mapping reads one that is written by indentation, and whose first name stands
// at content.
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
			return b.unsure(start)
		}
		if b.column(start) != indent { // behind a question mark, or an anchor
			fix(v, odd)
		}
		value, err := b.value(n.Content[i+1], b.pastColon(name), indent, depth+1)
		if err != nil {
			return err
		}
		layout.starts = append(layout.starts, start)
		v.Names, v.Kids, v.End = append(v.Names, name), append(v.Kids, value), value.End
	}
	b.doubtNames(v)
	return nil
}

// name reads the name of a member.
func (b *builder) name(of *edit.Value, n *yaml.Node, depth int) (*edit.Value, error) {
	name, err := b.value(n, 0, -1, depth+1)
	if err != nil {
		return nil, err
	}
	if n.Kind != yaml.ScalarNode || name.Fixed != "" || b.nothing(n) {
		fix(of, odd)
		name.Text = string(b.src[name.Start:name.End])
	}
	if n.ShortTag() == "!!merge" {
		fix(of, merging)
	}
	name.Kind = edit.String
	return name, nil
}

// pastColon returns the offset behind the colon that follows a name, or where
// the name ends when there is none.
func (b *builder) pastColon(name *edit.Value) int {
	if at := b.skip(name.End, ""); at < len(b.src) && b.src[at] == ':' {
		return at + 1
	}
	return name.End
}

func (b *builder) doubtNames(v *edit.Value) {
	if twice := b.doc.TwiceIn(v); twice != nil {
		v.Unsure = twice
	}
}

// sequence reads one that is written by indentation, and whose first dash stands
// at content.
func (b *builder) sequence(v *edit.Value, n *yaml.Node, content, depth int) error {
	layout := &block{}
	v.Layout, v.Loose, v.End = layout, true, content
	for _, kid := range n.Content {
		dash := b.skip(v.End, "")
		if dash >= len(b.src) || b.src[dash] != '-' || b.column(dash) != b.column(content) {
			return b.unsure(content)
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

// flow reads a mapping or sequence between brackets, which begins at content.
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
	if !bracketed { // one pair in a sequence needs no braces
		v.End = at
		fix(v, odd)
		return nil
	}
	if at = b.skip(at, ","); at >= len(b.src) || b.src[at] != closing {
		return b.unsure(content)
	}
	v.End = at + 1
	if v.Loose = v.Loose || bytes.IndexByte(b.src[v.Start:v.End], '\n') >= 0; !v.Loose {
		for _, kid := range v.Kids {
			v.Loose = v.Loose || kid.Loose
		}
	}
	b.doubtNames(v)
	return nil
}
