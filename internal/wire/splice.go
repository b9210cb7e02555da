package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces a range of a line with other bytes; an empty range inserts.
type Edit struct {
	Span
	With []byte
}

// Splice returns line with the edits made, in any order. Every byte outside of
// them stays as it is; line itself is not changed, and is returned when there is
// nothing to do. It fails when edits overlap or reach beyond the line.
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

// Cut returns the edits that take the elements out for which drop is true,
// each with the comma and the blanks that part it from the next.
func (items Items) Cut(drop func(i int) bool) []Edit {
	var edits []Edit
	kept := false // an element before this one
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

// Elements returns the elements of the array at s in line, which Read has
// accepted. It fails when there is another value.
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
	for w.dec.PeekKind() != open+2 { // in ASCII a bracket closes two places behind the one that opens
		if err := read(w); err != nil {
			return err
		}
	}
	return nil
}

// Members calls each for every member of the object at s in line, which Read
// has accepted, with its unescaped name, valid during the call, and its value.
// It fails when there is another value, or with the first error of each.
func Members(line []byte, s Span, each func(name []byte, value Span) error) error {
	return eachMember(line, s, func(name []byte, _, value Span) error { return each(name, value) })
}

// CutMembers returns the edits that take those members out of the object at s in
// line, which Read has accepted, for which drop is true, and how many stay. Where
// none stays there are no edits: the object is {} then.
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

// eachMember is Members; whole is a member from its name on.
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

// Member returns where the member of that name lies in the object at s; the
// zero Span when there is none. A member that some reader takes for it is an
// error.
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

// Set returns the edit that gives the object at s the member name with the raw
// value: in place of the value it has, or as its first member.
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

// Element is one element of a list that a server gives: a tool, a prompt, a
// resource, a template of resources, a skill.
type Element struct {
	Span     Span
	Name     string // unescaped, as the others; empty when absent
	URI      string
	Template string // uriTemplate
	ID       string // the one of these by which the element is asked for

	// Bad reports an element that can't be told apart from others for certain:
	// no object, no ID, or a member that some reader takes for another.
	Bad bool

	// Twice reports that another element has the same ID.
	Twice bool
}

// List is a list within a result. Its members are parallel.
type List struct {
	Span     Span // the array; zero when the result has none
	Items    Items
	Elements []Element
}

var elementNames = names{"name", "uri", "uriTemplate"}

// identity names, for the member of a result that holds a list, the member of
// its elements by which they are asked for; an index in elementNames.
var identity = map[string]int{"tools": 0, "prompts": 0, "resources": 1, "skills": 1, "resourceTemplates": 2}

// ReadList reads the list member (tools, prompts, resources, resourceTemplates
// or skills) in the result that line holds and e describes. A result without
// the member, or with null there, has an empty list. It fails when something
// else is there, or beside it a member that some reader takes for the list.
func ReadList(line []byte, e *Envelope, member string) (List, error) {
	by, ok := identity[member]
	if !ok {
		return List{}, fmt.Errorf("read list: %q is not one", member)
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
