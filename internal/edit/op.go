package edit

import (
	"fmt"
	"slices"
)

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
