package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of a schema. What lies deeper than maxDepth is Any. A schema that is longer than
// maxSchema, or has more than maxNodes nodes with references resolved, is refused.
const (
	maxSchema = 256 << 10 // bytes
	maxNodes  = 4096      // subschemas, and those made by combining them
	maxDepth  = 32        // levels, including references and combinations
)

// ErrTooLarge reports that a schema exceeds the limits. Errors wrap it.
var ErrTooLarge = errors.New("the input schema is too large")

// Read derives a Shape from a JSON Schema, the inputSchema of a tool. It ignores what it does not
// understand, so that more becomes Any. It fails if the schema does not describe an object, and
// with ErrTooLarge. A nil schema accepts any object.
func Read(raw []byte) (*Shape, error) {
	if raw == nil {
		return &Shape{Kind: Object, Rest: &Shape{}}, nil
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(raw))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("read the input schema: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the input schema: something follows it")
	}
	r := reader{root: root, following: map[string]bool{}}
	v := r.read(root, 0)
	switch {
	case r.nodes > maxNodes:
		return nil, fmt.Errorf("%w: there are more than %d schemas in it", ErrTooLarge, maxNodes)
	case v.shape.Kind == Any && !v.none:
		return &Shape{Kind: Object, Rest: &Shape{}}, nil
	case v.shape.Kind != Object:
		return nil, errors.New("read the input schema: it is none of an object, and arguments are one")
	}
	return v.shape, nil
}

// reader walks a decoded schema.
type reader struct {
	root      any
	nodes     int             // created so far
	following map[string]bool // references that are being resolved
}

// full counts a node and reports whether there are too many.
func (r *reader) full() bool {
	r.nodes++
	return r.nodes > maxNodes
}

// valued is a Shape. null is set if null fits too, none if nothing but null fits.
type valued struct {
	shape      *Shape
	null, none bool
}

func anything() valued { return valued{shape: &Shape{}, null: true} }

