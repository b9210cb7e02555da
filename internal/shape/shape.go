// Package shape says what a tool takes, as far as policies can tell.
//
// A server describes the arguments of each tool by a JSON Schema. What matters
// to a policy is less than that: which arguments there are, which of them must
// be there, and whether each is a text, a number, a list or an object. That much
// is a Shape.
//
// A schema comes from a server, and is read with the care that this asks for: in
// bounded time and memory whatever it holds. Where it says nothing that can be
// told in a Shape, the Shape is Any, which is no fault.
package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what a JSON value is.
type Kind string

// The kinds. null is none of them: a value that may be null may be missing.
const (
	Any     Kind = "" // it can't be told, or may be several
	Text    Kind = "text"
	Bool    Kind = "bool"
	Integer Kind = "integer"
	Number  Kind = "number"
	List    Kind = "list"
	Object  Kind = "object"
)

// Shape is what a value may be. A Shape is not changed once it was made, and may
// be shared.
type Shape struct {
	Kind    Kind     `json:"k,omitempty"`
	Items   *Shape   `json:"i,omitempty"` // of a List; nil: Any
	Members []Member `json:"m,omitempty"` // of an Object, by name, each name once
	Rest    *Shape   `json:"r,omitempty"` // what other members of an Object are; nil: there are none that are known of
}

// Member is one member of an object.
type Member struct {
	Name     string `json:"n"`
	Required bool   `json:"q,omitempty"`
	Shape    *Shape `json:"s"`
}

// Member returns the member of that name, or false. It is for objects.
func (s *Shape) Member(name string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(s.Members, name, func(m Member, name string) int { return strings.Compare(m.Name, name) })
	if ok {
		return s.Members[i], true
	}
	if s.Rest != nil {
		return Member{Name: name, Shape: s.Rest}, true
	}
	return Member{}, false
}

// Names lists the members that are known by name, in order.
func (s *Shape) Names() []string {
	names := make([]string, len(s.Members))
	for i := range s.Members {
		names[i] = s.Members[i].Name
	}
	return names
}

// Encode writes s down, for Decode. Equal shapes have equal encodings.
func (s *Shape) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("shape: encode: %v", err)) // nothing in a Shape can fail
	}
	return b
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*Shape, error) {
	s := &Shape{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("read shape: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("read shape: %w", err)
	}
	return s, nil
}

// check refuses what Encode would not have written: whoever uses a Shape relies
// on its form.
func (s *Shape) check() error {
	if s == nil {
		return nil
	}
	switch s.Kind {
	case Any, Text, Bool, Integer, Number, List, Object:
	default:
		return fmt.Errorf("there is no kind %q", s.Kind)
	}
	for i, m := range s.Members {
		if m.Shape == nil {
			return errors.New("a member without a shape")
		}
		if i > 0 && s.Members[i-1].Name >= m.Name {
			return errors.New("members out of order")
		}
		if err := m.Shape.check(); err != nil {
			return err
		}
	}
	if err := s.Items.check(); err != nil {
		return err
	}
	return s.Rest.check()
}

// Tool is what a server has said a tool takes. It is not changed; when the
// server says something else, that is another Tool.
type Tool struct {
	Server string
	Launch string // hex SHA-256 over the server's command and its arguments
	Name   string
	Takes  *Shape // of the arguments; nil when Fault says why it isn't known
	Fault  string
}

// Listing is all that a server has listed under one launch.
type Listing struct {
	Server string
	Launch string
	Listed time.Time // last
	Tools  []*Tool
}
