// Package rawjson reads a JSON object as it was written: its members in their
// order, each value raw.
//
// What two readers could read in two ways is an error: a name that comes twice,
// at any depth; text that is not Unicode, a lone surrogate included; text behind
// the value. [Read] refuses besides what readers could confuse that fold case,
// trim names or drop what can't be seen: two such names in one object, and such
// a name in the place of one that is asked for.
//
// Messages are read by [wire], which decides before anything here is used what
// is forwarded.
package rawjson

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Member is a member of an object. It shares memory with the text that was read.
type Member struct {
	Name  string         // unescaped
	Value jsontext.Value // raw, without blanks around it

	quoted []byte // the name, as it was written
}

// Members returns the members of the one object that raw is, in their order. It
// says nothing of names that differ in case only: it is for objects whose names
// are not ours, as the arguments of a tool.
func Members(raw []byte) ([]Member, error) { return read(raw, '{') }

// Elements returns the elements of the one array that raw is, each raw.
func Elements(raw []byte) ([]jsontext.Value, error) {
	all, err := read(raw, '[')
	values := make([]jsontext.Value, len(all))
	for i := range all {
		values[i] = all[i].Value
	}
	return values, err
}

func read(raw []byte, open jsontext.Kind) ([]Member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw)) // which it reads in place
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

// Text returns what raw stands for, which must be a string.
func Text(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err
}

// Canonical returns a JSON value with its members in order, without blanks and
// needless escapes. Numbers stay as they are written; so does all of what can be
// read in two ways.
func Canonical(raw []byte) []byte {
	value := jsontext.Value(bytes.Clone(raw))
	if value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return raw
	}
	return value
}

// Set returns the object raw with a member of that name and raw value: in the
// place of the one it has, or as its first.
func Set(raw []byte, name string, value []byte) ([]byte, error) {
	edit, err := wire.Set(raw, wire.Span{End: len(raw)}, name, value)
	if err != nil {
		return nil, err
	}
	return wire.Splice(raw, edit)
}
