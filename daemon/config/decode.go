package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// Marks records where in a file each value was written, by pointer to the value.
type Marks map[any]Place

// Place returns where the value that field points to was written, or the zero Place if it was
// not. field must be a pointer into the decoded value.
func (m Marks) Place(field any) Place { return m[field] }

// Decode decodes text, the single document of the YAML file at path, into the struct that into
// points to, as strictly as a configuration. The tags yaml, need, min, max and one of the fields
// direct it. It returns all problems, sorted by place. A struct type may have a method
// Defaults(), which is called before its keys are decoded; a text type may have a method Words()
// []string, which lists the allowed values. Such a file must not refer to environment variables.
func Decode(path string, text []byte, into any) (Marks, []Diagnostic) {
	root, ds := document(path, text)
	if ds != nil {
		return nil, ds
	}
	d := &decoder{file: path, marks: map[any]Place{}}
	d.value(root, reflect.ValueOf(into).Elem(), theFile, "")
	Sort(d.found)
	return d.marks, d.found
}

// decoder walks the nodes of a document along the Go types. It continues after a problem, so that
// all problems of a file are reported together.
type decoder struct {
	file   string
	getenv func(string) string
	marks  map[any]Place
	used   map[string]string // environment variables in use, with their values; nil without getenv
	form   form              // which keys are allowed
	found  []Diagnostic
}

// field describes one key by its struct field.
type field struct {
	key   string
	index int
	tag   reflect.StructTag
}

// fields returns the keys of a struct type in the order of its fields.
func fields(t reflect.Type) []field {
	var fs []field
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("yaml"); key != "" && key != "-" {
			fs = append(fs, field{key: key, index: i, tag: f.Tag})
		}
	}
	return fs
}

func (d *decoder) at(n *yaml.Node) Place { return Place{File: d.file, Line: n.Line, Column: n.Column} }

func (d *decoder) report(n *yaml.Node, id, hint, format string, args ...any) {
	d.found = append(d.found, d.at(n).Diagnostic(Error, id, hint, format, args...))
}

// value decodes n into v, which must be addressable. path names the value in messages. tag is the
// tag of the struct field that holds it.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	d.marks[v.Addr().Interface()] = d.at(n)
	if !d.plain(n, path, v.Type()) {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[JSON]():
		d.object(n, v, path)
	case isScalar(v.Type()):
		d.scalar(n, v, path, tag)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, path)
	case v.Kind() == reflect.Slice:
		d.sequence(n, v, path, tag)
	case v.Kind() == reflect.Map:
		d.table(n, v, path)
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

// plain reports whether n is a plain value. It rejects aliases, anchors, tags and null.
func (d *decoder) plain(n *yaml.Node, path string, t reflect.Type) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.report(n, "", "write the value in full", "an alias (*%s) is not allowed in a configuration", n.Value)
	case n.Anchor != "":
		d.report(n, "", "remove it", "an anchor (&%s) is not allowed in a configuration", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		d.report(n, "", "remove it", "a tag (%s) is not allowed in a configuration", n.Tag)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		d.report(n, "", "give it a value or remove it", "%s has no value; expected %s", path, expected(t))
	default:
		return true
	}
	return false
}

// mapping decodes the keys of a struct.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, yaml.MappingNode, v, path) {
		return
	}
	switch def := v.Addr().Interface().(type) {
	case interface{ defaults() }:
		def.defaults()
	case interface{ Defaults() }: // types of other packages
		def.Defaults()
	}
	if c, ok := v.Addr().Interface().(*Config); ok && d.form.defaults != nil {
		d.form.defaults(c)
	}
	if place := v.FieldByName("Place"); place.IsValid() && place.Type() == reflect.TypeFor[Place]() {
		place.Set(reflect.ValueOf(d.at(n)))
	}
	known := d.form.fields(v.Type())
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.key
	}
	written := map[string]bool{}
	for key, val := range d.pairs(n, path) {
		written[key.Value] = true
		i := slices.Index(names, key.Value)
		if i < 0 {
			d.unknown(key, v.Type(), names, path)
			continue
		}
		d.value(val, v.Field(known[i].index), join(path, key.Value), known[i].tag)
	}
	for _, f := range known {
		if f.tag.Get("need") == "true" && !written[f.key] {
			t := v.Type().Field(f.index).Type
			d.report(n, "", "", "%s lacks the key %q; expected %s", path, f.key, expected(t))
		}
	}
}

// unknown reports a key that is not one of names.
func (d *decoder) unknown(key *yaml.Node, t reflect.Type, names []string, path string) {
	if slices.ContainsFunc(fields(t), func(f field) bool { return f.key == key.Value }) {
		d.report(key, "", d.form.instead, "%s may not say %q: %s", path, key.Value, d.form.why)
		return
	}
	d.report(key, "", suggestion(key.Value, names), "unknown key %q in %s", key.Value, path)
}

// pairs yields the entries of a mapping whose keys are plain words, each key once. It reports the
// others.
func (d *decoder) pairs(n *yaml.Node, path string) func(func(key, val *yaml.Node) bool) {
	return func(yield func(key, val *yaml.Node) bool) {
		first := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, val := n.Content[i], n.Content[i+1]
			switch {
			case key.Tag == "!!merge":
				d.report(key, "", "write the keys in full", "a merge key (<<) is not allowed in a configuration")
				continue
			case key.Kind != yaml.ScalarNode:
				d.report(key, "", "", "a key in %s is %s; expected a word", path, describe(key))
				continue
			case key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
				d.report(key, "", "remove it", "an anchor or a tag is not allowed in a configuration")
				continue
			case key.Tag != "!!str":
				d.report(key, "", "quote it if it is meant as a word", "the key %s in %s is not a word", key.Value, path)
				continue
			}
			if before := first[key.Value]; before != nil {
				d.report(key, "", fmt.Sprintf("it is already in line %d", before.Line), "duplicate key %q in %s", key.Value, path)
				continue
			}
			first[key.Value] = key
			if !yield(key, val) {
				return
			}
		}
	}
}

