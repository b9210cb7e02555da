package yamledit

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/edittest"
)

const sample = `# goose configuration
GOOSE_MODEL: claude-sonnet   # default
extensions:
  github:
    enabled: true
    cmd: npx
    args:
    - -y
    # why this one
    - '@scope/server'   # quoted, because of the @
    envs:
      LOG_LEVEL: "debug"
    timeout: 300
    bundled: null
  größe:
    cmd: /home/ada/größe
    args: [--einheit, "c, m", # more
      'it''s', {a: 1, "b": }, ]
    envs: {}
    timeout: ~
    nothing:
    blank: 
    description: ''
    text: |
      a block: of
        text

    folded: >-2
       x
    plain: over
      two lines
    quoted: "over
      two \" lines"
mcpServers:
  - name: SQLite          # a list, not a map
    env:
      KEY: ${{ secrets.KEY }}
  -   name: tab	bed
      date: 2026-11-20
  - - a
    - b
  -
  - last`

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
		{"GOOSE_MODEL", edit.String, "claude-sonnet", "claude-sonnet"},
		{"extensions/github/enabled", edit.Bool, "true", "true"},
		{"extensions/github/args", edit.Array, "- -y\n    # why this one\n    - '@scope/server'", ""},
		{"extensions/github/args/1", edit.String, "'@scope/server'", "@scope/server"},
		{"extensions/github/envs/LOG_LEVEL", edit.String, `"debug"`, "debug"},
		{"extensions/github/bundled", edit.Null, "null", "null"},
		{"extensions/größe/args/1", edit.String, `"c, m"`, "c, m"},
		{"extensions/größe/args/2", edit.String, `'it''s'`, "it's"},
		{"extensions/größe/args/3", edit.Object, `{a: 1, "b": }`, ""},
		{"extensions/größe/args/3/b", edit.Null, "", ""},
		{"extensions/größe/envs", edit.Object, "{}", ""},
		{"extensions/größe/timeout", edit.Null, "~", "~"},
		{"extensions/größe/nothing", edit.Null, "", ""},
		{"extensions/größe/description", edit.String, "''", ""},
		{"extensions/größe/text", edit.String, "|\n      a block: of\n        text", "a block: of\n  text\n"},
		{"extensions/größe/folded", edit.String, ">-2\n       x", " x"},
		{"extensions/größe/plain", edit.String, "over\n      two lines", "over two lines"},
		{"extensions/größe/quoted", edit.String, "\"over\n      two \\\" lines\"", `over two " lines`},
		{"mcpServers/0/env/KEY", edit.String, "${{ secrets.KEY }}", "${{ secrets.KEY }}"},
		{"mcpServers/1/date", edit.Other, "2026-11-20", "2026-11-20"},
		{"mcpServers/2/1", edit.String, "b", "b"},
		{"mcpServers/3", edit.Null, "", ""},
		{"mcpServers/4", edit.String, "last", "last"},
		{"mcpServers/5", edit.Absent, "", ""},
	}
	for _, test := range tests {
		n := d.At(strings.Split(test.path, "/"))
		if n.Kind() != test.kind || n.Raw() != test.raw || test.text != "" && n.Text() != test.text {
			t.Errorf("%s is %q, written %q, says %q", test.path, n.Kind(), n.Raw(), n.Text())
		}
	}
	if line, column := d.Place(d.At([]string{"extensions", "größe", "cmd"}).Value().Start); line != 16 || column != 10 {
		t.Errorf("the command is at line %d, column %d", line, column)
	}
	if got, want := d.At([]string{"extensions", "größe", "args"}).Written(), `["--einheit", "c, m", 'it''s', {"a": 1, "b":  }]`; got != want {
		t.Errorf("Written = %s, want %s", got, want)
	}
}

