package tomledit

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/edittest"
)

const sample = `# a comment at the top
model = "gpt"   # which
list = [
  'a\b',  # literal
  """x
y""", # over lines
  0x1F, 1_000.5, 1979-05-27T07:32:00Z, # ]
]
dotted . "key" = { x = 1, y.z = 2, }
dotted.other = true

  [mcp_servers.files]   # header
  command = 'npx'
  args=[ "-y" ]
  [mcp_servers.files.env]
  "A.B" = 'C:\no\escape'

[mcp_servers]
clock.command = "clock"
clock.env = {}

[[products]]
name = "Hammer"
[products.parts]
n = 1
[[products]]

[ last . one ]`

func parse(t *testing.T, src string) *edit.Document {
	t.Helper()
	d, err := Syntax{}.Parse([]byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d
}

func TestNodes(t *testing.T) {
	d := parse(t, "\ufeff"+sample)
	tests := []struct {
		path string
		kind edit.Kind
		raw  string
		text string
	}{
		{"model", edit.String, `"gpt"`, "gpt"},
		{"list/0", edit.String, `'a\b'`, `a\b`},
		{"list/1", edit.String, "\"\"\"x\ny\"\"\"", "x\ny"},
		{"list/2", edit.Number, "0x1F", "0x1F"},
		{"list/3", edit.Number, "1_000.5", "1_000.5"},
		{"list/4", edit.Other, "1979-05-27T07:32:00Z", "1979-05-27T07:32:00Z"},
		{"dotted/key", edit.Object, "{ x = 1, y.z = 2, }", "{ x = 1, y.z = 2, }"},
		{"dotted/key/y/z", edit.Number, "2", "2"},
		{"dotted/other", edit.Bool, "true", "true"},
		{"mcp_servers/files/command", edit.String, "'npx'", "npx"},
		{"mcp_servers/files/args", edit.Array, `[ "-y" ]`, `[ "-y" ]`},
		{"mcp_servers/files/env/A.B", edit.String, `'C:\no\escape'`, `C:\no\escape`},
		{"mcp_servers/clock/command", edit.String, `"clock"`, "clock"},
		{"products/0/name", edit.String, `"Hammer"`, "Hammer"},
		{"products/0/parts/n", edit.Number, "1", "1"},
		{"products/1", edit.Object, "", ""},
		{"last/one", edit.Object, "", ""},
		{"last/two", edit.Absent, "", ""},
	}
	for _, test := range tests {
		n := d.At(strings.Split(test.path, "/"))
		if n.Kind() != test.kind || n.Raw() != test.raw || n.Text() != test.text {
			t.Errorf("%s is %q, written %q, says %q", test.path, n.Kind(), n.Raw(), n.Text())
		}
	}
	if line, column := d.Place(d.At([]string{"mcp_servers", "files", "command"}).Value().Start); line != 13 || column != 13 {
		t.Errorf("the command is at line %d, column %d", line, column)
	}
	if got, want := d.At([]string{"mcp_servers", "clock"}).Written(), `{ command = "clock", env = {} }`; got != want {
		t.Errorf("Written = %s, want %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"a key twice", "a = 1\nb = 2\n a = 3", `line 3, column 2: the name "a" is there twice; first at line 1, column 1`},
		{"a key twice behind a byte order mark", "\ufeffa = 1\na = 3", `line 2, column 1: the name "a" is there twice; first at line 1, column 1`},
		{"a key twice, spelt in two ways", "a.b = 1\n'a' . \"\\u0062\" = 3", `line 2, column 7: the name "b"`},
		{"a key twice between braces", "a = { x = 1,\n x = 2 }", `line 2, column 2: the name "x" is there twice; first at line 1, column 7`},
		{"a header twice", "[s.a]\nx = 1\n[s.b]\n[s.a]", `line 4, column 1: the name "a" is there twice; first at line 1, column 1`},
		{"a header for a dotted table", "s.a.x = 1\n[s.a]", `line 2, column 1: the name "a" is there twice`},
		{"a header for a value", "s = 1\n[s]", `line 2, column 2: the name "s" is there twice`},
		{"a header below a value", "s = 1\n[s.a]", `line 2, column 2: the name "s" is there twice`},
		{"a header for an inline table", "s = {}\n[s.a]", `line 2, column 2: the name "s"`},
		{"a dotted key below an inline table", "s = {}\ns.a = 1", `line 2, column 1: the name "s"`},
		{"an array of tables for a table", "[s]\n[[s]]", `line 2, column 3: the name "s"`},
		{"a dotted key into a table with a header", "[a.b]\nx = 1\n[a]\nb.y = 2", "line 4"},
		{"no value", "a =\nb = 1", "line 1, column 4: "},
		{"cut short", "a = [1,\n", "line 1, column 8: array is incomplete"},
		{"a string without end", "a = 1\nb = \"x\n", "line 2, column 7: "},
		{"no key", "a = 1\n= 2", "line 2, column 1: "},
		{"a lone carriage return", "a = 1\rb = 2", "line 1, column 6: "},
		{"bytes that are no UTF-8", "a = 1\nb = \"\xff\"", "line 2, column 6: "},
		{"a date that there is not", "a = 1\nb = 2021-13-40", "line 2, column "},
		{"JSON", `{"mcpServers": {}}`, "line 1, column 1: "},
		{"too deep", "a = " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "nested deeper than 256 levels"},
		{"too deep, dotted", "a" + strings.Repeat(".a", 300) + " = 1", "nested deeper than 256 levels"},
		{"too deep, in a header", "[a" + strings.Repeat(".a", 300) + "]", "nested deeper than 256 levels"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Syntax{}.Parse([]byte(test.src))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse(%q) = %v, want %q in it", test.src, err, test.want)
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	for _, src := range []string{"", "\ufeff", "# only a comment", "\r\n\r\n", "a = { # over lines\n x = 1, # c\n}\n", `a = "\e[0m\x41"`,
		"[a.b]\n[a]\nc = 1", "[[a]]\n[a.b]\n[[a]]\n[a.b]", "a = " + strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		parse(t, src)
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\n\t\r", "é \u2028 😀", "\x7f", "'", "C:\\dir"} {
		n, err := Syntax{}.Value(Syntax{}.Quote(s))
		if err != nil || n.Text() != s {
			t.Errorf("Quote(%q) reads back as %q, %v", s, n.Text(), err)
		}
		d := parse(t, quoteKey(s)+" = 1")
		if !d.Root().Member(s).Exists() {
			t.Errorf("quoteKey(%q) reads back as another", s)
		}
	}
	for _, text := range []string{"1\nb = 2", "1 # c", "", "1 ", "x"} {
		if n, err := (Syntax{}).Value(text); err == nil {
			t.Errorf("Value(%q) = %s", text, n.Raw())
		}
	}
}

func TestEdit(t *testing.T) {
	x := edit.Member{Name: "X", Value: `"1"`}
	y := edit.Member{Name: "y.z", Value: "[2]"}
	p := func(path string) []string { return strings.Split(path, "/") }
	tests := []struct {
		name, src string
		ops       []edit.Op
		want      string
	}{
		{"set a scalar", "a = 'x'  # c\n", []edit.Op{edit.Set(p("a"), `"y"`)}, "a = \"y\"  # c\n"},
		{"prepend, a line each", "a = [\r\n\t1, # one\r\n\t2,\r\n]", []edit.Op{edit.Prepend(p("a"), "0")}, "a = [\r\n\t0,\r\n\t1, # one\r\n\t2,\r\n]"},
		{"prepend behind a comment", "a = [ # c, ]\n 1 ]", []edit.Op{edit.Prepend(p("a"), "0")}, "a = [ # c, ]\n 0,\n 1 ]"},
		{"prepend to nothing", "a = []", []edit.Op{edit.Prepend(p("a"), "0", "1")}, "a = [0, 1]"},
		{"drop items beside comments", "a = [1, # c, ]\n 2]", []edit.Op{edit.DropItems(p("a"), 1)}, "a = [ # c, ]\n 2]"},

		{"add below a header", "[s]  # c\n  a=1\n", []edit.Op{edit.Add(p("s"), x, y)}, "[s]  # c\n  X=\"1\"\n  \"y.z\"=[2]\n  a=1\n"},
		{"add below a header with nothing", "[s]\n\n# c\n", []edit.Op{edit.Add(p("s"), x)}, "[s]\nX = \"1\"\n\n# c\n"},
		{"add below a header at the end", "[s]", []edit.Op{edit.Add(p("s"), x, y)}, "[s]\nX = \"1\"\n\"y.z\" = [2]"},
		{"add below a header at the end, CRLF", "\ufeff# c\r\n[s]", []edit.Op{edit.Add(p("s"), x)}, "\ufeff# c\r\n[s]\r\nX = \"1\""},
		{"add below a header that stands later", "[s.env]\nk = 1\n[s]\na = 1\n", []edit.Op{edit.Add(p("s"), x)}, "[s.env]\nk = 1\n[s]\nX = \"1\"\na = 1\n"},
		{"add by dotted key", "b = 1\n\ts . 'a'.c = 2 # c\n", []edit.Op{edit.Add(p("s/a"), x)}, "b = 1\n\ts . 'a'.X = \"1\"\n\ts . 'a'.c = 2 # c\n"},
		{"add between braces", "a = { b = 1 }", []edit.Op{edit.Add(p("a"), x, y)}, "a = { X = \"1\", \"y.z\" = [2], b = 1 }"},
		{"add between empty braces", "a = {}", []edit.Op{edit.Add(p("a"), x, y)}, "a = {X = \"1\", \"y.z\" = [2]}"},
		{"add between braces with dotted keys", "a = {b.c=1}", []edit.Op{edit.Add(p("a"), x)}, "a = {X = \"1\", b.c=1}"},
		{"add by dotted key between braces", "a = { x = 1, b.c = 1, y = 2 }", []edit.Op{edit.Add(p("a/b"), x)}, "a = { x = 1, b.X = \"1\", b.c = 1, y = 2 }"},
		{"add to an array's table", "[[s]]\na = 1\n[[s]]\n", []edit.Op{edit.Add(p("s/1"), x)}, "[[s]]\na = 1\n[[s]]\nX = \"1\"\n"},
		{"add to the file", "# c\n\n[s]\n", []edit.Op{edit.Add(nil, x)}, "# c\n\nX = \"1\"\n[s]\n"},
		{"add to nothing", "", []edit.Op{edit.Add(nil, x)}, "X = \"1\"\n"},

		{"drop lines", "a = 1\nb = [\n 2 ]\nc = 3\n", []edit.Op{edit.DropMembers(nil, "b")}, "a = 1\nc = 3\n"},
		{"drop the last line without end", "a = 1\r\nb = 2\r\nc = 3", []edit.Op{edit.DropMembers(nil, "b", "c")}, "a = 1"},
		{"drop beside a comment", "a = 1\nb = 2 # why\n", []edit.Op{edit.DropMembers(nil, "b")}, "a = 1\n # why\n"},
		{"drop a table with all its headers", "[s]\na = 1\n[s.env]\n# c\nk = 1\n[t]\n[s.env.x]\n", []edit.Op{edit.DropMembers(p("s"), "env")}, "[s]\na = 1\n# c\n[t]\n"},
		{"drop a dotted table", "s.f = 1\ns.e.a = 1\nb = 1\ns.e.c = 1\n", []edit.Op{edit.DropMembers(p("s"), "e")}, "s.f = 1\nb = 1\n"},
		{"drop dotted keys between braces", "a = {b.c=1, d=2, b.e=3}", []edit.Op{edit.DropMembers(p("a"), "b")}, "a = {d=2}"},
		{"drop a dotted key between braces", "a = {b.c=1, b.e=3, d=2}", []edit.Op{edit.DropMembers(p("a/b"), "c")}, "a = {b.e=3, d=2}"},
		{"drop between braces", "a = { b = 1, c = 2 }", []edit.Op{edit.DropMembers(p("a"), "b", "c")}, "a = {}"},

		{"set a table of lines", "[s]\na = 1 # c\n[s.env]\nk = 1\n", []edit.Op{edit.Set(p("s"), `{ b = 2, env = {} }`)}, "[s]\nb = 2\nenv = {}\n # c\n"},
		{"set a dotted table", "s.a = 1\ns.b = 2\n", []edit.Op{edit.Set(p("s"), `{ c = 3 }`)}, "s.c = 3\n"},

		{"several at once", "[s]\ncommand = 'npx'\nargs = ['-y']\n[s.env]\nK = 'v'\n", []edit.Op{
			edit.Set(p("s/command"), `"shim"`), edit.Prepend(p("s/args"), `"--"`, "'npx'"), edit.Add(p("s/env"), x), edit.Add(p("s"), y),
		}, "[s]\n\"y.z\" = [2]\ncommand = \"shim\"\nargs = [\"--\", 'npx', '-y']\n[s.env]\nX = \"1\"\nK = 'v'\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(t, test.src).Edit(test.ops...)
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
		op        edit.Op
		want      string
	}{
		{"a table that only headers below it imply", "[s.env]\n", edit.Add([]string{"s"}, edit.Member{Name: "x", Value: "1"}), "no line of its own"},
		{"an array of tables", "[[s]]\n", edit.Prepend([]string{"s"}, "{}"), "no line of its own"},
		{"setting dotted keys between braces", "a = { b.c = 1 }\n", edit.Set([]string{"a", "b"}, "{}"), "dotted keys"},
		{"a value that is more", "a = 1\n", edit.Set([]string{"a"}, "2\nb = 3"), "more than"},
		{"a value that ends its list", "a = [1]\n", edit.Prepend([]string{"a"}, "2]\nb = [3"), "more than it should"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(t, test.src).Edit(test.op)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Edit = %q, %v; want %q in the error", got, err, test.want)
			}
		})
	}
}

// can reports whether an operation is supported: see TestEditRefuses.
func can(n edit.Node, op edit.Op) bool {
	v := n.Value()
	for i := range op.Path {
		if above := n.Document().At(op.Path[:i]); op.Do == edit.Paste && above.Kind() == edit.Array && above.Raw() == "" {
			return false // an item of an array of tables has no path of its own
		}
	}
	if n.Kind() != edit.Object {
		return v.Start < v.End
	}
	t := v.Layout.(*table)
	return t.outer != nil || t.header != nil || t.first != nil || len(op.Path) == 0
}

func TestDropUndoesInsert(t *testing.T) {
	for _, src := range []string{
		sample, "\ufeff" + sample + "\n", strings.ReplaceAll(sample, "\n", "\r\n"), "", "# c", "a=1", "[a]\n[b]", "\n\n[a]", "[a.b]\n  # c",
	} {
		edittest.InsertAndDrop(t, parse(t, src), can)
	}
}

// FuzzEdit edits every value of any text that parses, and undoes the edit.
func FuzzEdit(f *testing.F) {
	for _, src := range []string{sample, "[a]", "a.b.c = [[], {x = 1}]\r\n", "[[a]]\n[a.b]\nc = '''\n'''", "a = { x = 1, # c\n}"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1000 {
			return
		}
		d, err := Syntax{}.Parse(src)
		if err != nil {
			return
		}
		edittest.InsertAndDrop(t, d, can)
	})
}

// The extent of a table is all of its lines and no others.
func TestExtent(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"a = 1\n[s.x]\n# c\nu = 1 # d\n[s.x.h]\nk = 'v'  # e\n\n[s.y]\nu = 2\n", "[s.x]\n# c\nu = 1 # d\n[s.x.h]\nk = 'v'"},
		{"[s]\nx.u = 1\nx.h = {}\ny.u = 2\n", "x.u = 1\nx.h = {}"},
		{"[s]\nx = { u = 1 }\n", "{ u = 1 }"},
		{"s.x.u = 1\ns.y.u = 2\ns.x.v = 3\n", ""},
		{"[s.x]\nu = 1\n[s.y]\nu = 2\n[s.x.h]\nk = 1\n", ""},
		{"s = { x.u = 1 }\n", ""},
	} {
		got, err := parse(t, test.src).At([]string{"s", "x"}).Extent()
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: %q, %v", test.src, got, err)
		}
	}
}

// A table keeps its kind of layout.
func TestPutRefuses(t *testing.T) {
	d := parse(t, "[s.x]\nu = 1\n")
	for _, text := range []string{"{ u = 2 }", "[s.y]\nu = 2", "[s.x]\nu = 2\n[z]\nv = 3", "[s.x"} {
		if got, err := d.Edit(edit.Put([]string{"s", "x"}, text)); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
