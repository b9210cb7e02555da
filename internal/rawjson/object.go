package rawjson

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Object is a JSON object with known member names. The methods that read a member document
// their result for a member that is absent or null. [Object.Err] returns the first error found
// in the object or in a nested object that was read. All results are valid only if Err returns
// nil.
type Object struct {
	Raw     []byte   // as it was written
	Members []Member // in the order of the text; nil if the object itself is invalid

	at    string         // path of the object in the outermost one, such as "tools[1]."; "" for the outermost
	index map[string]int // index in Members by folded name
	err   *error         // shared with the outermost object
}

// Read parses raw as one JSON object.
func Read(raw []byte) Object { return Object{err: new(error)}.inner("", raw) }

// Err returns the first error found in the object or in the nested objects that were read.
func (o Object) Err() error { return *o.err }

// Fail sets the error of o, unless it has one.
func (o Object) Fail(format string, args ...any) {
	if *o.err == nil {
		*o.err = fmt.Errorf(format, args...)
	}
}

// inner parses the object at the path at within o.
func (o Object) inner(at string, raw []byte) Object {
	members, err := Members(raw)
	if err != nil {
		o.Fail("%s%w", strings.TrimPrefix(at+": ", ": "), err)
	}
	in := Object{Raw: raw, Members: members, at: strings.TrimPrefix(at+".", "."), index: map[string]int{}, err: o.err}
	for i, m := range members {
		folded := fold(m.Name)
		if _, twice := in.index[folded]; twice {
			o.Fail("the member %q is there in two spellings", in.at+m.Name)
			return Object{Raw: raw, at: in.at, err: o.err}
		}
		in.index[folded] = i
	}
	if in.Has("__proto__") {
		o.Fail("%q is a member in which a JavaScript reader may find any other", in.at+"__proto__")
	}
	return in
}

// fold maps name to a form shared by all names that some reader may confuse with it.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || wire.Unseen(r) || r == unicode.ReplacementChar {
			return -1
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// find returns the raw value of a member, or nil if it is absent.
func (o Object) find(name string) jsontext.Value {
	i, ok := o.index[fold(name)]
	if !ok {
		return nil
	}
	if is := o.Members[i].Name; is != name {
		o.Fail("the member %q can be taken for %s", o.at+is, name)
		return nil
	}
	return o.Members[i].Value
}

// Has reports whether the object has the named member, even if it is null.
func (o Object) Has(name string) bool { return o.find(name) != nil }

// Get returns the raw value of a member, or nil if it is absent or null.
func (o Object) Get(name string) jsontext.Value {
	if value := o.find(name); value.Kind() != 'n' {
		return value
	}
	return nil
}

// Text returns a string member, which must be present.
func (o Object) Text(name string) string {
	text, err := Text(o.Get(name))
	if err != nil {
		o.Fail("missing or invalid %q", o.at+name)
	}
	return text
}

// OptionalText returns a string member, or "" if it is absent.
func (o Object) OptionalText(name string) string {
	if o.Get(name) == nil {
		return ""
	}
	text, err := Text(o.Get(name))
	if err != nil {
		o.Fail("%s%s is not a string", o.at, name)
	}
	return text
}

// Number returns a member that is a non-negative integer. If there is none, it returns absent.
func (o Object) Number(name string, absent uint64) uint64 {
	raw := o.Get(name)
	if raw == nil {
		return absent
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		o.Fail("%s%s is not a whole number", o.at, name)
	}
	return n
}

// True reports whether a boolean member is true. An absent member is false.
func (o Object) True(name string) bool {
	raw := o.Get(name)
	if raw != nil && raw.Kind() != 't' && raw.Kind() != 'f' {
		o.Fail("%s%s is neither true nor false", o.at, name)
	}
	return raw.Kind() == 't'
}

// Object returns a member that is an object, or an empty object if it is absent.
func (o Object) Object(name string) Object {
	raw := o.Get(name)
	if raw == nil {
		raw = jsontext.Value("{}")
	}
	return o.inner(o.at+name, raw)
}

// List returns the elements of a member that is an array, or nil if it is absent.
func (o Object) List(name string) []jsontext.Value {
	raw := o.Get(name)
	if raw == nil {
		return nil
	}
	all, err := Elements(raw)
	if err != nil {
		o.Fail("%s%s: %w", o.at, name, err)
	}
	return all
}

// Objects returns a member that is an array of objects, or nil if it is absent.
func (o Object) Objects(name string) []Object {
	var all []Object
	for i, raw := range o.List(name) {
		all = append(all, o.inner(fmt.Sprintf("%s%s[%d]", o.at, name, i), raw))
	}
	return all
}

// Texts returns a member that is an array of strings, or nil if it is absent.
func (o Object) Texts(name string) []string {
	var all []string
	raw := o.Get(name)
	if raw == nil {
		return nil
	}
	raws, err := Elements(raw)
	for _, raw := range raws {
		text, wrong := Text(raw)
		all, err = append(all, text), cmp.Or(err, wrong)
	}
	if err != nil {
		o.Fail("%s%s must be an array of strings", o.at, name)
	}
	return all
}

// Without returns the object without the named members. The other members keep their text, but
// not the white space around them.
func (o Object) Without(names ...string) []byte {
	out := []byte{'{'}
	for _, m := range o.Members {
		if slices.Contains(names, m.Name) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.quoted...), ':'), m.Value...)
	}
	return append(out, '}')
}
