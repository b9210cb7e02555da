package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"
)

// The schema must have exactly the keys of the decoder.
func TestSchemaKnowsTheKeys(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var compare func(path string, s map[string]any, typ reflect.Type)
	compare = func(path string, s map[string]any, typ reflect.Type) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || isScalar(typ) {
			return
		}
		s = innermost(s)
		properties, _ := s["properties"].(map[string]any)
		var want []string
		for _, f := range fields(typ) {
			want = append(want, f.key)
			inner, _ := properties[f.key].(map[string]any)
			compare(path+"."+f.key, inner, typ.Field(f.index).Type)
		}
		slices.Sort(want)
		if got := keysOf(properties); !slices.Equal(got, want) || s["additionalProperties"] != false {
			t.Errorf("%s: the schema knows %v, the decoder %v", path, got, want)
		}
	}
	compare("", schema, reflect.TypeFor[Config]())
}

// innermost returns the schema of the mapping inside a list or a table.
func innermost(s map[string]any) map[string]any {
	for {
		if items, ok := s["items"].(map[string]any); ok {
			s = items
		} else if values, ok := s["additionalProperties"].(map[string]any); ok {
			s = values
		} else {
			return s
		}
	}
}

// The defaults in the schema are those that apply.
func TestSchemaDefaultsHold(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	count := 0
	var defaults func(s map[string]any) any
	defaults = func(s map[string]any) any {
		if d, ok := s["default"]; ok {
			count++
			return d
		}
		written := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for key, inner := range properties {
			if d := defaults(inner.(map[string]any)); d != nil {
				written[key] = d
			}
		}
		if len(written) == 0 {
			return nil
		}
		return written
	}
	doc, _ := defaults(schema).(map[string]any)
	if count < 15 {
		t.Fatalf("the schema names %d defaults: %v", count, doc)
	}
	doc["schema"] = 1
	text, err := json.Marshal(doc) // JSON is valid YAML
	if err != nil {
		t.Fatal(err)
	}
	parsed := func(text string) *Config {
		c, problems := Parse("f.yaml", []byte(text), func(string) string { return "" })
		if len(problems) > 0 {
			t.Fatalf("%s: %v", text, problems)
		}
		c.Governance.Rules, c.FileDigest, c.Digest = nil, "", ""
		return c
	}
	got, want := parsed(string(text)), parsed("schema: 1\n")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{}, Glob{})); diff != "" {
		t.Errorf("with the schema's defaults written (+), and with none:\n%s", diff)
	}
}

// The schema must accept what the decoder accepts: people switch off an editor that marks valid
// files.
func TestSchemaTakesTheSamples(t *testing.T) {
	var schema any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{everything, string(defaultYAML), "schema: 1\nprofile: ${P:-production}\nlimits: {pending: \"${N}\"}\nshim: {reattach: 0}\n"} {
		var doc any
		if err := yaml.Load([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if !fits(schema.(map[string]any), doc) {
			t.Errorf("the schema refuses:\n%s", text)
		}
	}
	for _, text := range []string{"schema: 2\n", "profile: production\n", "schema: 1\nprofil: x\n", "schema: 1\npins: {mode: of}\n", "schema: 1\nshim: {reattach: 15}\n", "schema: 1\naudit: {max_size: 2GB}\n"} {
		var doc any
		if err := yaml.Load([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if fits(schema.(map[string]any), doc) {
			t.Errorf("the schema takes:\n%s", text)
		}
	}
}

// fits reports whether v fits the schema s. It supports only the keywords that Schema uses.
func fits(s map[string]any, v any) bool {
	if len(s) == 0 {
		return true
	}
	if any, ok := s["anyOf"].([]any); ok {
		return slices.ContainsFunc(any, func(a interface{}) bool { return fits(a.(map[string]interface{}), v) })
	}
	if words, ok := s["enum"].([]any); ok {
		if n, ok := v.(int); ok {
			v = float64(n) // as numbers of the schema are decoded
		}
		return slices.Contains(words, v)
	}
	types := []any{s["type"]}
	switch v := v.(type) {
	case map[string]any:
		return slices.Contains(types, any("object")) && fitsObject(s, v)
	case []any:
		return slices.Contains(types, any("array")) && !slices.ContainsFunc(v, func(item any) bool { return !fits(s["items"].(map[string]any), item) })
	case string:
		pattern, _ := s["pattern"].(string)
		return slices.Contains(types, any("string")) && regexp.MustCompile(pattern).MatchString(v)
	case bool:
		return slices.Contains(types, any("boolean"))
	case int:
		least, hasLeast := s["minimum"].(float64)
		most, hasMost := s["maximum"].(float64)
		return (slices.Contains(types, any("integer")) || slices.Contains(types, any("number"))) &&
			(!hasLeast || float64(v) >= least) && (!hasMost || float64(v) <= most)
	case float64:
		return slices.Contains(types, any("number"))
	}
	return false
}

func fitsObject(s, v map[string]any) bool {
	required, _ := s["required"].([]any)
	for _, key := range required {
		if _, ok := v[key.(string)]; !ok {
			return false
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for key, value := range v {
		inner, ok := properties[key].(map[string]any)
		if !ok {
			if inner, ok = s["additionalProperties"].(map[string]any); !ok {
				return false
			}
		}
		if !fits(inner, value) {
			return false
		}
	}
	return true
}
