package edit

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Kind is what sort of value a [Node] is.
type Kind byte

// The kinds of values. Other is a scalar that only some syntaxes have, such as
// a date.
const (
	Absent Kind = 0
	Object Kind = '{'
	Array  Kind = '['
	String Kind = '"'
	Number Kind = '0'
	Bool   Kind = 't'
	Null   Kind = 'n'
	Other  Kind = '?'
)

// Value is what a [Syntax] makes of a piece of text. Offsets are those of the
// file.
type Value struct {
	Kind Kind
	// Start and End are where the value stands. A table whose members do not
	// stand together has no place of its own: both are where it is first
	// spoken of.
	Start, End int
	Text       string   // of a string what it stands for, of another scalar what is written
	Names      []*Value // of an object's members, one for each of Kids
	Kids       []*Value // items, or values of members
	Layout     any      // what its syntax has to know in order to edit it

	// Loose says that the text would not say the same elsewhere, Fixed why the
	// value and what is in it cannot be edited; it is empty when they can.
	Loose bool
	Fixed string

	// Unsure says why readers may take the value in different ways, and where. It is
	// nil when they don't. Nothing in such a value can be edited.
	Unsure *SyntaxError

	// Implied says that a table is there only because its members are.
	Implied bool
}

// Node is a value in a document. The zero Node stands for one that is not there.
type Node struct {
	d *Document
	v *Value
}

// Document returns the document that the node is of, nil when it is not there.
func (n Node) Document() *Document { return n.d }

// Value returns what the syntax made of the node, nil when it is not there. It
// must not be changed.
func (n Node) Value() *Value { return n.v }

// Kind returns what the node is, Absent when it is not there.
func (n Node) Kind() Kind {
	if n.v == nil {
		return Absent
	}
	return n.v.Kind
}

// Exists reports whether there is such a value.
func (n Node) Exists() bool { return n.v != nil }

// Raw returns the text of the value as written. It is empty when there is none,
// and for a table that has no place of its own.
func (n Node) Raw() string {
	if n.v == nil {
		return ""
	}
	return string(n.bytes())
}

// Fixed says where the value is and why it cannot be edited. It is empty when it
// can.
func (n Node) Fixed() string {
	switch {
	case n.v == nil || n.v.Unsure == nil && n.v.Fixed == "":
		return ""
	case n.v.Unsure != nil:
		return n.v.Unsure.Error()
	}
	return n.d.ErrorAt(n.v.Start, "%s", n.v.Fixed).Error()
}

// Implied reports whether the value is a table that is gone when its last member
// is.
func (n Node) Implied() bool { return n.v != nil && n.v.Implied }

// Written is a text for the value that can stand elsewhere: as it is written
// where that will do, and put together from its parts where it does not. It is
// empty only when there is no value; where nothing is written for null it is a
// blank.
func (n Node) Written() string {
	switch {
	case n.Kind() == Null && n.v.Start == n.v.End:
		return " "
	case !n.Exists() || !n.v.Loose && !n.scattered():
		return n.Raw()
	case n.Kind() == String:
		return n.d.syntax.Quote(n.v.Text)
	case n.Kind() != Object && n.Kind() != Array:
		return n.v.Text
	}
	var members []Member
	var items []string
	for step, kid := range n.Children() {
		text := kid.Written()
		members, items = append(members, Member{step, text}), append(items, text)
	}
	if n.Kind() == Array {
		return n.d.syntax.List(items)
	}
	return n.d.syntax.Table(members)
}

// bytes is Raw without a copy.
func (n Node) bytes() []byte { return n.d.src[n.v.Start:n.v.End] }

// Text returns the text that a string stands for, and what is written for any
// other value.
func (n Node) Text() string {
	if n.v == nil || n.v.Kind == Object || n.v.Kind == Array {
		return n.Raw()
	}
	return n.v.Text
}

// IsTrue reports whether the value is true.
func (n Node) IsTrue() bool { return n.Kind() == Bool && strings.EqualFold(n.v.Text, "true") }

// IsFalse reports whether the value is false.
func (n Node) IsFalse() bool { return n.Kind() == Bool && strings.EqualFold(n.v.Text, "false") }

// Member returns the member of an object with exactly this name.
func (n Node) Member(name string) Node {
	for key, value := range n.Members() {
		if key.v.Text == name {
			return value
		}
	}
	return Node{}
}

// Members yields the names, which are string nodes, and values of an object in
// their order; nothing for any other value.
func (n Node) Members() iter.Seq2[Node, Node] {
	return func(yield func(Node, Node) bool) {
		if n.Kind() != Object {
			return
		}
		for i, name := range n.v.Names {
			if !yield(Node{n.d, name}, Node{n.d, n.v.Kids[i]}) {
				return
			}
		}
	}
}

// Children yields the values that an object or array holds, in their order, each
// with the step that leads to it in a path.
func (n Node) Children() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		for name, value := range n.Members() {
			if !yield(name.Text(), value) {
				return
			}
		}
		for i, item := range n.Items() {
			if !yield(strconv.Itoa(i), item) {
				return
			}
		}
	}
}

// Items returns the items of an array; nothing for any other value.
func (n Node) Items() []Node {
	if n.Kind() != Array {
		return nil
	}
	items := make([]Node, len(n.v.Kids))
	for i, kid := range n.v.Kids {
		items[i] = Node{n.d, kid}
	}
	return items
}

// Place returns the line and column of the value, counted from 1.
func (n Node) Place() (line, column int) {
	if n.v == nil {
		return 0, 0
	}
	return n.d.Place(n.v.Start)
}

// Equal reports whether two values are the same: numbers as written, strings by
// what they stand for, objects whatever the order of their members.
func Equal(a, b Node) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case Object:
		for name, value := range a.Members() {
			if !Equal(value, b.Member(name.Text())) {
				return false
			}
		}
		return len(a.v.Kids) == len(b.v.Kids)
	case Array:
		return slices.EqualFunc(a.Items(), b.Items(), Equal)
	}
	return a.Kind() == Null || a.Text() == b.Text()
}

// Identical reports whether two values hold the same in the same order, names that
// are there twice included.
func Identical(a, b Node) bool {
	if !a.Exists() || !b.Exists() {
		return a.Exists() == b.Exists()
	}
	_, same := a.tree().compare(b.tree(), nil)
	return same
}

// Pointer writes a path as a JSON pointer, for people.
func Pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(step))
	}
	return b.String()
}
