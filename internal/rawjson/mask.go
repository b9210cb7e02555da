package rawjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Paths are paths to members of a JSON value; further in, what is left of those
// that lead on from there. A path is names from the outermost object down, with
// dots between them, as `auth.token`; `*` stands for any member or element, a
// number for one element. Arrays are passed through as well where a path says
// nothing of them: `items.secret` is the same as `items.*.secret`. Names are
// compared as [Read] compares them: a mask too many does no harm.
type Paths []path

type path struct {
	of   int    // which of them it is
	rest string // of it, each name with a dot before it
}

// ParsePaths reads paths.
func ParsePaths(paths []string) Paths {
	var all Paths
	for i, p := range paths {
		all = append(all, path{i, "." + fold(p)})
	}
	return all
}

// End reports whether one of them ends here.
func (p Paths) End() bool {
	return slices.ContainsFunc(p, func(one path) bool { return one.rest == "" })
}

// Member returns those that lead on through a member of an object. A name with
// dots in it takes as many parts of a path.
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

// Element returns those that lead on through an element of an array.
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

// with adds a path unless it is there, so that arrays in arrays multiply none.
func (p Paths) with(another path) Paths {
	if slices.Contains(p, another) {
		return p
	}
	return append(p, another)
}

// Mask returns a copy of raw, a JSON value, in which every member that one of the
// paths names is replaced by the JSON string of what mask returns for it. All other
// bytes stay as they are. It returns nil when raw is not JSON: what can't be read
// can't be masked. A name that comes twice is masked twice.
//
// mask is given the text of a string and the raw bytes of any other value, and must
// not keep them.
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
	done int // how much of raw is in out
	out  []byte
	mask func([]byte) string
}

// value reads one value, with the paths that led to it.
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
