package rawjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Paths is a set of paths to members of a JSON value. For a nested value, it holds what remains
// of the paths that lead into it. A path is a list of names, outermost object first, separated
// by dots, such as `auth.token`. `*` stands for any member or element, a number for one
// element. A path may leave out arrays: `items.secret` is the same as `items.*.secret`. Names
// are compared like those of [Read], so a mask covers too much rather than too little.
type Paths []path

type path struct {
	of   int    // index of the path in the list given to ParsePaths
	rest string // the part still to be matched, with a dot before each name
}

// ParsePaths parses paths.
func ParsePaths(paths []string) Paths {
	var all Paths
	for i, p := range paths {
		all = append(all, path{i, "." + fold(p)})
	}
	return all
}

// End reports whether one of the paths ends at this value.
func (p Paths) End() bool {
	return slices.ContainsFunc(p, func(one path) bool { return one.rest == "" })
}

// Member returns the paths that lead into the named member of an object. A name that contains
// dots matches as many parts of a path.
func (p Paths) Member(name string) Paths {
	if len(p) == 0 {
		return nil
	}
	var on Paths
	for _, name := range []string{"*", fold(name)} {
		for _, one := range p {
			rest, ok := strings.CutPrefix(one.rest, "."+name)
			if ok && (rest == "" || rest[0] == '.') {
				on = on.with(path{one.of, rest})
			}
		}
	}
	return on
}

// Element returns the paths that lead into an element of an array.
func (p Paths) Element(index int) Paths {
	if len(p) == 0 {
		return nil
	}
	on := p.Member(strconv.Itoa(index))
	for _, one := range p {
		on = on.with(one)
	}
	return on
}

// with adds a path unless p has it already, so that nested arrays do not multiply paths.
func (p Paths) with(another path) Paths {
	if slices.Contains(p, another) {
		return p
	}
	return append(p, another)
}

// Mask returns a copy of raw, a JSON value, in which the value of every member that a path
// names is replaced by the result of mask, as a JSON string. All other bytes stay the same.
// Mask returns nil if raw is not valid JSON. A name that occurs twice is masked twice.
//
// mask is called with the text of a string, or with the raw bytes of any other value. It must
// not retain them.
func Mask(raw []byte, paths []string, mask func(secret []byte) string) []byte {
	m := masker{jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true)), raw, 0, make([]byte, 0, len(raw)+64), mask}
	if m.value(ParsePaths(paths)) != nil || len(bytes.TrimLeft(raw[m.in.InputOffset():], " \t\r\n")) > 0 {
		return nil
	}
	return append(m.out, raw[m.done:]...)
}

type masker struct {
	in   *jsontext.Decoder
	raw  []byte
	done int // how many bytes of raw are copied to out or replaced
	out  []byte
	mask func([]byte) string
}

// value masks one value; p holds the paths that lead into it.
func (m *masker) value(p Paths) error {
	kind := m.in.PeekKind()
	switch {
	case p.End():
		return m.replace()
	case len(p) == 0 || kind != '{' && kind != '[':
		return m.in.SkipValue()
	}
	_, err := m.in.ReadToken()
	for i := 0; err == nil && m.in.PeekKind() != '}' && m.in.PeekKind() != ']'; i++ {
		on := Paths(nil)
		if kind == '[' {
			on = p.Element(i)
		} else {
			name, wrong := m.in.ReadToken()
			if wrong != nil {
				return wrong
			}
			on = p.Member(name.String())
		}
		err = m.value(on)
	}
	if err == nil {
		_, err = m.in.ReadToken()
	}
	return err
}

func (m *masker) replace() error {
	value, err := m.in.ReadValue()
	if err != nil {
		return err
	}
	end, secret := int(m.in.InputOffset()), []byte(value)
	if value.Kind() == '"' {
		if secret, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	m.out = append(m.out, m.raw[m.done:end-len(value)]...)
	m.out = wire.AppendQuote(m.out, m.mask(secret))
	m.done = end
	return nil
}