// read derives a Shape from one schema.
func (r *reader) read(schema any, depth int) valued {
	m, ok := schema.(map[string]any)
	if r.full() || !ok || depth > maxDepth {
		return anything()
	}
	v := r.own(m, depth)
	// A recursive reference is followed once, and is Any inside itself.
	if ref, ok := m["$ref"].(string); ok && !r.following[ref] {
		r.following[ref] = true
		v = r.both(v, r.read(r.at(ref), depth+1))
		delete(r.following, ref)
	}
	if all, ok := m["allOf"].([]any); ok {
		for _, part := range all {
			v = r.both(v, r.read(part, depth+1))
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if parts, ok := m[key].([]any); ok && len(parts) > 0 {
			v = r.both(v, r.any(parts, depth))
		}
	}
	return v
}

// any returns the union of several schemas.
func (r *reader) any(parts []any, depth int) valued {
	v := r.read(parts[0], depth+1)
	for _, part := range parts[1:] {
		v = r.either(v, r.read(part, depth+1))
	}
	return v
}

// own returns the shape that a schema has without its references and combinations.
func (r *reader) own(m map[string]any, depth int) valued {
	kinds, null, said := kindsOf(m)
	if !said {
		return anything()
	}
	v := valued{&Shape{Kind: common(kinds)}, null, len(kinds) == 0}
	switch v.shape.Kind {
	case List:
		v.shape.Items = r.items(m, depth)
	case Object:
		r.members(v.shape, m, depth)
	}
	return v
}

// items returns the shape of a list's items.
func (r *reader) items(m map[string]any, depth int) *Shape {
	var parts []any
	for _, key := range []string{"prefixItems", "items"} {
		switch at := m[key].(type) {
		case []any:
			parts = append(parts, at...)
		case map[string]any:
			parts = append(parts, at)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	// A null item counts as absent, so null is dropped here.
	return r.any(parts, depth).shape
}

// members sets the members of an object.
func (r *reader) members(s *Shape, m map[string]any, depth int) {
	properties, _ := m["properties"].(map[string]any)
	required := map[string]bool{}
	list, _ := m["required"].([]any)
	for _, name := range list {
		if name, ok := name.(string); ok {
			required[name] = true
		}
	}
	for name, schema := range properties {
		v := r.read(schema, depth+1)
		s.Members = append(s.Members, Member{name, required[name] && !v.null, v.shape})
	}
	for name := range required {
		if _, ok := properties[name]; !ok && !r.full() {
			s.Members = append(s.Members, Member{name, false, &Shape{}}) // it may be null
		}
	}
	slices.SortFunc(s.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	s.Rest = r.rest(m, depth)
}

// rest returns the shape of members that an object does not name. By JSON Schema, an object that
// does not exclude further members may have any. But a policy is written about the named ones, so
// none are assumed where properties are named.
func (r *reader) rest(m map[string]any, depth int) *Shape {
	for _, key := range []string{"patternProperties", "if", "dependentSchemas", "unevaluatedProperties"} {
		if at, ok := m[key]; ok && at != false {
			return &Shape{}
		}
	}
	switch more := m["additionalProperties"].(type) {
	case bool:
		if more {
			return &Shape{}
		}
		return nil
	case map[string]any:
		return r.read(more, depth+1).shape
	}
	if _, ok := m["properties"]; ok {
		return nil
	}
	return &Shape{}
}

// at resolves a reference within the schema. Any other reference gives nil, which is Any.
func (r *reader) at(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := r.root
	for path != "" {
		var name string
		if path, ok = strings.CutPrefix(path, "/"); !ok {
			return nil
		}
		name, path, ok = strings.Cut(path, "/")
		if ok {
			path = "/" + path
		}
		m, isObject := at.(map[string]any)
		if !isObject {
			return nil
		}
		at = m[strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")]
	}
	return at
}

// kindsOf returns the kinds that a schema names, and whether null is one. said is false if it
// names none. A schema names kinds by its type or else by the values it lists, or by keywords
// that only objects or lists have.
func kindsOf(m map[string]any) (kinds []Kind, null, said bool) {
	switch t := m["type"].(type) {
	case string:
		kinds, null = kindsNamed([]any{t})
		return kinds, null, true
	case []any:
		kinds, null = kindsNamed(t)
		return kinds, null, true
	}
	if list, ok := m["enum"].([]any); ok && len(list) > 0 {
		kinds, null = kindsOfValues(list)
		return kinds, null, true
	}
	if value, ok := m["const"]; ok {
		kinds, null = kindsOfValues([]any{value})
		return kinds, null, true
	}
	for _, key := range []string{"properties", "additionalProperties", "patternProperties", "required"} {
		if _, ok := m[key]; ok {
			return []Kind{Object}, false, true
		}
	}
	for _, key := range []string{"items", "prefixItems"} {
		if _, ok := m[key]; ok {
			return []Kind{List}, false, true
		}
	}
	return nil, false, false
}

// kindNames maps the type names of JSON Schema to kinds.
var kindNames = map[string]Kind{"string": Text, "boolean": Bool, "integer": Integer, "number": Number, "array": List, "object": Object}

func kindsNamed(names []any) (kinds []Kind, null bool) {
	for _, name := range names {
		word, _ := name.(string)
		if word == "null" {
			null = true
			continue
		}
		kinds = append(kinds, kindNames[word]) // Any for an unknown name
	}
	return kinds, null
}

func kindsOfValues(values []any) (kinds []Kind, null bool) {
	for _, value := range values {
		switch value := value.(type) {
		case nil:
			null = true
		case string:
			kinds = append(kinds, Text)
		case bool:
			kinds = append(kinds, Bool)
		case json.Number:
			kind := Integer
			if strings.ContainsAny(value.String(), ".eE") {
				kind = Number
			}
			kinds = append(kinds, kind)
		default:
			kinds = append(kinds, Any)
		}
	}
	return kinds, null
}

// common returns the narrowest kind that includes all of kinds.
func common(kinds []Kind) Kind {
	if len(kinds) == 0 {
		return Any // nothing but null
	}
	kind := kinds[0]
	for _, k := range kinds[1:] {
		kind = wider(kind, k)
	}
	return kind
}

// wider returns the narrowest kind that includes a and b.
func wider(a, b Kind) Kind {
	switch {
	case a == b:
		return a
	case a == Integer && b == Number, a == Number && b == Integer:
		return Number
	}
	return Any
}
