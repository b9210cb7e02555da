// Package edit changes configuration files that belong to others, whatever
// syntax they are written in.
//
// Nothing is decoded and encoded again: a [Document] knows where each value
// stands in the text, an [Op] changes the text only where it must, and every
// other byte stays what it was. A [Syntax] reads the text and knows how its
// lists and tables are laid out; what is the same for all of them is here.
//
// An edit is proved before it is handed out. The result is parsed, and its
// values are compared with the values before, to which the same operations were
// applied as plain data; numbers are compared as written, names in their order.
// When the two differ by anything, there is no result.
package edit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Syntax is one way of writing a configuration file. The texts of values that
// it makes and takes can stand wherever a value can in such a file.
type Syntax interface {
	// Name tells the syntax from others: json, toml or yaml.
	Name() string
	// Read reads a whole file and keeps src, which the caller must not change
	// afterwards. What readers would take in different ways, such as a name that
	// is there twice, is among the [Document.Doubts], where it can be told what it
	// concerns. The error is a *[SyntaxError].
	Read(src []byte) (*Document, error)
	// Parse is Read, and refuses a file in which anything is doubtful.
	Parse(src []byte) (*Document, error)
	// Value reads the text of one value.
	Value(text string) (Node, error)
	// Quote is the text of a string.
	Quote(s string) string
	// List is the text of an array of values.
	List(values []string) string
	// Table is the text of an object, in which no name may be there twice.
	Table(members []Member) string
	// Splices returns what has to change in the text of n for op. Offsets are
	// those of the file's text.
	Splices(n Node, op Op) ([]Splice, error)
}

