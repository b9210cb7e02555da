package wire

import (
	"errors"
	"fmt"
)

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
