package config

import (
	"fmt"
	"reflect"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// JSON is an object that is written as YAML and meant as JSON: arguments of a
// call, and the like. It is nil when nothing was written.
type JSON []byte

// number is one as JSON writes it. YAML knows others, which would say something
// else there or nothing.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// object decodes a mapping that is handed on as JSON.
func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	if !d.is(n, yaml.MappingNode, v, path) {
		return
	}
	if text, ok := d.json(nil, n, path); ok {
		v.SetBytes(text)
	}
}

// json appends n to b. It reports whether n is something that JSON can say.
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
	d.report(n, "", "put it in quotes, or write it as JSON would", "%s: %s is not JSON", path, n.Value)
	return append(b, "null"...), false
}

// item is json for a value within an object or a list.
func (d *decoder) item(b []byte, n *yaml.Node, path string) ([]byte, bool) {
	if !(n.Kind == yaml.ScalarNode && n.Tag == "!!null") && !d.plain(n, path, reflect.TypeFor[JSON]()) {
		return append(b, "null"...), false
	}
	return d.json(b, n, path)
}

func (d *decoder) text(b []byte, n *yaml.Node) []byte {
	b, err := jsontext.AppendQuote(b, n.Value)
	if err != nil {
		panic("config: text that CheckText let through: " + err.Error())
	}
	return b
}
