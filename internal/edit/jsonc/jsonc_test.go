package jsonc

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

var (
	plain   = Syntax{}
	lenient = Syntax{Comments: true, TrailingCommas: true}
)

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name   string
		src    string
		syntax Syntax
		want   string
	}{
		{"nothing", "", lenient, "line 1, column 1: the file is empty"},
		{"only blanks", "\ufeff \r\n", lenient, "line 1, column 1: the file is empty"},
		{"duplicate name", "{\n  \"a\": 1,\n  \"b\": {},\n  \"a\": 2}", plain,
			`line 4, column 3: the name "a" is there twice; first at line 2, column 3`},
		{"duplicate by escape", `{"ab":1,"a\u0062":2}`, plain, `line 1, column 9: the name "ab" is there twice`},
		{"duplicate deep down", `[{"x":[{"k":1,"k":2}]}]`, plain, `line 1, column 15: the name "k"`},
		{"duplicate behind a byte order mark", "\ufeff{\"a\":1,\"a\":2}", plain, "line 1, column 8: "},
		{"a quote without end", "{\n  \"a\": \"x\\\"\n", lenient, "line 2, column 8: the quote that begins here has no end"},
		{"a quote that ends on a later line", "{\n  \"a\": \"x,\n  \"b\": 1}", lenient, "line 2, column 8: the quote that begins here has no end on its line"},
		{"comment", "{\n // hi\n}", plain, "line 2, column 2: a comment"},
		{"comment between name and colon", `{"a"/*x*/:1}`, plain, "line 1, column 5: a comment"},
		{"comment after colon", `{"a": /*x*/1}`, plain, "line 1, column 7: a comment"},
		{"comment before a comma", `{"a": 1 /*x*/,"b":2}`, plain, "line 1, column 9: a comment"},
		{"comment at the end", "{}\n// end\n", plain, "line 2, column 1: a comment"},
		{"comment before the closing bracket", `[1 /*x*/]`, plain, "line 1, column 4: a comment"},
		{"comment in nothing", `[/*x*/]`, plain, "line 1, column 2: a comment"},
		{"trailing comma", "{\"a\": 1,\n}", plain, "line 1, column 8: a comma after the last value"},
		{"trailing comma in an array", `[1 , ]`, plain, "line 1, column 4: a comma after the last value"},
		{"comment, trailing comma allowed", "[1, // x\n]", Syntax{TrailingCommas: true}, "line 1, column 5: a comment"},
		{"cut short", "{\n\"a\": ", plain, "line 2, column 6: "},
		{"two values", "{} {}", plain, "line 1, column 4: "},
		{"no JSON number", `{"a": 01}`, plain, "line 1, column 7: "},
		{"too deep", strings.Repeat("[", 300) + strings.Repeat("]", 300), plain, "line 1, column 257: nested deeper than 256 levels"},
		{"too deep, brackets in strings not counted", `["` + strings.Repeat("[", 300) + `\"[",` + strings.Repeat("{\"a\":", 256), plain, "nested deeper"},
		{"another encoding", "\xff\xfe{\x00", plain, "line 1, column 1: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.syntax.Parse([]byte(test.src))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse(%q) = %v, want %q in it", test.src, err, test.want)
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, src := range []string{"{}", "\ufeff{}", " [ ] ", deep, `"[[["`, "{\"a\":1,\"A\":2}", "{\r\n}\r\n", `{"a":{"k":1},"b":{"k":1}}`} {
		if _, err := plain.Parse([]byte(src)); err != nil {
			t.Errorf("Parse(%.40q) = %v", src, err)
		}
	}
	for _, src := range []string{"{/*[*/}", "// [[\n{\"a\":1,}\n/* */ // x\n", "{\"a\": [1,2, ], // x\n}"} {
		if _, err := lenient.Parse([]byte(src)); err != nil {
			t.Errorf("Parse(%q) = %v", src, err)
		}
	}
}

func TestNodes(t *testing.T) {
	d, err := plain.Parse([]byte("\ufeff{\n \"a\": [1.0, \"x\\u00e9\", {\"b/~\": null}],\n \"t\": true, \"f\": false}"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path []string
		kind edit.Kind
		raw  string
	}{
		{[]string{"a", "0"}, edit.Number, "1.0"},
		{[]string{"a", "1"}, edit.String, `"x\u00e9"`},
		{[]string{"a", "2", "b/~"}, edit.Null, "null"},
		{[]string{"t"}, edit.Bool, "true"},
		{[]string{"f"}, edit.Bool, "false"},
		{[]string{"a", "3"}, edit.Absent, ""},
		{[]string{"a", "x"}, edit.Absent, ""},
		{[]string{"nothing", "there"}, edit.Absent, ""},
		{[]string{"t", "below a scalar"}, edit.Absent, ""},
	}
	for _, test := range tests {
		n := d.At(test.path)
		if n.Kind() != test.kind || n.Raw() != test.raw || n.Exists() != (test.kind != edit.Absent) {
			t.Errorf("At(%q) is %q %s, want %q %s", test.path, n.Kind(), n.Raw(), test.kind, test.raw)
		}
	}
	if got := d.At([]string{"a", "1"}).Text(); got != "xé" {
		t.Errorf("Text = %q", got)
	}
	if line, column := d.Place(d.At([]string{"a"}).Value().Start); line != 2 || column != 7 {
		t.Errorf("Place = %d, %d, want 2, 7", line, column)
	}
	if !d.At([]string{"t"}).IsTrue() || !d.At([]string{"f"}).IsFalse() || d.At([]string{"f"}).IsTrue() {
		t.Error("truth values are misread")
	}
	if got := edit.Pointer([]string{"a", "b/~"}); got != "/a/b~1~0" {
		t.Errorf("Pointer = %s", got)
	}
}

func TestEqual(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":2}`, "{ \"b\" : 2,\n\"a\":1}", true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`"é"`, `"\u00e9"`, true},
		{`"😀"`, `"\ud83d\uDE00"`, true},
		{`"\ud83d"`, `"\ufffd"`, false},
		{`"\ud83d"`, `"\ud83e"`, false},
		{`"\ud83dx"`, `"\ud83d\u0078"`, true},
		{"\"\xff\"", "\"\xfe\"", false},
		{`1.0`, `1`, false},
		{`1e2`, `1e2`, true},
		{`[1,2]`, `[2,1]`, false},
		{`null`, `false`, false},
		{`"\/\b\f\n\r\t\"\\"`, `"/\u0008\u000c\u000a\u000d\u0009\u0022\u005c"`, true},
		{`{"__proto__":1}`, `{"__proto__":1}`, true},
	}
	for _, test := range tests {
		a, errA := plain.Parse([]byte(test.a))
		b, errB := plain.Parse([]byte(test.b))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got := edit.Equal(a.Root(), b.Root()); got != test.want {
			t.Errorf("Equal(%s, %s) = %v", test.a, test.b, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\n\t", "é \u2028 😀", "\x7f"} {
		d, err := plain.Parse([]byte(Quote(s)))
		if err != nil {
			t.Fatalf("Quote(%q): %v", s, err)
		}
		if got := d.Root().Text(); got != s {
			t.Errorf("Quote(%q) reads back as %q", s, got)
		}
	}
}
