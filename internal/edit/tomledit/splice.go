package tomledit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Extent implements [edit.Syntax]. The extent of a table that is written in lines begins with the first
// statement about it, with its header if it has one, and ends with the last.
func (s Syntax) Extent(n edit.Node) (edit.Span, error) {
	v := n.Value()
	t, isTable := v.Layout.(*table)
	switch {
	case v.Start < v.End:
		return edit.Span{Start: v.Start, End: v.End}, nil
	case !isTable || t.outer != nil:
		return edit.Span{}, errors.New("it has no text of its own")
	}
	own := map[*statement]bool{}
	for _, about := range t.about {
		for _, s := range about {
			own[s] = true
		}
	}
	if t.header != nil {
		own[t.header] = true
	}
	if len(own) == 0 {
		return edit.Span{}, errors.New("it has no line")
	}
	span := edit.Span{Start: len(n.Document().Bytes())}
	for s := range own {
		span.Start, span.End = min(span.Start, s.start), max(span.End, s.end)
	}
	root, _ := n.Document().Root().Value().Layout.(*table)
	for _, about := range root.about {
		for _, s := range about {
			if !own[s] && s.start < span.End && s.end > span.Start {
				return edit.Span{}, errors.New("its lines are not together")
			}
		}
	}
	return span, nil
}

// Lift implements [edit.Syntax].
func (s Syntax) Lift(text string, path []string) (*edit.Document, []string, error) {
	if edit.IsBraced(s, text) {
		return edit.LiftBraced(s, separator, text)
	}
	d, err := s.Read([]byte(text))
	if err != nil {
		return nil, nil, err
	}
	for i := range path { // dotted keys continue the path of a header, which is not part of the text
		if d.At(path[i:]).Exists() {
			return d, path[i:], nil
		}
	}
	return nil, nil, errors.New("it defines something else")
}

// Splices implements [edit.Syntax].
func (s Syntax) Splices(n edit.Node, op edit.Op) ([]edit.Splice, error) {
	if op.Do == edit.Paste {
		return op.Paste(n, func(text string) bool { return edit.IsBraced(s, text) })
	}
	v := n.Value()
	t, isTable := v.Layout.(*table)
	switch {
	case v.Start < v.End && op.Do == edit.Replace:
		return []edit.Splice{{Start: v.Start, End: v.End, Text: op.Text}}, nil
	case v.Start < v.End && !isTable:
		return edit.NewList(n, separator, edit.HashComment).Splices(n, op, quoteKey), nil
	case isTable && t.outer != nil:
		return t.betweenBraces(n, op)
	case !isTable || t.header == nil && t.first == nil && v != n.Document().Root().Value():
		return nil, fmt.Errorf("it has no line of its own")
	}
	l := lines{n.Document().Lines(), t}
	switch op.Do {
	case edit.Replace:
		return l.replace(op.Text)
	case edit.Enter:
		return []edit.Splice{l.insert(op.Members)}, nil
	}
	return l.drop(func(i int) bool { return op.Drops(n, i) }, true), nil
}

// betweenBraces returns the changes for op on an inline table, or on a table made by dotted
// keys in an inline table.
func (t *table) betweenBraces(n edit.Node, op edit.Op) ([]edit.Splice, error) {
	var spans []edit.Span
	for _, pair := range t.outer.pairs {
		spans = append(spans, edit.Span{Start: pair.start, End: pair.end})
	}
	list := edit.NewList(n.Document().NodeOf(t.outer.value), separator, edit.HashComment).Of(spans)
	switch op.Do {
	case edit.Replace:
		return nil, fmt.Errorf("it is made by dotted keys between braces")
	case edit.Enter:
		before, prefix := 0, ""
		if t != t.outer {
			before, prefix = slices.Index(t.outer.pairs, t.first), string(n.Document().Bytes()[t.first.start:t.prefix])+"."
		}
		var texts []string
		for _, m := range op.Members {
			texts = append(texts, list.Member(prefix+quoteKey(m.Name), m.Value))
		}
		return list.Insert(before, texts), nil
	}
	return list.Drop(func(i int) bool {
		for member, about := range t.about {
			if op.Drops(n, member) && slices.Contains(about, t.outer.pairs[i]) {
				return true
			}
		}
		return false
	}), nil
}

// lines is a table that is written line by line.
type lines struct {
	edit.Lines
	t *table
}

// insert inserts members before the first line of the table.
func (l lines) insert(members []edit.Member) edit.Splice {
	newline := l.Newline()
	var b strings.Builder
	for _, m := range members {
		b.WriteString(l.indent() + l.key(m.Name) + l.joint() + m.Value + newline)
	}
	at, text := l.place(), b.String()
	if at == len(l.Src) && at > l.Base && l.Src[at-1] != '\n' {
		text = newline + strings.TrimSuffix(text, newline)
	}
	return edit.Splice{Start: at, End: at, Text: text}
}

// place returns the offset at which the first line of the table begins, or would begin.
func (l lines) place() int {
	switch {
	case l.t.header != nil:
		return l.End(l.t.header.end)
	case l.t.first != nil:
		return l.Start(l.t.first.start)
	}
	first := len(l.Src) // the table is the root, which has only tables or nothing
	for _, about := range l.t.about {
		first = min(first, l.Start(about[0].start))
	}
	return first
}

// key returns the name of a member as written in the lines of the table.
func (l lines) key(name string) string {
	if l.t.prefix > 0 {
		return string(l.Src[l.t.first.start:l.t.prefix]) + "." + quoteKey(name)
	}
	return quoteKey(name)
}

func (l lines) indent() string {
	if l.t.first == nil {
		return ""
	}
	indent, _ := l.Indent(l.t.first.start)
	return indent
}

// joint returns the text between name and value in the first line of the table.
func (l lines) joint() string {
	for i, value := range l.t.value.Kids {
		if l.t.first == nil || value.Start < l.t.first.start || value.End != l.t.first.end {
			continue
		}
		if between := string(l.Src[l.t.value.Names[i].End:value.Start]); strings.Trim(between, " \t") == "=" {
			return between
		}
	}
	return separator
}

// replace replaces the members of the table by those of text, which must be a table.
func (l lines) replace(text string) ([]edit.Splice, error) {
	value, err := Syntax{}.Value(text)
	if err != nil || value.Kind() != edit.Object {
		return nil, fmt.Errorf("a table can only become another: %w", err)
	}
	var members []edit.Member
	for name, value := range value.Members() {
		members = append(members, edit.Member{Name: name.Text(), Value: value.Written()})
	}
	return append(l.drop(func(int) bool { return true }, false), l.insert(members)), nil
}

// drop removes all lines that concern the members for which gone returns true. Comments on
// lines of their own and comments after a value stay.
func (l lines) drop(gone func(int) bool, tidy bool) []edit.Splice {
	var out []edit.Splice
	for i, about := range l.t.about {
		if !gone(i) {
			continue
		}
		for _, s := range about {
			out = append(out, l.Without(s.start, s.end))
		}
	}
	return l.Join(out, tidy)
}
