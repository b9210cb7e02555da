package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// schemaID names the JSON Schema of the configuration.
const schemaID = "https://json-schema.org/draft/2020-12/schema"

// referencePattern finds what may stand in place of a value that is no text.
const referencePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`

// Schema returns a JSON Schema of thoughtgate.yaml, for editors. It is made
// from the types that the decoder follows, so that it knows the same keys; what
// Load checks beyond the form of a value it doesn't say.
func Schema() []byte { return whole.schema(reflect.TypeFor[Config](), FileName) }

// ProjectSchema returns a JSON Schema of a project's .thoughtgate.yaml.
func ProjectSchema() []byte { return project.schema(reflect.TypeFor[Config](), ProjectFileName) }

// schema is the JSON Schema of a file whose root is of type t.
func (f form) schema(t reflect.Type, title string) []byte {
	v := blank(t)
	if c, ok := v.Addr().Interface().(*Config); ok && f.defaults != nil {
		f.defaults(c)
	}
	root := f.schemaOf(v, "")
	root["$schema"] = schemaID
	root["title"] = title
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic("config: the schema: " + err.Error()) // it holds maps, lists and texts only
	}
	return b.Bytes()
}

// blank is a value of type t in which nothing is written: what holds then.
func blank(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if def, ok := v.Interface().(interface{ defaults() }); ok {
		def.defaults()
	}
	return v.Elem()
}

// schemaOf is the schema of values like v, which is what holds where none is
// written.
func (f form) schemaOf(v reflect.Value, tag reflect.StructTag) map[string]any {
	s := f.schemaOfType(v, tag)
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if written := asWritten(v); written != nil && tag.Get("need") != "true" {
		s["default"] = written
	}
	return s
}

// asWritten is a value as a file would have it, nil for none and for what is
// made of other values. No number and no text is nothing; no is a value.
func asWritten(v reflect.Value) any {
	if v.IsZero() && v.Kind() != reflect.Bool {
		return nil
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return FormatDuration(value)
	case Size:
		return value.String()
	case []string:
		return value
	}
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Float64:
		return v.Interface()
	}
	return nil
}

func (f form) schemaOfType(v reflect.Value, tag reflect.StructTag) map[string]any {
	t := v.Type()
	switch t {
	case reflect.TypeFor[Glob]():
		return map[string]any{"type": "string", "minLength": 1, "maxLength": maxGlob}
	case reflect.TypeFor[time.Duration]():
		text := matching("a duration, as 90s, 10m or 7d", `0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?`)
		return map[string]any{"anyOf": []any{text, map[string]any{"enum": []any{0}}}}
	case reflect.TypeFor[JSON]():
		return map[string]any{"type": "object", "additionalProperties": map[string]any{}}
	case reflect.TypeFor[Size]():
		return matching("a size, as 10MiB or 2GiB", `[0-9]+([KMGT]i)?B`)
	}
	switch t.Kind() {
	case reflect.Struct:
		return f.schemaOfStruct(v)
	case reflect.Slice:
		items := f.schemaOf(blank(t.Elem()), "")
		list := map[string]any{"type": "array", "items": items}
		if tag.Get("one") == "true" {
			return map[string]any{"anyOf": []any{items, list}}
		}
		return list
	case reflect.Map:
		elem := t.Elem()
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		return map[string]any{"type": "object", "additionalProperties": f.schemaOf(blank(elem), "")}
	case reflect.Pointer:
		return f.schemaOf(blank(t.Elem()), tag)
	case reflect.Bool:
		return orReference(map[string]any{"type": "boolean"})
	case reflect.Int, reflect.Float64:
		return orReference(numberSchema(t, tag))
	}
	if words := f.wordsOf(t); words != nil {
		return orReference(map[string]any{"enum": words})
	}
	return map[string]any{"type": "string"}
}

func (f form) schemaOfStruct(v reflect.Value) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, key := range f.fields(v.Type()) {
		properties[key.key] = f.schemaOf(v.Field(key.index), key.tag)
		if key.tag.Get("need") == "true" {
			required = append(required, key.key)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func numberSchema(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := map[string]any{"type": "number"}
	if t.Kind() == reflect.Int {
		s["type"] = "integer"
	}
	for key, word := range map[string]string{"min": "minimum", "max": "maximum"} {
		if limit, ok := tag.Lookup(key); ok {
			s[word] = json.Number(limit)
		}
	}
	return s
}

// matching is a text of a form of its own, named by title, or one with a
// variable in it.
func matching(title, pattern string) map[string]any {
	return map[string]any{"type": "string", "title": title, "pattern": fmt.Sprintf("^(%s)$|%s", pattern, referencePattern)}
}

// orReference lets a variable stand in place of a value.
func orReference(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": referencePattern}}}
}
