package rawjson_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// TestRead lists invalid objects and their errors.
func TestRead(t *testing.T) {
	for raw, want := range map[string]string{
		` {"a":1} `:                              "",
		`{}`:                                     "",
		"{\"a\":\n{\"B\":1,\"b\":2}}":            "", // nested objects are not checked before they are read
		``:                                       "not a JSON object",
		`null`:                                   "not a JSON object",
		`[{}]`:                                   "not a JSON object",
		`{"a":1`:                                 "EOF",
		`{"a":1,}`:                               "invalid character",
		`{"a":1}{}`:                              "text behind",
		`{"a":1} x`:                              "text behind",
		`{"a":1,"a":1}`:                          "duplicate",
		`{"a":1,"\u0061":1}`:                     "duplicate",
		`{"a":[{"b":1,"b":2}]}`:                  "duplicate",
		`{"a":"\ud800"}`:                         "surrogate",
		`{"\udc00":1}`:                           "surrogate",
		"{\"a\":\"\xff\"}":                       "UTF-8",
		`{"a":1,"A":2}`:                          `"A" is there in two spellings`,
		`{"k":1,"` + "\u212a" + `":2}`:           "two spellings",
		`{"params":1,"param` + "\u017f" + `":2}`: "two spellings",
		`{"a":1,"a ":2}`:                         "two spellings",
		`{"a":1,"a\u0000":2}`:                    "two spellings",
		`{"a":1,"\u200ba":2}`:                    "two spellings",
		`{"__proto__":{}}`:                       "JavaScript",
		`{"__PROTO__":{}}`:                       "can be taken for __proto__",
	} {
		o := rawjson.Read([]byte(raw))
		if err := o.Err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", raw, err, want)
		}
	}
}

// TestMembers checks that names of others may differ only in case.
func TestMembers(t *testing.T) {
	raw := []byte(" {\"a\" : 1.50, \"\\u0041\":{ \"x\": [1 ,2]},\"\":null }\n")
	members, err := rawjson.Members(raw)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, m := range members {
		got += m.Name + "=" + string(m.Value) + ";"
		_ = append(m.Value, "XXXX"...) // must not change raw
	}
	if want := `a=1.50;A={ "x": [1 ,2]};=null;`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.Contains(string(raw), "X") {
		t.Errorf("an append changed the text: %s", raw)
	}
	if _, err := rawjson.Members([]byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("a name came twice")
	}
	if _, err := rawjson.Elements([]byte(`{}`)); err == nil {
		t.Error("an object was taken for an array")
	}
}

