package edit

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a [Node].
type Kind byte

// The kinds of values. Other is a scalar that only some syntaxes have, such as a date.
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

// Value is a parsed value. Offsets are those of the file.
type Value struct {
	Kind Kind
	// Start and End delimit the text of the value. For a table whose members are scattered over
	// the file, both are the offset at which it is first mentioned.
	Start, End int
	Text       string   // value of a string, or text of another scalar
	Names      []*Value // names of an object's members, parallel to Kids
	Kids       []*Value // items of an array, or values of members
	Layout     any      // data that the syntax needs for editing

	// Loose reports that the text could have another meaning elsewhere in the file. Fixed says
	// why the value and the values in it can't be edited; it is empty if they can.
	Loose bool
	Fixed string

	// Unsure says why and where readers may take the value in different ways. It is nil if they
	// don't. Such a value and the values in it can't be edited.
	Unsure *SyntaxError

	// Implied reports that a table exists only because its members do.
	Implied bool
}

// Node is a value in a document. The zero Node stands for a value that does not exist.
type Node struct {
	d *Document
	v *Value
}

// Document returns the document of the node, or nil if the node does not exist.
func (n Node) Document() *Document { return n.d }

// Value returns the parsed value of the node, or nil if the node does not exist. The caller
// must not change it.
func (n Node) Value() *Value { return n.v }

// Kind returns the kind of the node, or Absent if it does not exist.
func (n Node) Kind() Kind {
	if n.v == nil {
		return Absent
	}
	return n.v.Kind
}

// Exists reports whether the node exists.
func (n Node) Exists() bool { return n.v != nil }

// Raw returns the text of the value as written. It is empty if the node does not exist, and for
// a table whose members are scattered.
func (n Node) Raw() string {
	if n.v == nil {
		return ""
	}
	return string(n.bytes())
}

// Fixed returns where the value is and why it can't be edited, or "" if it can.
func (n Node) Fixed() string {
	switch {
	case n.v == nil || n.v.Unsure == nil && n.v.Fixed == "":
		return ""
	case n.v.Unsure != nil:
		return n.v.Unsure.Error()
	}
	return n.d.ErrorAt(n.v.Start, "%s", n.v.Fixed).Error()
}

// Implied reports whether the value is a table that disappears with its last member.
func (n Node) Implied() bool { return n.v != nil && n.v.Implied }

// Written returns a text for the value that is valid elsewhere in the file: the original text
// if possible, otherwise a text made from its parts. It is empty only if the node does not
// exist; for a null written as nothing it is a blank.
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

// Text returns the value of a string, or the original text of any other value.
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

// Members yields the names, as string nodes, and the values of an object in order. It yields
// nothing for any other value.
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

// Children yields the values in an object or array in order, each with its step in a path.
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

// Items returns the items of an array, or nil for any other value.
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

// Equal reports whether two values are equal. Numbers are compared as written, strings by
// value, and objects without regard to the order of their members.
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

// Identical reports whether two values are equal in the same order, including names that occur
// twice.
func Identical(a, b Node) bool {
	if !a.Exists() || !b.Exists() {
		return a.Exists() == b.Exists()
	}
	_, same := a.v.compare(b.v, nil)
	return same
}

// Pointer returns a path as a JSON pointer, for display.
func Pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(step))
	}
	return b.String()
}
