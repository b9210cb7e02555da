package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// schemaID is the JSON Schema dialect of the generated schemas.
const schemaID = "https://json-schema.org/draft/2020-12/schema"

// referencePattern matches a reference to a variable in place of a value that is not text.
const referencePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`

// Schema returns a JSON Schema of thoughtgate.yaml, for editors. It is derived from the types
// that the decoder uses, so it has the same keys. It does not cover the checks of Load beyond the
// form of a value.
func Schema() []byte { return whole.schema(reflect.TypeFor[Config](), FileName) }

// ProjectSchema returns a JSON Schema of a project's .thoughtgate.yaml.
func ProjectSchema() []byte { return project.schema(reflect.TypeFor[Config](), ProjectFileName) }

// schema returns the JSON Schema of a file whose root has type t.
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
		panic("config: the schema: " + err.Error()) // it holds only maps, lists and texts
	}
	return b.Bytes()
}

// blank returns a value of type t that holds the defaults.
func blank(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if def, ok := v.Interface().(interface{ defaults() }); ok {
		def.defaults()
	}
	return v.Elem()
}

// schemaOf returns the schema of values of v's type. v holds the default.
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

// asWritten returns v as a file would write it. It returns nil for zero values other than false,
// and for composite values.
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

// matching returns the schema of a text that matches pattern or contains a variable. title
// describes the pattern.
func matching(title, pattern string) map[string]any {
	return map[string]any{"type": "string", "title": title, "pattern": fmt.Sprintf("^(%s)$|%s", pattern, referencePattern)}
}

// orReference returns a schema that accepts a variable in place of a value of schema s.
func orReference(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": referencePattern}}}
}
