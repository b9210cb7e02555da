package tomledit

import (
	"cmp"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// statement is a header, or a key with its value. It takes one or more lines, or part of a line
// in an inline table. Offsets are those of the file, without the blanks and comments around it.
type statement struct {
	start, end int
	header     bool
	doubtful   bool // it, or something in it, defines something a second time
}

// table is a table while it is built, and its layout afterwards.
type table struct {
	value  *edit.Value
	pairs  []*statement   // key-value pairs of an inline table
	outer  *table         // the inline table that its members are written in, maybe itself; nil if there is none
	header *statement     // header of the table, nil if there is none
	first  *statement     // the first key and value directly in the table
	prefix int            // offset at which the name of the table ends in first, 0 if first needs no prefix
	about  [][]*statement // the statements that concern each member
	byName map[string]int
	inner  []*table // the table of each member, nil if the member is no table
}

// builder builds a tree from statements.
type builder struct {
	doc  *edit.Document
	src  []byte
	root *table
	open []step // path from the root to the table of the last header
	in   *table // the table of the last header

	all  []*statement // all statements outside of inline tables
	lost bool         // the last header is doubtful, and so is what follows it
}

// step is a table, and the index of the member that a path takes.
type step struct {
	in *table
	at int
}

func newTable(at int) *table {
	t := &table{value: &edit.Value{Kind: edit.Object, Start: at, End: at}, byName: map[string]int{}}
	t.value.Layout = t
	return t
}

func newBuilder(d *edit.Document, src []byte) *builder {
	root := newTable(d.Base())
	return &builder{doc: d, src: src, root: root, in: root}
}

// name is one part of a key.
type name struct {
	text       string
	start, end int
}

func (b *builder) names(keys unstable.Iterator) []name {
	var out []name
	for keys.Next() {
		raw := keys.Node().Raw
		start := b.doc.Base() + int(raw.Offset)
		out = append(out, name{string(keys.Node().Data), start, start + int(raw.Length)})
	}
	return out
}

// add adds an expression of the parser.
func (b *builder) add(n *unstable.Node) error {
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable:
		return b.addHeader(b.names(n.Key()), n.Kind == unstable.ArrayTable)
	case unstable.KeyValue:
		s := b.statement(n)
		s.doubtful = b.lost
		b.all = append(b.all, s)
		for _, above := range b.open {
			above.in.about[above.at] = append(above.in.about[above.at], s)
		}
		return b.addKey(b.in, n, s, len(b.open))
	}
	return nil
}

// statement returns the position of a key and its value.
func (b *builder) statement(n *unstable.Node) *statement {
	start := b.doc.Base() + int(n.Raw.Offset)
	return &statement{start: start, end: start + int(n.Raw.Length)}
}

// addHeader opens a table, or the next table of an array.
func (b *builder) addHeader(path []name, array bool) error {
	s := &statement{start: b.doc.Lines().Start(path[0].start), header: true}
	for s.start < path[0].start && b.src[s.start] != '[' {
		s.start++
	}
	s.end = path[len(path)-1].end
	for s.end < len(b.src) && b.src[s.end] != ']' {
		s.end++
	}
	if s.end++; array {
		s.end++
	}
	t, last := b.root, path[len(path)-1]
	b.open, b.all = nil, append(b.all, s)
	for i, key := range path {
		next := b.enter(t, key, array && i == len(path)-1)
		at := t.byName[key.text]
		t.about[at] = append(t.about[at], s)
		b.open = append(b.open, step{t, at})
		t = next
	}
	if len(path) > MaxDepth {
		return b.doc.ErrorAt(path[0].start, "nested deeper than %d levels", MaxDepth)
	}
	if t.header != nil || t.first != nil {
		b.doubt(b.open[len(b.open)-1].in, b.doc.DuplicateNameError(last.text, cmp.Or(t.header, t.first).start, s.start))
	} else {
		t.header = s
	}
	b.in, b.lost = t, s.doubtful
	return nil
}

// doubt marks the last statement as a second definition of something in t. The first definition
// stays.
func (b *builder) doubt(t *table, twice *edit.SyntaxError) {
	b.all[len(b.all)-1].doubtful = true
	t.value.Unsure = cmp.Or(t.value.Unsure, twice)
}

// enter returns the table with the given name in t, and makes it if there is none. In an array
// of tables, it returns the last one, or a new one if more is set. If the name stands for
// something else, that is doubtful, and the result is a table outside of the tree.
func (b *builder) enter(t *table, key name, more bool) *table {
	at, there := t.byName[key.text]
	if !there {
		next := newTable(key.start)
		next.outer = t.outer
		value := next.value
		if more {
			value = &edit.Value{Kind: edit.Array, Start: key.start, End: key.start, Kids: []*edit.Value{next.value}}
		}
		b.member(t, key, value, next)
		return next
	}
	value := t.value.Kids[at]
	if t.inner[at] == nil || t.inner[at].outer == t.inner[at] || more && value.Kind != edit.Array {
		b.doubt(t, b.doc.DuplicateNameError(key.text, t.value.Names[at].Start, key.start))
		return newTable(key.start)
	}
	if more {
		next := newTable(key.start)
		value.Kids, t.inner[at] = append(value.Kids, next.value), next
	}
	return t.inner[at]
}

