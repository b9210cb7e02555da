// Package rawjson parses a JSON object without changing it: members keep their order, and
// values stay raw.
//
// Input that two readers could read differently is an error: a name that occurs twice, at any
// depth; text that is not valid Unicode, including a lone surrogate; text after the value.
// [Read] also rejects names that readers may confuse if they fold case, trim names or drop
// invisible characters. It is an error if an object has two such names, or if such a name
// stands for one that a method looks up.
//
// Messages are parsed by [wire], which decides what is forwarded before this package is used.
package rawjson

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Member is a member of an object. It shares memory with the parsed text.
type Member struct {
	Name  string         // unescaped
	Value jsontext.Value // raw, without white space around it

	quoted []byte // the name as written, with its quotes
}

// Members returns the members of raw, which must be one JSON object, in order. It accepts names
// that differ only in case, since it is for objects whose names others choose, such as the
// arguments of a tool.
func Members(raw []byte) ([]Member, error) { return read(raw, '{') }

// Elements returns the raw elements of raw, which must be one JSON array.
func Elements(raw []byte) ([]jsontext.Value, error) {
	all, err := read(raw, '[')
	values := make([]jsontext.Value, len(all))
	for i := range all {
		values[i] = all[i].Value
	}
	return values, err
}

// HasMore reports whether raw has more than max names, values and brackets, before it is found to be
// wrong. It keeps none of them, while an object that is read takes much more memory than its text.
func HasMore(raw []byte, max int) bool {
	if len(raw) < 2*max { // a separator is after each
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	for range max {
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
	}
	return true
}

func read(raw []byte, open jsontext.Kind) ([]Member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw)) // reads raw in place
	if dec.PeekKind() != open {
		return nil, errors.New(map[jsontext.Kind]string{'{': "not a JSON object", '[': "not an array"}[open])
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	next := func() (from, to int, err error) {
		value, err := dec.ReadValue()
		to = int(dec.InputOffset())
		return to - len(value), to, err
	}
	var all []Member
	for k := dec.PeekKind(); k != '}' && k != ']'; k = dec.PeekKind() {
		from, to, err := next()
		if err != nil {
			return nil, err
		}
		m := Member{Value: raw[from:to:to]}
		if open == '{' {
			name, err := jsontext.AppendUnquote(nil, m.Value)
			if err != nil {
				return nil, err
			}
			quoted := raw[from:to]
			if from, to, err = next(); err != nil {
				return nil, err
			}
			m = Member{string(name), raw[from:to:to], quoted}
		}
		all = append(all, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("there is text behind it")
	}
	return all, nil
}

// Text returns the value of raw, which must be a JSON string.
func Text(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err
}

// Canonical returns a JSON value with sorted members, without white space and needless escapes.
// Numbers stay as written. If raw is invalid, for example because a name occurs twice,
// Canonical returns it unchanged.
func Canonical(raw []byte) []byte {
	value := jsontext.Value(bytes.Clone(raw))
	if value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return raw
	}
	return value
}

// Pick returns the named members of the object raw in a canonical form, to compare objects by them. An
// object that readers may understand differently is equal only to itself.
func Pick(raw []byte, names ...string) string {
	var picked []byte
	for _, name := range names {
		s, err := wire.Member(raw, wire.Span{End: len(raw)}, name)
		if err != nil {
			return string(raw)
		}
		picked = append(append(picked, ' '), Canonical(s.Of(raw))...)
	}
	return string(picked)
}

// Set returns the object raw with the named member set to a raw value. It replaces an existing
// member or inserts a new one as the first.
func Set(raw []byte, name string, value []byte) ([]byte, error) {
	edit, err := wire.Set(raw, wire.Span{End: len(raw)}, name, value)
	if err != nil {
		return nil, err
	}
	return wire.Splice(raw, edit)
}
