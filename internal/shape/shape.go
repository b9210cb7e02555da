// Package shape describes the arguments of a tool, as far as policies need them.
//
// A server describes the arguments of each tool by a JSON Schema. A policy needs less than that:
// which arguments there are, which of them are required, and whether each is a text, a number, a
// list or an object. A Shape holds that much.
//
// A schema comes from a server and is untrusted, so it is read in bounded time and memory. Where
// a Shape cannot express what the schema says, it is Any, which is not an error.
package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a JSON value.
type Kind string

// The kinds of values. null is not one: a value that may be null may be missing.
const (
	Any     Kind = "" // unknown, or one of several
	Text    Kind = "text"
	Bool    Kind = "bool"
	Integer Kind = "integer"
	Number  Kind = "number"
	List    Kind = "list"
	Object  Kind = "object"
)

// Shape describes a value. A Shape is immutable and may be shared.
type Shape struct {
	Kind    Kind     `json:"k,omitempty"`
	Items   *Shape   `json:"i,omitempty"` // of a List; nil means Any
	Members []Member `json:"m,omitempty"` // of an Object, sorted by name, without duplicates
	Rest    *Shape   `json:"r,omitempty"` // shape of an Object's other members; nil if none are known
}

// Member is one member of an object.
type Member struct {
	Name     string `json:"n"`
	Required bool   `json:"q,omitempty"`
	Shape    *Shape `json:"s"`
}

// Member returns the member of s with this name. s must be an Object.
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

// Names returns the names of the members in order.
func (s *Shape) Names() []string {
	names := make([]string, len(s.Members))
	for i := range s.Members {
		names[i] = s.Members[i].Name
	}
	return names
}

// Encode encodes s for Decode. Equal shapes have equal encodings.
func (s *Shape) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("shape: encode: %v", err)) // no part of a Shape can fail to encode
	}
	return b
}

// Decode decodes the output of Encode.
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

// check rejects what Encode cannot have written. Users of a Shape rely on its form.
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

// Tool is a server's description of what a tool takes. It is immutable: when the server changes
// its description, that is another Tool.
type Tool struct {
	Server string
	Launch string // hex SHA-256 of the server's command and arguments
	Name   string
	Takes  *Shape // shape of the arguments; nil if Fault says why it is unknown
	Fault  string
}

// Listing holds all tools that a server has listed under one launch.
type Listing struct {
	Server string
	Launch string
	Listed time.Time // when it was listed last
	Tools  []*Tool
}