// member adds a member to t.
func (b *builder) member(t *table, key name, value *edit.Value, inner *table) {
	t.byName[key.text] = len(t.value.Kids)
	t.value.Names = append(t.value.Names, &edit.Value{Kind: edit.String, Start: key.start, End: key.end, Text: key.text})
	t.value.Kids = append(t.value.Kids, value)
	t.about, t.inner = append(t.about, nil), append(t.inner, inner)
}

// addKey adds a key and its value to t. s is their statement.
func (b *builder) addKey(t *table, n *unstable.Node, s *statement, depth int) error {
	path := b.names(n.Key())
	if depth += len(path); depth > MaxDepth {
		return b.doc.ErrorAt(path[0].start, "nested deeper than %d levels", MaxDepth)
	}
	t.first = cmp.Or(t.first, s)
	for _, key := range path[:len(path)-1] {
		next := b.enter(t, key, false)
		if next.header == nil && next.first == nil {
			next.first, next.prefix, next.value.Implied = s, key.end, true
		}
		t.about[t.byName[key.text]] = append(t.about[t.byName[key.text]], s)
		t = next
	}
	key := path[len(path)-1]
	if at, twice := t.byName[key.text]; twice {
		b.doubt(t, b.doc.DuplicateNameError(key.text, t.value.Names[at].Start, key.start))
		return nil
	}
	value, inner, err := b.value(n.Value(), b.skip(key.end, " \t="), depth)
	if err != nil {
		return err
	}
	b.member(t, key, value, inner)
	t.about[t.byName[key.text]] = []*statement{s}
	return nil
}

// kinds maps the kinds of scalars. All others are Other.
var kinds = map[unstable.Kind]edit.Kind{
	unstable.String: edit.String, unstable.Bool: edit.Bool, unstable.Float: edit.Number, unstable.Integer: edit.Number,
}

// value converts n, which begins at start. It also returns the table if the value is one.
func (b *builder) value(n *unstable.Node, start, depth int) (*edit.Value, *table, error) {
	if depth > MaxDepth {
		return nil, nil, b.doc.ErrorAt(start, "nested deeper than %d levels", MaxDepth)
	}
	switch n.Kind {
	case unstable.InlineTable:
		t := newTable(start)
		t.outer = t
		at := start + 1
		for it := n.Children(); it.Next(); {
			kid := it.Node()
			s := b.statement(kid)
			t.pairs = append(t.pairs, s)
			if err := b.addKey(t, kid, s, depth); err != nil {
				return nil, nil, err
			}
			at = s.end
		}
		t.value.End = b.skip(at, listBlanks) + 1
		return t.value, t, nil
	case unstable.Array:
		v := &edit.Value{Kind: edit.Array, Start: start}
		at := start + 1
		for it := n.Children(); it.Next(); {
			kid, _, err := b.value(it.Node(), b.skip(at, listBlanks), depth+1)
			if err != nil {
				return nil, nil, err
			}
			v.Kids = append(v.Kids, kid)
			at = kid.End
		}
		v.End = b.skip(at, listBlanks) + 1
		return v, nil, nil
	}
	v := &edit.Value{Kind: cmp.Or(kinds[n.Kind], edit.Other), Start: start, End: start + int(n.Raw.Length)}
	if v.Text = string(b.src[v.Start:v.End]); v.Kind == edit.String {
		v.Text = string(n.Data)
	}
	return v, nil, nil
}

// listBlanks may separate the values of a list, in addition to comments.
const listBlanks = edit.Blanks + ","

// skip returns the offset of the first byte, starting at at, that is not in blanks. It skips
// comments if blanks is listBlanks.
func (b *builder) skip(at int, blanks string) int {
	for at < len(b.src) {
		switch {
		case slices.Contains([]byte(blanks), b.src[at]):
			at++
		case b.src[at] == '#' && blanks == listBlanks:
			at = edit.HashComment(b.src, at)
		default:
			return at
		}
	}
	return at
}

// sort moves the members that are written directly in a table before those that later headers
// add. Lines can only be added in this order. The order of tables has no meaning.
func (b *builder) sort(t *table) {
	var order []int
	for _, headers := range []bool{false, true} {
		for i := range t.value.Kids {
			if t.about[i][0].header == headers {
				order = append(order, i)
			}
		}
	}
	names, kids := slices.Clone(t.value.Names), slices.Clone(t.value.Kids)
	about, inner := slices.Clone(t.about), slices.Clone(t.inner)
	for to, from := range order {
		t.value.Names[to], t.value.Kids[to], t.about[to], t.inner[to] = names[from], kids[from], about[from], inner[from]
	}
	t.byName = nil
	for i, kid := range t.value.Kids {
		if kid.Kind == edit.Array {
			for _, item := range kid.Kids {
				if layout, ok := item.Layout.(*table); ok {
					b.sort(layout)
				}
			}
		} else if t.inner[i] != nil {
			b.sort(t.inner[i])
		}
	}
}
