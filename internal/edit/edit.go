// Package edit changes configuration files of other programs, independent of their syntax.
//
// Files are not decoded and encoded again. A [Document] knows where each value is in the text,
// an [Op] changes only the text that it must, and every other byte stays the same. A [Syntax]
// parses the text and knows the layout of lists and tables; this package has what all syntaxes
// share.
//
// An edit is verified before it is returned. The result is parsed, and its values are compared
// with the values before the edit, to which the same operations were applied as plain data.
// Numbers are compared as written, names in order. If there is any difference, the edit fails.
package edit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Syntax is a configuration file syntax. The texts of values that it returns and takes are
// valid anywhere in such a file where a value is.
type Syntax interface {
	// Name returns the name of the syntax: json, toml or yaml.
	Name() string
	// Read parses a whole file. It retains src, which the caller must not change afterwards.
	// What readers would take in different ways, such as a name that occurs twice, is reported
	// by [Document.Doubts] if it can be assigned to a value. The error is a *[SyntaxError].
	Read(src []byte) (*Document, error)
	// Parse is like Read, but also rejects a file that has doubts.
	Parse(src []byte) (*Document, error)
	// Value parses the text of one value.
	Value(text string) (Node, error)
	// Quote returns the text of a string.
	Quote(s string) string
	// List returns the text of an array of values.
	List(values []string) string
	// Table returns the text of an object. No name may occur twice.
	Table(members []Member) string
	// Extent returns the range of the text that holds the object n, complete with its layout, and
	// nothing of any other value. It is an error if there is no such range.
	Extent(n Node) (Span, error)
	// Lift parses text, the extent of the object at path in some file, as a file of its own. It
	// also returns the path of the object in it.
	Lift(text string, path []string) (*Document, []string, error)
	// Splices returns the changes to the text of n that op needs. Offsets are those of the
	// file.
	Splices(n Node, op Op) ([]Splice, error)
}

