package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces a range of a line with other bytes. An empty range inserts.
type Edit struct {
	Span
	With []byte
}

// Splice applies the edits, given in any order, and returns the new line. All other bytes
// stay the same. line is not changed; it is returned if there are no edits. Splice fails
// if edits overlap or reach beyond the line.
func Splice(line []byte, edits ...Edit) ([]byte, error) {
	if len(edits) == 0 {
		return line, nil
	}
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	size, at := len(line), 0
	for _, e := range edits {
		if e.Start < at || e.End < e.Start || e.End > len(line) {
			return nil, errors.New("splice: edits overlap or reach beyond the line")
		}
		size, at = size+len(e.With)-e.Len(), e.End
	}
	out := make([]byte, 0, size)
	at = 0
	for _, e := range edits {
		out = append(append(out, line[at:e.Start]...), e.With...)
		at = e.End
	}
	return append(out, line[at:]...), nil
}

// Items are the elements of an array within a line.
type Items []Span

// Cut returns the edits that remove the elements for which drop is true, each with its
// comma and blanks.
func (items Items) Cut(drop func(i int) bool) []Edit {
	var edits []Edit
	kept := false // an earlier element is kept
	for i, item := range items {
		switch {
		case !drop(i):
			kept = true
		case kept:
			edits = append(edits, Edit{Span: Span{items[i-1].End, item.End}})
		case i+1 < len(items):
			edits = append(edits, Edit{Span: Span{item.Start, items[i+1].Start}})
		default:
			edits = append(edits, Edit{Span: item})
		}
	}
	return edits
}

// Elements returns the elements of the array at s in line, which must have been accepted
// by Read. It fails if the value at s is not an array.
func Elements(line []byte, s Span) (Items, error) {
	var items Items
	err := within(line, s, '[', func(w *walker) error {
		value, err := w.dec.ReadValue()
		if err != nil {
			return faultOf(err)
		}
		end := s.Start + int(w.dec.InputOffset())
		items = append(items, Span{end - len(value), end})
		return nil
	})
	return items, err
}

// within calls read for every element or member of the array or object at s in line.
func within(line []byte, s Span, open jsontext.Kind, read func(w *walker) error) error {
	raw := s.Of(line)
	if len(raw) == 0 || raw[0] != byte(open) {
		return errors.New(map[jsontext.Kind]string{'[': "not an array", '{': "not an object"}[open])
	}
	w := walkers.Get().(*walker)
	w.begin(raw, FromServer)
	defer w.release(raw)
	if _, err := w.dec.ReadToken(); err != nil {
		return faultOf(err)
	}
	for w.dec.PeekKind() != open+2 { // in ASCII the closing bracket is two places after the opening one
		if err := read(w); err != nil {
			return err
		}
	}
	return nil
}

// Members calls each for every member of the object at s in line, which must have been
// accepted by Read. name is unescaped and valid during the call. Members fails if the
// value at s is not an object, or with the first error of each.
func Members(line []byte, s Span, each func(name []byte, value Span) error) error {
	return eachMember(line, s, func(name []byte, _, value Span) error { return each(name, value) })
}

