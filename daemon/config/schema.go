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
	root := f.schemaOf(t, "")
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

func (f form) schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := f.schemaOfType(t, tag)
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	return s
}

func (f form) schemaOfType(t reflect.Type, tag reflect.StructTag) map[string]any {
	switch t {
	case reflect.TypeFor[Glob]():
		return map[string]any{"type": "string", "minLength": 1, "maxLength": maxGlob}
	case reflect.TypeFor[time.Duration]():
		text := matching(`0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?`)
		return map[string]any{"anyOf": []any{text, map[string]any{"enum": []any{0}}}}
	case reflect.TypeFor[JSON]():
		return map[string]any{"type": "object", "additionalProperties": map[string]any{}}
	case reflect.TypeFor[Size]():
		return matching(`[0-9]+([KMGT]i)?B`)
	}
	switch t.Kind() {
	case reflect.Struct:
		return f.schemaOfStruct(t)
	case reflect.Slice:
		items := f.schemaOf(t.Elem(), "")
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
		return map[string]any{"type": "object", "additionalProperties": f.schemaOf(elem, "")}
	case reflect.Pointer:
		return f.schemaOf(t.Elem(), tag)
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

func (f form) schemaOfStruct(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, key := range f.fields(t) {
		properties[key.key] = f.schemaOf(t.Field(key.index).Type, key.tag)
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

// matching is a text of a form of its own, or one with a variable in it.
func matching(pattern string) map[string]any {
	return map[string]any{"type": "string", "pattern": fmt.Sprintf("^(%s)$|%s", pattern, referencePattern)}
}

// orReference lets a variable stand in place of a value.
func orReference(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": referencePattern}}}
}
