package jsonc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/edittest"
)

func TestEdit(t *testing.T) {
	x := edit.Member{Name: "X", Value: `"1"`}
	y := edit.Member{Name: "Y", Value: "[2]"}
	tests := []struct {
		name, src string
		ops       []edit.Op
		want      string
	}{
		{"set a scalar", `{"a": "x", "b": 1}`, []edit.Op{edit.Set([]string{"a"}, `"y"`)}, `{"a": "y", "b": 1}`},
		{"set null to an object", `{"e":null}`, []edit.Op{edit.Set([]string{"e"}, `{"k": 1}`)}, `{"e":{"k": 1}}`},
		{"set an item", `{"a":[1, 2 ,3]}`, []edit.Op{edit.Set([]string{"a", "1"}, `7`)}, `{"a":[1, 7 ,3]}`},
		{"byte order mark stays", "\ufeff{\"a\": 1}\r\n", []edit.Op{edit.Set([]string{"a"}, "2")}, "\ufeff{\"a\": 2}\r\n"},

		{"prepend on one line", `["a", "b"]`, []edit.Op{edit.Prepend(nil, `"x"`, `"y"`)}, `["x", "y", "a", "b"]`},
		{"prepend compact", `["a","b"]`, []edit.Op{edit.Prepend(nil, `1`)}, `[1,"a","b"]`},
		{"prepend to one", `["a"]`, []edit.Op{edit.Prepend(nil, `1`)}, `[1, "a"]`},
		{"prepend, a line each", "[\r\n\t1,\r\n\t2\r\n]", []edit.Op{edit.Prepend(nil, `0`)}, "[\r\n\t0,\r\n\t1,\r\n\t2\r\n]"},
		{"prepend behind a comment", "[ // c\n  1 ]", []edit.Op{edit.Prepend(nil, `0`)}, "[ // c\n  0,\n  1 ]"},
		{"prepend to nothing", `[ ]`, []edit.Op{edit.Prepend(nil, `0`, `1`)}, `[0, 1 ]`},
		{"prepend to a comment", "[ // c\n]", []edit.Op{edit.Prepend(nil, `0`)}, "[0 // c\n]"},
		{"prepend nothing", `[]`, []edit.Op{edit.Prepend(nil)}, `[]`},

		{"add", "{\n  \"a\": 1\n}", []edit.Op{edit.Add(nil, x, y)}, "{\n  \"X\": \"1\",\n  \"Y\": [2],\n  \"a\": 1\n}"},
		{"add compact", `{"a":1,"b":2}`, []edit.Op{edit.Add(nil, x)}, `{"X":"1","a":1,"b":2}`},
		{"add to one", `{"a":1}`, []edit.Op{edit.Add(nil, x)}, `{"X":"1","a":1}`},
		{"add to nothing", `{}`, []edit.Op{edit.Add(nil, x, y)}, `{"X": "1", "Y": [2]}`},
		{"add before a trailing comma", "{\n  \"a\": 1,\n}", []edit.Op{edit.Add(nil, x)}, "{\n  \"X\": \"1\",\n  \"a\": 1,\n}"},

		{"drop items", `[1, 2, 3]`, []edit.Op{edit.DropItems(nil, 2)}, `[3]`},
		{"drop all items", "[\n 1,\n 2\n]", []edit.Op{edit.DropItems(nil, 2)}, `[]`},
		{"drop all items and a trailing comma", "[ 1, ]", []edit.Op{edit.DropItems(nil, 1)}, `[]`},
		{"drop all items beside a comment", "[1, /* c */]", []edit.Op{edit.DropItems(nil, 1)}, `[ /* c */]`},
		{"drop a comment's item", "[1, // one\n 2]", []edit.Op{edit.DropItems(nil, 1)}, "[ // one\n 2]"},
		{"drop no item", `[1]`, []edit.Op{edit.DropItems(nil, 0)}, `[1]`},

		{"drop the first member", `{"a":1, "b":2}`, []edit.Op{edit.DropMembers(nil, "a")}, `{"b":2}`},
		{"drop one in the middle", `{"a":1, "b":2, "c":3}`, []edit.Op{edit.DropMembers(nil, "b")}, `{"a":1, "c":3}`},
		{"drop the last", `{"a":1, "b":2}`, []edit.Op{edit.DropMembers(nil, "b")}, `{"a":1}`},
		{"drop the last two", `{"a":1, "b":2, "c":3}`, []edit.Op{edit.DropMembers(nil, "c", "b")}, `{"a":1}`},
		{"drop around one", `{"a":1, "b":2, "c":3}`, []edit.Op{edit.DropMembers(nil, "c", "a")}, `{"b":2}`},
		{"drop the last before a trailing comma", "{\"a\":1,\n\"b\":2,\n}", []edit.Op{edit.DropMembers(nil, "b")}, "{\"a\":1,\n}"},
		{"drop all members", "{\n \"a\": 1,\n \"b\": 2\n}", []edit.Op{edit.DropMembers(nil, "a", "b")}, "{}"},
		{"drop beside comments", "{\"a\":1 /*,*/, // a,\n\"b\":2}", []edit.Op{edit.DropMembers(nil, "a")}, "{ /*,*/ // a,\n\"b\":2}"},
		{"drop by what the name says", `{"\u0061":1}`, []edit.Op{edit.DropMembers(nil, "a")}, `{}`},

		{"several at once", `{"command": "npx", "args": ["-y"], "env": {}}`, []edit.Op{
			edit.Set([]string{"command"}, `"shim"`), edit.Prepend([]string{"args"}, `"--"`, `"npx"`), edit.Add([]string{"env"}, x),
		}, `{"command": "shim", "args": ["--", "npx", "-y"], "env": {"X": "1"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := lenient.Parse([]byte(test.src))
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Edit(test.ops...)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("\n got %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	tests := []struct {
		name, src string
		ops       []edit.Op
		want      string
	}{
		{"not there", `{}`, []edit.Op{edit.Set([]string{"a"}, "1")}, "edit /a: there is no such value"},
		{"wrong kind", `{"a":{}}`, []edit.Op{edit.Prepend([]string{"a"}, "1")}, "it is an object, not an array"},
		{"wrong kind", `{"a":[]}`, []edit.Op{edit.Add([]string{"a"}, edit.Member{Name: "x", Value: "1"})}, "it is an array, not an object"},
		{"a scalar", `{"a":1}`, []edit.Op{edit.DropMembers([]string{"a"}, "x")}, "neither an object nor an array"},
		{"name taken", `{"\u0061":1}`, []edit.Op{edit.Add(nil, edit.Member{Name: "a", Value: "1"})}, `has a member "a" already`},
		{"no such member", `{"a":1}`, []edit.Op{edit.DropMembers(nil, "b")}, `has no member "b"`},
		{"too few items", `[1]`, []edit.Op{edit.DropItems(nil, 2)}, "it has 1 items, not 2"},
		{"no value", `{"a":1}`, []edit.Op{edit.Set([]string{"a"}, `1,"b":2`)}, "would change more than it should"},
		{"a value that swallows what follows", `{"a":1,"b":2}`, []edit.Op{edit.Set([]string{"a"}, "3 //")}, "would not parse"},
		{"a value with a comment that goes on", "{\"a\":1,\n\"b\":2}", []edit.Op{edit.Set([]string{"a"}, "3 //")}, "would not parse"},
		{"a value that ends what it is in", `{"a":{"x":1},"b":2}`, []edit.Op{edit.Set([]string{"a", "x"}, `1},"c":{"x":1`)}, "would change more than it should"},
		{"twice the same", `{"a":1}`, []edit.Op{edit.Set([]string{"a"}, "2"), edit.Set([]string{"a"}, "3")}, "two changes concern the same text"},
		{"one in another", `{"a":{"b":1}}`, []edit.Op{edit.Set([]string{"a"}, "2"), edit.Set([]string{"a", "b"}, "3")}, "two changes"},
		{"twice into nothing", `{}`, []edit.Op{edit.Add(nil, edit.Member{Name: "a", Value: "1"}), edit.Add(nil, edit.Member{Name: "b", Value: "1"})}, "would not parse"},
		{"names added twice", `{}`, []edit.Op{edit.Add(nil, edit.Member{Name: "a", Value: "1"}, edit.Member{Name: "a", Value: "2"})}, "would not parse"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := lenient.Parse([]byte(test.src))
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Edit(test.ops...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Edit = %q, %v; want %q in the error", got, err, test.want)
			}
		})
	}
}

// TestDropUndoesInsert checks this with any text around the edited values.
func TestDropUndoesInsert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawFile(t)
		d, err := lenient.Parse([]byte(src))
		if err != nil {
			t.Fatalf("drew %q: %v", src, err)
		}
		edittest.InsertAndDrop(t, d, nil)
	})
}

func itoa(i int) string { return string(rune('0' + i)) } // drawn arrays are short

func drawFile(t *rapid.T) string {
	gap := rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t", "  ", "/* , */", " // ]\n", "\n\n    "})
	var value func(depth int) string
	value = func(depth int) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth > 3 && kind > 3 {
			kind = 0
		}
		switch kind {
		case 4, 5:
			open, closing := "[", "]"
			if kind == 5 {
				open, closing = "{", "}"
			}
			var b strings.Builder
			b.WriteString(open + gap.Draw(t, "gap"))
			n := rapid.IntRange(0, 4).Draw(t, "items")
			for i := range n {
				if i > 0 {
					b.WriteString("," + gap.Draw(t, "gap"))
				}
				if kind == 5 {
					b.WriteString(`"k` + itoa(i) + `"` + gap.Draw(t, "gap") + ":" + gap.Draw(t, "gap"))
				}
				b.WriteString(value(depth+1) + gap.Draw(t, "gap"))
			}
			if n > 0 && rapid.Bool().Draw(t, "trailing") {
				b.WriteString("," + gap.Draw(t, "gap"))
			}
			return b.String() + closing
		}
		return rapid.SampledFrom([]string{"null", "true", "-1.50e+3", `"x\ud83d"`, `"é//\"/*"`, `""`}).Draw(t, "scalar")
	}
	bom := rapid.SampledFrom([]string{"", edit.ByteOrderMark}).Draw(t, "bom")
	return bom + gap.Draw(t, "gap") + value(0) + gap.Draw(t, "gap")
}

// FuzzEdit edits every value of any text that parses, and undoes the edit.
func FuzzEdit(f *testing.F) {
	for _, src := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["-y"],"env":{"K":"v"}}}}`,
		"\ufeff{\r\n  // c\r\n  \"a\": [1, 2,],\r\n}\r\n",
		`[[],{},"\ud800",1E5]`, "{\"\xff\":\"\xfe\"}",
	} {
		f.Add([]byte(src))
	}
	seeds, _ := filepath.Glob("testdata/seeds/*")
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 2000 {
			return
		}
		d, err := lenient.Parse(src)
		if err != nil {
			return
		}
		edittest.InsertAndDrop(t, d, nil)
	})
}