// CutMembers returns the edits that remove the members for which drop is true from the
// object at s in line, and how many members remain. line must have been accepted by Read.
// If none remains, there are no edits: the object becomes {}.
func CutMembers(line []byte, s Span, drop func(name []byte, value Span) bool) (edits []Edit, left int, err error) {
	var items Items
	var dropped []bool
	err = eachMember(line, s, func(name []byte, whole, value Span) error {
		items, dropped = append(items, whole), append(dropped, drop(name, value))
		if !dropped[len(dropped)-1] {
			left++
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if left == 0 {
		return nil, 0, nil
	}
	return items.Cut(func(i int) bool { return dropped[i] }), left, nil
}

// eachMember is like Members; whole is the member including its name.
func eachMember(line []byte, s Span, each func(name []byte, whole, value Span) error) error {
	return within(line, s, '{', func(w *walker) error {
		quoted, err := w.dec.ReadValue()
		if err != nil {
			return faultOf(err)
		}
		start := s.Start + int(w.dec.InputOffset()) - len(quoted)
		var name []byte
		name, w.name = unquoteName(w.name, quoted)
		value, err := w.dec.ReadValue()
		if err != nil {
			return faultOf(err)
		}
		end := s.Start + int(w.dec.InputOffset())
		return each(name, Span{start, end}, Span{end - len(value), end})
	})
}

// Member returns the span of the value of the named member of the object at s; the zero
// Span if there is none. It fails if some reader takes another member for it.
func Member(line []byte, s Span, name string) (Span, error) {
	var found Span
	table := names{name}
	err := Members(line, s, func(text []byte, value Span) error {
		index, twin := table.find(text)
		if twin {
			return errTwin.plain()
		}
		if index == 0 {
			found = value
		}
		return nil
	})
	return found, err
}

// Set returns the edit that sets the member name of the object at s to the raw value. It
// replaces the value, or inserts the member as the first.
func Set(line []byte, s Span, name string, value []byte) (Edit, error) {
	old, err := Member(line, s, name)
	if err != nil {
		return Edit{}, err
	}
	if old.Present() {
		return Edit{old, value}, nil
	}
	with, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return Edit{}, err
	}
	with = append(append(with, ':'), value...)
	empty := true
	for _, c := range line[s.Start+1 : s.End-1] {
		empty = empty && isBlank(c)
	}
	if !empty {
		with = append(with, ',')
	}
	return Edit{Span{s.Start + 1, s.Start + 1}, with}, nil
}

// Element is one element of a list that a server returns: a tool, prompt, resource,
// resource template or skill.
type Element struct {
	Span     Span
	Name     string // unescaped, like the others; empty if absent
	URI      string
	Template string // uriTemplate
	ID       string // the one of these that identifies the element in requests

	// Bad reports that the element can't be identified with certainty: it is not an
	// object, has no ID, or has a member that some reader takes for another.
	Bad bool

	// Twice reports that another element has the same ID.
	Twice bool
}

// List is a list within a result. Items and Elements are parallel.
type List struct {
	Span     Span // the array; zero if the result has none
	Items    Items
	Elements []Element
}

var elementNames = names{"name", "uri", "uriTemplate"}

// identity maps the list member of a result to the member that identifies its elements,
// as an index in elementNames.
var identity = map[string]int{"tools": 0, "prompts": 0, "resources": 1, "skills": 1, "resourceTemplates": 2}

// ReadList reads the list member (tools, prompts, resources, resourceTemplates or skills)
// of the result e in line. If the member is absent or null, the list is empty. ReadList
// fails if the member has another type, or if some reader takes another member for it.
func ReadList(line []byte, e *Envelope, member string) (List, error) {
	by, ok := identity[member]
	if !ok {
		return List{}, fmt.Errorf("read list: %q is not a list", member)
	}
	array, err := Member(line, e.Result, member)
	if err != nil {
		return List{}, fmt.Errorf("read %s: %w", member, err)
	}
	if raw := array.Of(line); raw == nil || string(raw) == "null" {
		return List{}, nil
	}
	items, err := Elements(line, array)
	if err != nil {
		return List{}, fmt.Errorf("read %s: %w", member, err)
	}
	list := List{Span: array, Items: items, Elements: make([]Element, len(items))}
	first := make(map[string]int, len(items))
	for i, item := range items {
		el := readElement(line, item, by)
		if before, ok := first[el.ID]; ok && !el.Bad {
			el.Twice, list.Elements[before].Twice = true, true
		} else if !el.Bad {
			first[el.ID] = i
		}
		list.Elements[i] = el
	}
	return list, nil
}

var errBadElement = errors.New("bad element")

func readElement(line []byte, s Span, by int) Element {
	el := Element{Span: s}
	texts := []*string{&el.Name, &el.URI, &el.Template}
	err := Members(line, s, func(name []byte, value Span) error {
		index, twin := elementNames.find(name)
		if twin {
			return errBadElement
		}
		if index == unknown {
			return nil
		}
		text, err := Unquote(value, line)
		if err != nil && index == by {
			return errBadElement
		}
		*texts[index] = text
		return nil
	})
	el.ID = *texts[by]
	el.Bad = err != nil || el.ID == ""
	return el
}