// SyntaxError reports where a text is invalid. Lines and columns count from 1, columns in
// bytes.
type SyntaxError struct {
	Line, Column int
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// ByteOrderMark may precede the text of a file in any syntax.
const ByteOrderMark = "\xef\xbb\xbf"

// Document is a parsed file. It retains the text it was parsed from. It does not change, so it
// is safe for concurrent use.
type Document struct {
	syntax Syntax
	src    []byte
	base   int // offset of the text after the byte order mark
	root   *Value
}

// NewDocument returns a document for src that has no values yet. A [Syntax] completes it by
// [Document.SetRoot].
func NewDocument(syntax Syntax, src []byte) *Document {
	d := &Document{syntax: syntax, src: src}
	if bytes.HasPrefix(src, []byte(ByteOrderMark)) {
		d.base = len(ByteOrderMark)
	}
	return d
}

// SetRoot sets the outermost value, which completes the document.
func (d *Document) SetRoot(v *Value) *Document {
	d.root = v
	return d
}

// Syntax returns the syntax of the document.
func (d *Document) Syntax() Syntax { return d.syntax }

// Bytes returns the text that was parsed. The caller must not change it.
func (d *Document) Bytes() []byte { return d.src }

// Base returns the offset of the text after the byte order mark, or 0 if there is none.
func (d *Document) Base() int { return d.base }

// Root returns the outermost value.
func (d *Document) Root() Node { return Node{d, d.root} }

// NodeOf returns the node of a value of the document.
func (d *Document) NodeOf(v *Value) Node { return Node{d, v} }

// At returns the value at path, whose steps are names of members and decimal indexes of items.
// If there is no such value, it returns the zero [Node].
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

// Place returns the line and column of an offset in the file, counted from 1. A byte order mark
// takes no column.
func (d *Document) Place(offset int) (line, column int) {
	before := d.src[d.base:max(offset, d.base)]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// ErrorAt returns an error at an offset of the file.
func (d *Document) ErrorAt(offset int, format string, args ...any) *SyntaxError {
	line, column := d.Place(offset)
	return &SyntaxError{line, column, fmt.Sprintf(format, args...)}
}

// DuplicateNameError returns the error for a name that occurs twice, at the offsets first and second.
func (d *Document) DuplicateNameError(name string, first, second int) *SyntaxError {
	line, column := d.Place(first)
	return d.ErrorAt(second, "the name %q is there twice; first at line %d, column %d", name, line, column)
}

// FindDuplicateName returns the error for the first name that an object has twice, or nil if there is
// none.
func (d *Document) FindDuplicateName(v *Value) *SyntaxError {
	first := make(map[string]int, len(v.Names))
	for _, name := range v.Names {
		if at, twice := first[name.Text]; twice {
			return d.DuplicateNameError(name.Text, at, name.Start)
		}
		first[name.Text] = name.Start
	}
	return nil
}

// Splice replaces the text between two offsets.
type Splice struct {
	Start, End int
	Text       string
}

// Edit returns the text with all ops applied. No two ops may concern the same value, or values
// of which one contains the other. The result has been parsed again and verified to hold
// exactly the expected values.
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
	return result, d.verifyEdit(result, ops)
}

// join returns the text with the splices applied.
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

// Op is one change to a document. Use its constructors.
type Op struct {
	Path    []string
	Do      Verb
	Text    string   // Replace: the new value; Paste: the new extent
	Items   []string // Insert: the new items
	Members []Member // Enter: the new members
	Names   []string // Remove: names of members
	Count   int      // Shorten: how many items
	Indexes []int    // Cut: which items
}

// Verb is the kind of an [Op].
type Verb byte

// The verbs, each with its constructor.
const (
	Replace Verb = iota // Set
	Insert              // Prepend
	Enter               // Add
	Shorten             // DropItems
	Remove              // DropMembers
	Cut                 // CutItems
	Paste               // Put
)

// Member is a member to be added to an object. Value is a text in the syntax of the document.
type Member struct {
	Name, Value string
}

// Set replaces the value at path by value, a text.
func Set(path []string, value string) Op { return Op{Path: path, Do: Replace, Text: value} }

// Put replaces the extent of the object at path by text, the extent of such an object. Unlike Set,
// it keeps the layout of text. It fails if one of the two is between braces and the other is not.
func Put(path []string, text string) Op { return Op{Path: path, Do: Paste, Text: text} }

// Prepend inserts items, each the text of a value, before the first item of the array at path.
func Prepend(path []string, items ...string) Op { return Op{Path: path, Do: Insert, Items: items} }

// Add inserts members before the first member of the object at path. None of the names may
// exist already.
func Add(path []string, members ...Member) Op { return Op{Path: path, Do: Enter, Members: members} }

// DropItems removes the first n items from the array at path. Comments stay.
func DropItems(path []string, n int) Op { return Op{Path: path, Do: Shorten, Count: n} }

// CutItems removes the items with these indexes from the array at path. Comments stay.
func CutItems(path []string, indexes ...int) Op { return Op{Path: path, Do: Cut, Indexes: indexes} }

// DropMembers removes the named members from the object at path. All of them must exist.
// Comments stay.
func DropMembers(path []string, names ...string) Op {
	return Op{Path: path, Do: Remove, Names: names}
}

// fits returns an error if the operation can't be applied to n in any syntax.
func (op Op) fits(n Node) error {
	if op.Do == Replace || op.Do == Paste {
		return nil
	}
	array := op.Do == Insert || op.Do == Shorten || op.Do == Cut
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
	for _, i := range op.Indexes {
		if i < 0 || i >= len(n.v.Kids) {
			return fmt.Errorf("it has no item %d", i)
		}
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

// Extent returns the text of the object n, complete with its layout: see [Syntax].
func (n Node) Extent() (string, error) {
	s, err := n.extent()
	if err != nil {
		return "", err
	}
	return string(n.d.src[s.Start:s.End]), nil
}

func (n Node) extent() (Span, error) {
	if n.Kind() != Object {
		return Span{}, errors.New("it is not an object")
	}
	return n.d.syntax.Extent(n)
}

// Paste returns the change for the operation [Put]. braced reports whether a text is between braces.
func (op Op) Paste(n Node, braced func(text string) bool) ([]Splice, error) {
	s, err := n.extent()
	if err != nil {
		return nil, err
	}
	if braced(string(n.d.src[s.Start:s.End])) != braced(op.Text) {
		return nil, errors.New("its layout is of another kind")
	}
	return []Splice{{s.Start, s.End, op.Text}}, nil
}

// Drops reports whether the operation removes item or member i of n.
func (op Op) Drops(n Node, i int) bool {
	switch op.Do {
	case Shorten:
		return i < op.Count
	case Cut:
		return slices.Contains(op.Indexes, i)
	}
	return op.Do == Remove && slices.Contains(op.Names, n.v.Names[i].Text)
}