// SyntaxError says where a text is not what it should be. Lines and columns
// count from 1, columns in bytes.
type SyntaxError struct {
	Line, Column int
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// ByteOrderMark may stand before the text of a file in any syntax.
const ByteOrderMark = "\xef\xbb\xbf"

// Document is a parsed file. It keeps the text it was parsed from and does not
// change, so that it can be used by several goroutines at once.
type Document struct {
	syntax Syntax
	src    []byte
	base   int // where the text proper begins: past the byte order mark
	root   *Value
}

// NewDocument begins the document that a [Syntax] makes of src.
func NewDocument(syntax Syntax, src []byte) *Document {
	d := &Document{syntax: syntax, src: src}
	if bytes.HasPrefix(src, []byte(ByteOrderMark)) {
		d.base = len(ByteOrderMark)
	}
	return d
}

// SetRoot gives a document its outermost value, which ends its making.
func (d *Document) SetRoot(v *Value) *Document {
	d.root = v
	return d
}

// Syntax returns what the document is written in.
func (d *Document) Syntax() Syntax { return d.syntax }

// Bytes returns the text that was parsed. The caller must not change it.
func (d *Document) Bytes() []byte { return d.src }

// Base returns the offset at which the text proper begins, past a byte order
// mark.
func (d *Document) Base() int { return d.base }

// Root returns the outermost value.
func (d *Document) Root() Node { return Node{d, d.root} }

// NodeOf returns the node of a value that is in the document.
func (d *Document) NodeOf(v *Value) Node { return Node{d, v} }

// At returns the value at path: names of members, and indexes of items in
// decimal. Where there is none, the [Node] does not exist.
func (d *Document) At(path []string) Node {
	n := d.Root()
	for _, step := range path {
		if n.Kind() == Array {
			i, err := strconv.Atoi(step)
			items := n.Items()
			if err != nil || i < 0 || i >= len(items) {
				return Node{}
			}
			n = items[i]
			continue
		}
		n = n.Member(step)
	}
	return n
}

// Place turns an offset in the file into a line and a column, counted from 1. A
// byte order mark takes no column.
func (d *Document) Place(offset int) (line, column int) {
	before := d.src[d.base:max(offset, d.base)]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// ErrorAt says what is wrong at an offset of the file.
func (d *Document) ErrorAt(offset int, format string, args ...any) *SyntaxError {
	line, column := d.Place(offset)
	return &SyntaxError{line, column, fmt.Sprintf(format, args...)}
}

// Twice is the error for a name that is there twice.
func (d *Document) Twice(name string, first, second int) *SyntaxError {
	line, column := d.Place(first)
	return d.ErrorAt(second, "the name %q is there twice; first at line %d, column %d", name, line, column)
}

// TwiceIn is the error for the first name that an object has twice, nil when it
// has none.
func (d *Document) TwiceIn(v *Value) *SyntaxError {
	first := make(map[string]int, len(v.Names))
	for _, name := range v.Names {
		if at, twice := first[name.Text]; twice {
			return d.Twice(name.Text, at, name.Start)
		}
		first[name.Text] = name.Start
	}
	return nil
}

// Splice is a piece of a text to be replaced: its offsets, and what comes there.
type Splice struct {
	Start, End int
	Text       string
}

// Edit returns the text with all of ops carried out. No two may concern the
// same value, or one that lies in another. The result has been parsed again and
// proved to hold the values it should, and no others.
func (d *Document) Edit(ops ...Op) ([]byte, error) {
	var splices []Splice
	for _, op := range ops {
		n := d.At(op.Path)
		if !n.Exists() {
			return nil, fmt.Errorf("edit %s: there is no such value", display(op.Path))
		}
		err := op.fits(n)
		for i := range len(op.Path) + 1 {
			if fixed := d.At(op.Path[:i]).Fixed(); fixed != "" {
				err = fmt.Errorf("%s", fixed)
			}
		}
		var more []Splice
		if err == nil {
			more, err = d.syntax.Splices(n, op)
		}
		if err != nil {
			return nil, fmt.Errorf("edit %s: %w", display(op.Path), err)
		}
		splices = append(splices, more...)
	}
	result, err := d.join(splices)
	if err != nil {
		return nil, err
	}
	return result, d.prove(result, ops)
}

// join returns the text with the splices put in.
func (d *Document) join(splices []Splice) ([]byte, error) {
	slices.SortStableFunc(splices, func(a, b Splice) int { return cmp.Or(a.Start-b.Start, a.End-b.End) })
	out := bytes.NewBuffer(make([]byte, 0, len(d.src)+256*len(splices)))
	at := 0
	for _, s := range splices {
		if s.Start < at {
			return nil, fmt.Errorf("edit: two changes concern the same text at offset %d", s.Start)
		}
		out.Write(d.src[at:s.Start])
		out.WriteString(s.Text)
		at = s.End
	}
	out.Write(d.src[at:])
	return out.Bytes(), nil
}

func display(path []string) string {
	if len(path) == 0 {
		return "the whole file"
	}
	return Pointer(path)
}

// Op is one change to a document, as its constructors describe it.
type Op struct {
	Path    []string
	Do      Verb
	Text    string   // Replace: the new value
	Items   []string // Insert: the new items
	Members []Member // Enter: the new members
	Names   []string // Remove: names of members
	Count   int      // Shorten: how many items
}

// Verb is what an [Op] does.
type Verb byte

// The verbs, each with the constructor that makes it.
const (
	Replace Verb = iota // Set
	Insert              // Prepend
	Enter               // Add
	Shorten             // DropItems
	Remove              // DropMembers
)

// Member is a member to be added to an object: its name, and the text of its
// value in the syntax of the document.
type Member struct {
	Name, Value string
}

// Set replaces the value at path by the text value.
func Set(path []string, value string) Op { return Op{Path: path, Do: Replace, Text: value} }

// Prepend puts items, each the text of a value, before the first item of the
// array at path.
func Prepend(path []string, items ...string) Op { return Op{Path: path, Do: Insert, Items: items} }

// Add puts members before the first member of the object at path. None of the
// names may be there already.
func Add(path []string, members ...Member) Op { return Op{Path: path, Do: Enter, Members: members} }

// DropItems takes the first n items from the array at path. Comments stay.
func DropItems(path []string, n int) Op { return Op{Path: path, Do: Shorten, Count: n} }

// DropMembers takes the named members, all of which must be there, from the
// object at path. Comments stay.
func DropMembers(path []string, names ...string) Op {
	return Op{Path: path, Do: Remove, Names: names}
}

// fits reports why an operation can't be carried out on n, whatever the syntax.
func (op Op) fits(n Node) error {
	if op.Do == Replace {
		return nil
	}
	array := op.Do == Insert || op.Do == Shorten
	switch {
	case n.Kind() != Array && n.Kind() != Object:
		return fmt.Errorf("it is neither an object nor an array")
	case array && n.Kind() != Array:
		return fmt.Errorf("it is an object, not an array")
	case !array && n.Kind() != Object:
		return fmt.Errorf("it is an array, not an object")
	case op.Count > len(n.v.Kids):
		return fmt.Errorf("it has %d items, not %d", len(n.v.Kids), op.Count)
	}
	for _, m := range op.Members {
		if n.Member(m.Name).Exists() {
			return fmt.Errorf("it has a member %q already", m.Name)
		}
	}
	for _, name := range op.Names {
		if !n.Member(name).Exists() {
			return fmt.Errorf("it has no member %q", name)
		}
	}
	return nil
}

// Drops reports whether the operation takes away item or member i of n.
func (op Op) Drops(n Node, i int) bool {
	if op.Do == Shorten {
		return i < op.Count
	}
	return op.Do == Remove && slices.Contains(op.Names, n.v.Names[i].Text)
}
