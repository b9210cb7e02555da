package record

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Mask returns a copy of raw, a JSON value, in which every member that one of
// the paths names is replaced by the JSON string of what mask returns for it.
// All other bytes stay as they are. It returns nil when raw is not JSON: what
// can't be read can't be masked.
//
// A path is a list of names separated by dots, as `auth.token`; `*` stands for
// any name. Arrays are passed through, with or without a `*` or an index for
// their elements. mask is given the text of a string and the raw bytes of any
// other value, and must not keep them.
func Mask(raw []byte, paths []string, mask func(secret []byte) string) []byte {
	m := masker{
		in:   jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true)),
		raw:  raw,
		mask: mask,
		out:  make([]byte, 0, len(raw)+64),
	}
	var open []way
	for _, path := range paths {
		open = append(open, way{parts: strings.Split(path, "."), path: path})
	}
	if m.value(open) != nil || len(bytes.TrimLeft(raw[m.in.InputOffset():], " \t\r\n")) > 0 {
		return nil
	}
	return append(m.out, raw[m.done:]...)
}

type masker struct {
	in   *jsontext.Decoder
	raw  []byte
	done int // how much of raw is in out
	out  []byte
	mask func([]byte) string
}

// way is a path that led to a value, and what is left of it.
type way struct {
	path  string
	parts []string
}

// value reads one value, to which the ways in open led.
func (m *masker) value(open []way) error {
	switch {
	case len(open) == 0:
		return m.in.SkipValue()
	case slices.ContainsFunc(open, func(w way) bool { return len(w.parts) == 0 }):
		return m.replace()
	}
	switch m.in.PeekKind() {
	case '{':
		return m.object(open)
	case '[':
		return m.array(open)
	}
	return m.in.SkipValue()
}

func (m *masker) replace() error {
	value, err := m.in.ReadValue()
	if err != nil {
		return err
	}
	end := int(m.in.InputOffset())
	secret := []byte(value)
	if value.Kind() == '"' {
		if secret, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	m.out = append(m.out, m.raw[m.done:end-len(value)]...)
	m.out = AppendString(m.out, m.mask(secret))
	m.done = end
	return nil
}

func (m *masker) object(open []way) error {
	if _, err := m.in.ReadToken(); err != nil {
		return err
	}
	for m.in.PeekKind() != '}' {
		name, err := m.in.ReadToken()
		if err != nil {
			return err
		}
		if err := m.value(step(open, name.String())); err != nil {
			return err
		}
	}
	_, err := m.in.ReadToken()
	return err
}

func (m *masker) array(open []way) error {
	if _, err := m.in.ReadToken(); err != nil {
		return err
	}
	for i := 0; m.in.PeekKind() != ']'; i++ {
		inside := step(open, strconv.Itoa(i))
		for _, w := range open {
			inside = w.join(inside)
		}
		if err := m.value(inside); err != nil {
			return err
		}
	}
	_, err := m.in.ReadToken()
	return err
}

// step returns the ways of open that lead on through name. A name with dots in
// it takes as many parts of a path.
func step(open []way, name string) []way {
	var left []way
	for _, w := range open {
		for n := 1; n <= len(w.parts); n++ {
			if n == 1 && w.parts[0] == "*" || strings.Join(w.parts[:n], ".") == name {
				left = way{w.path, w.parts[n:]}.join(left)
			}
		}
	}
	return left
}

// join adds w to ways unless it is among them, so that nested arrays can't
// multiply them.
func (w way) join(ways []way) []way {
	for _, other := range ways {
		if other.path == w.path && len(other.parts) == len(w.parts) {
			return ways
		}
	}
	return append(ways, w)
}