func TestFixed(t *testing.T) {
	tests := []struct{ name, src, path, want string }{
		{"an anchor", "a: &x npx\nb: *x\n", "a", "line 1, column 4: it has an anchor"},
		{"an alias", "a: &x npx\nb: *x\n", "b", "line 2, column 4: it is an alias"},
		{"a tag", "a: !!str npx\n", "a", "line 1, column 4: it has an anchor or a tag"},
		{"a local tag", "a: !own\n  b: 1\n", "a", "line 1, column 4: it has an anchor or a tag"},
		{"a block of text", "a: |\n  npx\n", "a", "line 1, column 4: it is a block of text"},
		{"a folded block", "a: >\n  npx\n", "a", "line 1, column 4: it is a block of text"},
		{"plain text over lines", "a: n\n  px\n", "a", "line 1, column 4: it is text without quotes"},
		{"merged", "a:\n  <<: {c: 1}\n  b: 1\n", "a", "line 2, column 3: it merges"},
		{"a list with an anchor", "a: &x\n- 1\n", "a", "line 1, column 4: it has an anchor"},
		{"a name that is more", "a:\n  ? b\n  : 1\n", "a", "line 2, column 3: it is written in an unusual way"},
		{"an alias as a list", "a: &x [1]\nb: *x\n", "b", "line 2, column 4: it is an alias"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, test.src)
			n := d.At([]string{test.path})
			if !strings.HasPrefix(n.Fixed(), test.want) {
				t.Errorf("%s: Fixed = %q, want %q", test.src, n.Fixed(), test.want)
			}
			if got, err := d.Edit(edit.Set([]string{test.path}, `"x"`)); err == nil {
				t.Errorf("edited to %q", got)
			}
		})
	}
	// The values in such a value can't be edited either.
	d := parse(t, "a: &x\n  b: 1\nc: *x\n")
	if got, err := d.Edit(edit.Set([]string{"a", "b"}, "2")); err == nil {
		t.Errorf("edited to %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"a name twice", "a: 1\nb:\n  c: 1\n  \"c\": 2\n", `line 4, column 3: the name "c" is there twice; first at line 3, column 3`},
		{"a name twice behind a byte order mark", "\ufeffa: 1\na: 2\n", `line 2, column 1: the name "a" is there twice; first at line 1, column 1`},
		{"a name twice between braces", "ü: {x: 1, x: 2}\n", `line 1, column 12: the name "x" is there twice; first at line 1, column 6`},
		{"a number and a text of the same name", "1: a\n\"1\": b\n", `line 2, column 1: the name "1"`},
		{"merged twice", "<<: {a: 1}\n<<: {b: 1}\n", `the name "<<" is there twice`},
		{"two documents", "a: 1\n---\nb: 2\n", "found multiple"},
		{"a tab for blanks", "a:\n\t- b\n", "line 2, column 1: "},
		{"cut short", "a: [1,\n", "line 2, column 1: "},
		{"a quote without end", "a: \"x\n", "line 1, column 4: the quote that begins here has no end"},
		{"bytes that are no UTF-8", "a: \xff\n", "line 1, column 4: this is no UTF-8"},
		{"another encoding", "\xff\xfea\x00", "line 1, column 1: this is no UTF-8"},
		{"a lone carriage return", "a: 1\rb: 2\n", "line 1, column 5: the character U+000D"},
		{"a line separator", "a: \"1\u2028\"\n", "line 1, column 6: the character U+2028"},
		{"too deep", strings.Repeat("[", 300) + strings.Repeat("]", 300), "nested deeper than 256 levels"},
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
	for _, src := range []string{"", "\ufeff", "# only a comment", "\r\n\r\n"} {
		if d := parse(t, src); d.Root().Kind() != edit.Object {
			t.Errorf("%q is a %q", src, d.Root().Kind())
		}
	}
	for _, src := range []string{"---\na: 1\n...\n", "%YAML 1.1\n---\na: 1\n", "{\"a\":1}", "? a\n: b\n", "- a: 1\n  b: 2\n- c\n", "a: !<tag:x> 1\n",
		"a: !own\n", "? [x, y]\n: 1\n", "a: &x\nb: *x\n", "&a b: 1\n", "[a: 1, b]", "{a, b: c}", "a: 'x'\n\n\n", "- - - x\n    - y\n  - z\n"} {
		parse(t, src)
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\n\t\r", "é \u2028 😀\ufeff", "\x7f\u0085\u009f", "'", "C:\\dir", "yes", "1", "a: b # c", "- x", "@a", "<<", "a:b"} {
		n, err := Syntax{}.Value(Syntax{}.Quote(s))
		if err != nil || n.Text() != s || n.Kind() != edit.String {
			t.Errorf("Quote(%q) reads back as %q, %v", s, n.Text(), err)
		}
		if d := parse(t, quoteKey(s)+": 1"); !d.Root().Member(s).Exists() {
			t.Errorf("quoteKey(%q) reads back as another", s)
		}
		if d := parse(t, (Syntax{}).Table([]edit.Member{{Name: s, Value: "1"}})); !d.Root().Member(s).Exists() {
			t.Errorf("a table's %q reads back as another", s)
		}
	}
	for _, text := range []string{"1\nb: 2", "1 # c", "1 ", "\"a\" \"b\"", "a: 1\na: 2"} {
		if n, err := (Syntax{}).Value(text); err == nil {
			t.Errorf("Value(%q) = %s", text, n.Raw())
		}
	}
}

