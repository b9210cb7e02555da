package tomledit

import (
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// statement says one thing: a header, or a key and its value. It takes a line, or
// more, or a part of one when it stands between braces. Offsets are those of the file, blanks and comments around it not
// counted.
type statement struct {
	start, end int
	header     bool
	doubtful   bool // it, or something in it, says again what was said
}

// table is a table in the making, and afterwards how it is laid out.
type table struct {
	value  *edit.Value
	pairs  []*statement   // between the braces, if it stands between some
	outer  *table         // the one between braces that its members stand in, itself maybe
	header *statement     // that opens the table, nil for none
	first  *statement     // the first key and value right in the table
	prefix int            // where in first the name of the table ends, 0 where first needs no prefix
	about  [][]*statement // what speaks of each member
	byName map[string]int
	inner  []*table // of each member, nil for what is no table
}

// builder puts statements together to a tree.
type builder struct {
	doc  *edit.Document
	src  []byte
	root *table
	open []step // from the root to the table that the last header opened
	in   *table // that table

	all  []*statement // that stand by themselves
	lost bool         // the last header opened a table that is there already
}

// step is a table, and which of its members the next step is.
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

// add takes up one expression of the parser.
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

// statement is where a key and its value stand.
func (b *builder) statement(n *unstable.Node) *statement {
	start := b.doc.Base() + int(n.Raw.Offset)
	return &statement{start: start, end: start + int(n.Raw.Length)}
}

// addHeader opens a table, or an array's next one.
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
		first := t.first
		if t.header != nil {
			first = t.header
		}
		b.doubt(b.open[len(b.open)-1].in, b.doc.Twice(last.text, first.start, s.start))
	} else {
		t.header = s
	}
	b.in, b.lost = t, s.doubtful
	return nil
}

// doubt notes that the last statement says again what was said in t, where what was
// said first stays.
func (b *builder) doubt(t *table, twice *edit.SyntaxError) {
	b.all[len(b.all)-1].doubtful = true
	if t.value.Unsure == nil {
		t.value.Unsure = twice
	}
}

// enter returns the table that t holds under a name, which it makes when there
// is none. Of an array of tables it is the last, or one more. Where the name stands
// for something else, which is doubtful, it is one that is nowhere.
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
		b.doubt(t, b.doc.Twice(key.text, t.value.Names[at].Start, key.start))
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

// addKey adds what a key and its value, which s is, say to t.
func (b *builder) addKey(t *table, n *unstable.Node, s *statement, depth int) error {
	path := b.names(n.Key())
	if depth += len(path); depth > MaxDepth {
		return b.doc.ErrorAt(path[0].start, "nested deeper than %d levels", MaxDepth)
	}
	if t.first == nil {
		t.first = s
	}
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
		b.doubt(t, b.doc.Twice(key.text, t.value.Names[at].Start, key.start))
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

// kinds are those of scalars; all others are Other.
var kinds = map[unstable.Kind]edit.Kind{
	unstable.String: edit.String, unstable.Bool: edit.Bool, unstable.Float: edit.Number, unstable.Integer: edit.Number,
}

// value makes a value of n, which begins at start, and the table if it is one.
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
	v := &edit.Value{Kind: edit.Other, Start: start, End: start + int(n.Raw.Length)}
	if kind, ok := kinds[n.Kind]; ok {
		v.Kind = kind
	}
	if v.Text = string(b.src[v.Start:v.End]); v.Kind == edit.String {
		v.Text = string(n.Data)
	}
	return v, nil, nil
}

// listBlanks are what may stand between the values of a list, beside comments.
const listBlanks = edit.Blanks + ","

// skip returns the offset of the first byte from at on that is none of blanks,
// past comments where those may stand.
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

// sort puts what stands right in a table before what headers further down add to
// it: that is the order in which lines can be added to it. Between tables order
// has no meaning.
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
