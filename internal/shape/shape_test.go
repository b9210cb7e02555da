package shape

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// inShort writes a shape in short form: {a: text, b?: [integer], ...: any}.
func inShort(s *Shape) string {
	switch {
	case s == nil || s.Kind == Any:
		return "any"
	case s.Kind == List:
		return "[" + inShort(s.Items) + "]"
	case s.Kind != Object:
		return string(s.Kind)
	}
	var parts []string
	for _, m := range s.Members {
		mark := "?"
		if m.Required {
			mark = ""
		}
		parts = append(parts, m.Name+mark+": "+inShort(m.Shape))
	}
	if s.Rest != nil {
		parts = append(parts, "...: "+inShort(s.Rest))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func TestRead(t *testing.T) {
	// of returns the schema of an object with one member x.
	of := func(schema string) string { return `{"type":"object","properties":{"x":` + schema + `}}` }
	for name, test := range map[string]struct{ schema, want string }{
		"nothing but an object":   {`{"type":"object"}`, "{...: any}"},
		"no arguments":            {`{"type":"object","properties":{}}`, "{}"},
		"closed":                  {`{"type":"object","additionalProperties":false}`, "{}"},
		"everything":              {`{}`, "{...: any}"},
		"true":                    {`true`, "{...: any}"},
		"the simple types":        {`{"type":"object","properties":{"s":{"type":"string"},"b":{"type":"boolean"},"i":{"type":"integer"},"n":{"type":"number"}},"required":["s","i"]}`, "{b?: bool, i: integer, n?: number, s: text}"},
		"no type but properties":  {`{"properties":{"x":{"type":"string"}}}`, "{x?: text}"},
		"a list":                  {of(`{"type":"array","items":{"type":"string"}}`), "{x?: [text]}"},
		"a list of anything":      {of(`{"type":"array"}`), "{x?: [any]}"},
		"a list of true":          {of(`{"type":"array","items":true}`), "{x?: [any]}"},
		"a tuple":                 {of(`{"type":"array","prefixItems":[{"type":"integer"},{"type":"number"}]}`), "{x?: [number]}"},
		"an old tuple":            {of(`{"type":"array","items":[{"type":"integer"},{"type":"string"}]}`), "{x?: [any]}"},
		"nested":                  {of(`{"type":"object","properties":{"y":{"type":"array","items":{"type":"object","properties":{"z":{"type":"integer"}},"required":["z"]}}}}`), "{x?: {y?: [{z: integer}]}}"},
		"a map":                   {of(`{"type":"object","additionalProperties":{"type":"string"}}`), "{x?: {...: text}}"},
		"more may come":           {`{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":true}`, "{x?: text, ...: any}"},
		"patterns":                {`{"type":"object","properties":{"x":{"type":"string"}},"patternProperties":{"^y":{}}}`, "{x?: text, ...: any}"},
		"if and then":             {`{"type":"object","properties":{"x":{"type":"string"}},"if":{},"then":{"properties":{"y":{}}}}`, "{x?: text, ...: any}"},
		"or null by type":         {of(`{"type":["string","null"]}`), "{x?: text}"},
		"or null by anyOf":        {of(`{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null}`), "{x?: integer}"},
		"null first":              {of(`{"anyOf":[{"type":"null"},{"type":"array","items":{"type":"string"}}]}`), "{x?: [text]}"},
		"required, but or null":   {`{"type":"object","properties":{"x":{"type":["string","null"]}},"required":["x"]}`, "{x?: text}"},
		"required, not described": {`{"type":"object","properties":{},"required":["x"]}`, "{x?: any}"},
		"only null":               {of(`{"type":"null"}`), "{x?: any}"},
		"integer or number":       {of(`{"type":["integer","number"]}`), "{x?: number}"},
		"text or number":          {of(`{"oneOf":[{"type":"string"},{"type":"number"}]}`), "{x?: any}"},
		"words":                   {of(`{"enum":["a","b"]}`), "{x?: text}"},
		"words or null":           {of(`{"enum":["a",null]}`), "{x?: text}"},
		"numbers":                 {of(`{"enum":[1,2]}`), "{x?: integer}"},
		"numbers with fractions":  {of(`{"enum":[1,2.5]}`), "{x?: number}"},
		"words and numbers":       {of(`{"enum":["a",1]}`), "{x?: any}"},
		"one word":                {of(`{"const":"a"}`), "{x?: text}"},
		"a type nobody knows":     {of(`{"type":"date"}`), "{x?: any}"},
		"two objects":             {of(`{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"n":{"type":"integer"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"number"}},"required":["k","n"]}]}`), "{x?: {k: text, n?: number}}"},
		"two lists":               {of(`{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"number"}}]}`), "{x?: [number]}"},
		"two forms of arguments":  {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, "{a?: text, b?: text}"},
		"an object or more":       {of(`{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","additionalProperties":{"type":"integer"}}]}`), "{x?: {a?: any, ...: integer}}"},
		"all of":                  {`{"allOf":[{"type":"object","properties":{"a":{"type":"number"}}},{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}]}`, "{a: integer, b?: text}"},
		"a reference":             {`{"type":"object","properties":{"x":{"$ref":"#/$defs/A"}},"required":["x"],"$defs":{"A":{"type":"object","properties":{"y":{"type":"string"}}}}}`, "{x: {y?: text}}"},
		"a reference beside":      {`{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"object","properties":{"y":{"type":"string"}}}}}`, "{y?: text}"},
		"a tree":                  {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/n"}}}}}}`, "{children?: [any], name?: text}"},
		"a reference elsewhere":   {of(`{"$ref":"https://example.com/s.json"}`), "{x?: any}"},
		"a reference to nowhere":  {of(`{"$ref":"#/$defs/nope"}`), "{x?: any}"},
		"a reference into a word": {of(`{"$ref":"#/type/x"}`), "{x?: any}"},
	} {
		s, err := Read([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := inShort(s); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		again, err := Decode(s.Encode())
		if err != nil || string(again.Encode()) != string(s.Encode()) {
			t.Errorf("%s: written down it is %s, read again %v %v", name, s.Encode(), again, err)
		}
	}
	if s, err := Read(nil); err != nil || inShort(s) != "{...: any}" {
		t.Errorf("no schema: got %v, %v", s, err)
	}
	for _, schema := range []string{`{`, `{} {}`, `{"type":"string"}`, `{"type":"null"}`, ``} {
		if s, err := Read([]byte(schema)); err == nil {
			t.Errorf("%s: got %s, want an error", schema, inShort(s))
		}
	}
}

func TestMember(t *testing.T) {
	s, err := Read([]byte(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["a"],"additionalProperties":{"type":"boolean"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "integer true", "b": "text false", "c": "bool false"} {
		m, ok := s.Member(name)
		if got := fmt.Sprintf("%s %v", inShort(m.Shape), m.Required); !ok || got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := strings.Join(s.Names(), " "); got != "a b" {
		t.Errorf("names: got %s", got)
	}
	if _, ok := (&Shape{Kind: Object}).Member("a"); ok {
		t.Error("an object without members has one")
	}
}

// A server must not be able to keep the daemon busy.
func TestHostileSchemas(t *testing.T) {
	many := func(n int, part func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = part(i)
		}
		return strings.Join(parts, ",")
	}
	for name, test := range map[string]struct {
		schema string
		large  bool
	}{
		"itself":      {`{"type":"object","properties":{"x":{"$ref":"#"}}}`, false},
		"a circle":    {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, false},
		"two of each": {`{"type":"object","properties":{"x":{"$ref":"#"},"y":{"$ref":"#"}}}`, false},
		"doubling": {`{"$ref":"#/$defs/d0","$defs":{` + many(30, func(i int) string {
			return fmt.Sprintf(`"d%d":{"properties":{"x":{"$ref":"#/$defs/d%d"},"y":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1)
		}) + `}}`, true},
		"deep":         {strings.Repeat(`{"properties":{"x":`, 1000) + "{}" + strings.Repeat("}}", 1000), false},
		"long":         {`{"type":"object","title":"` + strings.Repeat("x", maxSchema) + `"}`, true},
		"wide":         {`{"type":"object","properties":{` + many(5000, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}`, true},
		"all required": {`{"type":"object","required":[` + many(10000, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`, true},
		"any of many":  {`{"anyOf":[` + many(2000, func(i int) string { return fmt.Sprintf(`{"properties":{"p%d":{}}}`, i) }) + `]}`, true},
		"rest by rest": {`{"anyOf":[{"additionalProperties":{"$ref":"#/$defs/a"}},{"properties":{` +
			many(1000, func(i int) string { return fmt.Sprintf(`"p%d":{"properties":{"q":{}}}`, i) }) + `}}],"$defs":{"a":{"properties":{` +
			many(1000, func(i int) string { return fmt.Sprintf(`"r%d":{}`, i) }) + `}}}}`, true},
	} {
		began := time.Now()
		s, err := Read([]byte(test.schema))
		if test.large != errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %.100s %v", name, inShort(s), err)
		}
		if took := time.Since(began); took > time.Minute { // doubling would take days
			t.Errorf("%s: it took %v", name, took)
		}
		if s != nil && len(s.Encode()) > 1<<20 {
			t.Errorf("%s: it takes %d bytes", name, len(s.Encode()))
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{"k":"date"}`, `{"k":"object","m":[{"n":"a"}]}`, `{"k":"object","m":[{"n":"b","s":{}},{"n":"a","s":{}}]}`,
		`{"k":"list","i":{"k":"x"}}`, `{"k":"object","r":{"k":"x"}}`, `{"k":"object","m":[{"n":"a","s":{"k":"x"}}]}`} {
		if s, err := Decode([]byte(raw)); err == nil {
			t.Errorf("%s: got %s, want an error", raw, inShort(s))
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/b"}]}},"$defs":{"b":{"type":"array","items":{"$ref":"#"}}},"required":["a"]}`))
	f.Add([]byte(`{"allOf":[{"properties":{"a":{"enum":[1,null]}}},{"oneOf":[{"required":["a"]},{"additionalProperties":{"const":1.5}}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Read(raw)
		if err != nil {
			return
		}
		if s.Kind != Object {
			t.Fatalf("of kind %q", s.Kind)
		}
		again, err := Decode(s.Encode())
		if err != nil || string(again.Encode()) != string(s.Encode()) {
			t.Fatalf("written down it is %s, read again: %v", s.Encode(), err)
		}
		for _, name := range s.Names() {
			if _, ok := s.Member(name); !ok {
				t.Fatalf("the member %q is not found", name)
			}
		}
	})
}