func TestEdit(t *testing.T) {
	x := edit.Member{Name: "X", Value: `"1"`}
	y := edit.Member{Name: "y: z", Value: "[2]"}
	p := func(path string) []string { return strings.Split(path, "/") }
	tests := []struct {
		name, src string
		ops       []edit.Op
		want      string
	}{
		{"set a scalar", "a: x  # c\n", []edit.Op{edit.Set(p("a"), `"y"`)}, "a: \"y\"  # c\n"},
		{"set nothing", "a:  # c\nb:\n", []edit.Op{edit.Set(p("a"), "{}"), edit.Set(p("b"), "[]")}, "a: {}  # c\nb: []\n"},
		{"set to nothing", "a: {}  # c\nb: []\n", []edit.Op{edit.Set(p("a"), " "), edit.Set(p("b"), " ")}, "a:  # c\nb:\n"},
		{"set a list", "a:\n- x # c\nb: 1\n", []edit.Op{edit.Set(p("a"), "[]")}, "a: [] # c\nb: 1\n"},
		{"set a list below a comment", "a: # c:\n- x\nb: 1\n", []edit.Op{edit.Set(p("a"), "[]")}, "a: # c:\n  []\nb: 1\n"},
		{"set a mapping", "a:\n  k: v\n  l: w\nb: 1\n", []edit.Op{edit.Set(p("a"), `{"m": 1}`)}, "a: {\"m\": 1}\nb: 1\n"},

		{"prepend by lines", "a:\r\n- x # c\r\n- y", []edit.Op{edit.Prepend(p("a"), "1", "2")}, "a:\r\n- 1\r\n- 2\r\n- x # c\r\n- y"},
		{"prepend behind a dash", "- - a\n  - b\n", []edit.Op{edit.Prepend(p("0"), "1", "2")}, "- - 1\n  - 2\n  - a\n  - b\n"},
		{"prepend between brackets", "a: [x, 'y']\n", []edit.Op{edit.Prepend(p("a"), "1")}, "a: [1, x, 'y']\n"},
		{"prepend between brackets over lines", "a: [\n  x, # c, ]\n  y\n  ]\n", []edit.Op{edit.Prepend(p("a"), "1")}, "a: [\n  1,\n  x, # c, ]\n  y\n  ]\n"},
		{"add by lines", "s:\n\n  # c\n  a: 1\n", []edit.Op{edit.Add(p("s"), x, y)}, "s:\n\n  # c\n  X: \"1\"\n  \"y: z\": [2]\n  a: 1\n"},
		{"add behind a dash", "-   a: 1\n    b: 2\n", []edit.Op{edit.Add(p("0"), x, y)}, "-   X: \"1\"\n    \"y: z\": [2]\n    a: 1\n    b: 2\n"},
		{"add between braces", "a: {b: 1}\n", []edit.Op{edit.Add(p("a"), x, y)}, "a: {\"X\": \"1\", \"y: z\": [2], b: 1}\n"},
		{"add between empty braces", "a: { }\n", []edit.Op{edit.Add(p("a"), x)}, "a: {\"X\": \"1\" }\n"},
		{"add to JSON", `{"a":1}`, []edit.Op{edit.Add(nil, x)}, `{"X":"1","a":1}`},

		{"drop items", "a:\n- 1\n- 2 # c\n# d\n- 3\n", []edit.Op{edit.DropItems(p("a"), 2)}, "a:\n # c\n# d\n- 3\n"},
		{"drop all items", "a:\n  - 1\n  - 2\nb: 1\n", []edit.Op{edit.DropItems(p("a"), 2)}, "a: []\nb: 1\n"},
		{"drop items behind a dash", "- - 1\n  - 2\n  - 3\n", []edit.Op{edit.DropItems(p("0"), 2)}, "- - 3\n"},
		{"drop items behind a dash beside a comment", "- - 1 # c\n  - 3\n", []edit.Op{edit.DropItems(p("0"), 1)}, "-  # c\n  - 3\n"},
		{"drop members", "a: 1\nb:\n  c: |\n    x\n\nd: 3\ne: 4", []edit.Op{edit.DropMembers(nil, "b", "e")}, "a: 1\n\nd: 3"},
		{"drop all members", "a:\n  b: 1\nc: 1\n", []edit.Op{edit.DropMembers(p("a"), "b")}, "a: {}\nc: 1\n"},
		{"drop members behind a dash", "- a: 1\n  b: 2\n  c: 3\n", []edit.Op{edit.DropMembers(p("0"), "a", "c")}, "- b: 2\n"},

		{"several at once", "s:\n  cmd: npx\n  args:\n  - -y\n  envs:\n    K: v\n", []edit.Op{
			edit.Set(p("s/cmd"), `"shim"`), edit.Prepend(p("s/args"), `"--"`, "npx"), edit.Add(p("s/envs"), x), edit.Add(p("s"), y),
		}, "s:\n  \"y: z\": [2]\n  cmd: \"shim\"\n  args:\n  - \"--\"\n  - npx\n  - -y\n  envs:\n    X: \"1\"\n    K: v\n"},
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

// can reports whether an operation is supported: no value on the path is fixed.
func can(n edit.Node, op edit.Op) bool {
	for i := range len(op.Path) + 1 {
		if n.Document().At(op.Path[:i]).Fixed() != "" {
			return false
		}
	}
	return true
}

func TestDropUndoesInsert(t *testing.T) {
	for _, src := range []string{
		sample, "\ufeff" + sample + "\n", strings.ReplaceAll(sample, "\n", "\r\n"), "# c", "a: 1", "- - - a", "{}", "[\n]", "a:\nb: \n", "- a: x\n-   b: y\n\n",
	} {
		edittest.InsertAndDrop(t, parse(t, src), can)
	}
}

// FuzzEdit edits every value of any text that parses, and undoes the edit. An edit may be
// refused, since YAML has many notations.
func FuzzEdit(f *testing.F) {
	for _, src := range []string{sample, "a: &x [1]\nb: *x\n", "- a: 1\n  b: |\n   x\n", "{\"a\":[1,{\"b\":null}]}", "a:\n- - 1\r\n"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 600 {
			return
		}
		d, err := Syntax{}.Parse(src)
		if err != nil {
			return
		}
		edittest.InsertAndDrop(t, d, func(n edit.Node, op edit.Op) bool {
			_, err := d.Edit(op)
			return err == nil
		})
	})
}
