package yamledit

import (
	"bytes"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

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