// sequence decodes a list, or a single item where the tag allows it.
func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	items := n.Content
	if n.Kind == yaml.ScalarNode && tag.Get("one") == "true" {
		items = []*yaml.Node{n}
	} else if !d.is(n, yaml.SequenceNode, v, path) {
		return
	}
	// The slice must not grow later: the marks point to its items.
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
	}
}

// table decodes a mapping with arbitrary keys.
func (d *decoder) table(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, yaml.MappingNode, v, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	elem, pointer := v.Type().Elem(), v.Type().Elem().Kind() == reflect.Pointer
	if pointer {
		elem = elem.Elem()
	}
	for key, val := range d.pairs(n, path) {
		item := reflect.New(elem)
		d.value(val, item.Elem(), join(path, key.Value), "")
		if !pointer {
			v.SetMapIndex(reflect.ValueOf(key.Value), item.Elem())
			continue
		}
		if place := item.Elem().FieldByName("Place"); place.IsValid() {
			place.Set(reflect.ValueOf(d.at(key)))
		}
		v.SetMapIndex(reflect.ValueOf(key.Value), item)
	}
}

func join(path, key string) string {
	if path == theFile {
		return key
	}
	return path + "." + key
}

// is reports whether n has the given kind, and reports an error if not. v is the value to decode.
func (d *decoder) is(n *yaml.Node, kind yaml.Kind, v reflect.Value, path string) bool {
	if n.Kind != kind {
		d.report(n, "", "", "%s: expected %s, found %s", path, expected(v.Type()), describe(n))
	}
	return n.Kind == kind
}

// describe describes n for a message that another kind of value was expected.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	if text := n.Value; len(text) <= 40 && !strings.Contains(text, "\n") {
		return fmt.Sprintf("%q", text)
	}
	return "text"
}

// form is a kind of file that the types of this package describe. It defines which of their keys
// and words are allowed in it.
type form struct {
	keys    map[reflect.Type][]string // allowed keys of restricted types; other types allow all
	words   map[reflect.Type][]string // likewise
	why     string                    // why a key that is left out is refused
	instead string                    // what to do instead

	defaults func(*Config)  // sets defaults of this form; may be nil
	check    func(*checker) // makes checks that only this form needs; may be nil
}

// whole is the form of a thoughtgate.yaml, which allows everything.
var whole = form{}

// fields returns the keys of a struct type that this form allows.
func (f form) fields(t reflect.Type) []field {
	all := fields(t)
	keys, some := f.keys[t]
	if !some {
		return all
	}
	return slices.DeleteFunc(all, func(one field) bool { return !slices.Contains(keys, one.key) })
}

// wordsOf returns the words allowed for a value of type t, or nil if any text is.
func (f form) wordsOf(t reflect.Type) []string {
	if words, some := f.words[t]; some {
		return words
	}
	return wordsOf(t)
}

// JSON is an object that is written as YAML and converted to JSON, such as the arguments of a
// call. It is nil if it was not written.
type JSON []byte

// number matches a JSON number. YAML has other forms, which JSON would read differently or not at
// all.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// object decodes a mapping and converts it to JSON.
func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, yaml.MappingNode, v, path) {
		return
	}
	if text, ok := d.json(nil, n, path); ok {
		v.SetBytes(text)
	}
}

// json appends n to b as JSON. It reports whether n can be expressed in JSON.
func (d *decoder) json(b []byte, n *yaml.Node, path string) ([]byte, bool) {
	ok, fine := true, true
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for key, val := range d.pairs(n, path) {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b, fine = d.item(append(d.text(b, key), ':'), val, join(path, key.Value))
			ok = ok && fine
		}
		return append(b, '}'), ok
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b, fine = d.item(b, item, fmt.Sprintf("%s[%d]", path, i))
			ok = ok && fine
		}
		return append(b, ']'), ok
	}
	switch {
	case n.Tag == "!!str":
		return d.text(b, n), true
	case n.Tag == "!!null":
		return append(b, "null"...), true
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"), (n.Tag == "!!int" || n.Tag == "!!float") && number.MatchString(n.Value):
		return append(b, n.Value...), true
	}
	d.report(n, "", "quote it, or write it as in JSON", "%s: %s is not JSON", path, n.Value)
	return append(b, "null"...), false
}

// item is json for a value inside an object or a list. It allows null.
func (d *decoder) item(b []byte, n *yaml.Node, path string) ([]byte, bool) {
	if !(n.Kind == yaml.ScalarNode && n.Tag == "!!null") && !d.plain(n, path, reflect.TypeFor[JSON]()) {
		return append(b, "null"...), false
	}
	return d.json(b, n, path)
}

func (d *decoder) text(b []byte, n *yaml.Node) []byte {
	b, err := jsontext.AppendQuote(b, n.Value)
	if err != nil {
		panic("config: text that CheckText accepted: " + err.Error())
	}
	return b
}