// TestGetters lists the result of each getter for each kind of value.
func TestGetters(t *testing.T) {
	raw := []byte(`{"null":null,"text":"a\u0062","empty":"","n":7,"most":18446744073709551615,"more":18446744073709551616,"minus":-1,"part":1.0,"exp":1e2,
		"yes":true,"no":false,"o":{"in":"x"},"os":[{"in":"y"},{"in":"z"}],"ts":["a",""],"mixed":["a",1],"none":[]}`)
	getters := map[string]func(o rawjson.Object, name string) any{
		"Has":          func(o rawjson.Object, name string) any { return o.Has(name) },
		"Get":          func(o rawjson.Object, name string) any { return string(o.Get(name)) },
		"Text":         func(o rawjson.Object, name string) any { return o.Text(name) },
		"OptionalText": func(o rawjson.Object, name string) any { return o.OptionalText(name) },
		"Number":       func(o rawjson.Object, name string) any { return o.Number(name, 5) },
		"True":         func(o rawjson.Object, name string) any { return o.True(name) },
		"Object":       func(o rawjson.Object, name string) any { return o.Object(name).OptionalText("in") },
		"Texts":        func(o rawjson.Object, name string) any { return strings.Join(o.Texts(name), "|") },
		"Objects": func(o rawjson.Object, name string) any {
			all := ""
			for _, one := range o.Objects(name) {
				all += one.Text("in")
			}
			return all
		},
	}
	want := map[string]map[string]any{
		"Has":          {"absent": false, "null": true, "text": true},
		"Get":          {"absent": "", "null": "", "text": `"a\u0062"`, "o": `{"in":"x"}`},
		"Text":         {"text": "ab", "empty": ""},
		"OptionalText": {"absent": "", "null": "", "text": "ab", "empty": ""},
		"Number":       {"absent": uint64(5), "null": uint64(5), "n": uint64(7), "most": uint64(1<<64 - 1)},
		"True":         {"absent": false, "null": false, "yes": true, "no": false},
		"Object":       {"absent": "", "null": "", "o": "x"},
		"Texts":        {"absent": "", "null": "", "ts": "a|", "none": ""},
		"Objects":      {"absent": "", "null": "", "os": "yz", "none": ""},
	}
	names := []string{"absent"}
	for _, m := range rawjson.Read(raw).Members {
		names = append(names, m.Name)
	}
	for getter, get := range getters {
		for _, name := range names {
			o := rawjson.Read(raw)
			got, err := get(o, name), o.Err()
			wanted, ok := want[getter][name]
			switch {
			case getter == "Has" || getter == "Get":
				if ok && got != wanted || err != nil {
					t.Errorf("%s(%s) = %v, %v; want %v", getter, name, got, err, wanted)
				}
			case ok != (err == nil), ok && !reflect.DeepEqual(got, wanted):
				t.Errorf("%s(%s) = %v, %v; want %v", getter, name, got, err, wanted)
			case err != nil && !strings.Contains(err.Error(), name):
				t.Errorf("%s(%s): %v does not name it", getter, name, err)
			}
			// A name that can be confused with the requested one is an error, not a match.
			twin := rawjson.Read([]byte(`{"` + strings.ToUpper(name) + `":1}`))
			get(twin, name)
			if twin.Err() == nil {
				t.Errorf("%s(%s) overlooked a twin", getter, name)
			}
		}
	}
}

// TestErr checks that the first error is returned, with its path from the outermost object.
func TestErr(t *testing.T) {
	o := rawjson.Read([]byte(`{"tools":[{"name":"a"},{"models":[{"id":1}]},[]],"b":"x"}`))
	for i, tool := range o.Objects("tools")[:2] {
		if i == 1 {
			tool.Objects("models")[0].Text("id")
		}
	}
	if got, want := fmt.Sprint(o.Err()), "tools[2]: not a JSON object"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	o = rawjson.Read([]byte(`{"tools":[{"name":"a"},{"models":[{"id":1}]}],"b":"x"}`))
	o.Objects("tools")[1].Objects("models")[0].Text("id")
	o.Number("b", 0)
	o.Fail("later")
	if got, want := fmt.Sprint(o.Err()), `missing or invalid "tools[1].models[0].id"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWithoutAndSet(t *testing.T) {
	o := rawjson.Read([]byte(` { "type":"usage", "a" : 5 ,"b":[1, 2],"\u0063":null }`))
	for _, test := range []struct{ got, want string }{
		{string(o.Without("type")), `{"a":5,"b":[1, 2],"\u0063":null}`},
		{string(o.Without("a", "c", "other")), `{"type":"usage","b":[1, 2]}`},
		{string(o.Without("type", "a", "b", "c")), `{}`},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	for raw, want := range map[string]string{`{}`: `{"a":1}`, `{"b":2}`: `{"a":1,"b":2}`, `{"b":2, "a": [] }`: `{"b":2, "a": 1 }`, `{"A":2}`: "", `[]`: ""} {
		got, err := rawjson.Set([]byte(raw), "a", []byte("1"))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		"": "", ` { "b" : "\u0061\/", "a" :[ 1.50, 1e2 ]}`: `{"a":[1.50,1e2],"b":"a/"}`,
		`{"a":1,"a":2}`: `{"a":1,"a":2}`, `"\ud800"`: `"\ud800"`, `{ "a"`: `{ "a"`,
	} {
		if got := string(rawjson.Canonical([]byte(raw))); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}
