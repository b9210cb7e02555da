package wire

import (
	"strings"
	"testing"
)

func readResult(t *testing.T, text string) ([]byte, *Envelope) {
	t.Helper()
	line := []byte(text)
	var e Envelope
	if err := Read(line, FromServer, &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return line, &e
}

func TestCut(t *testing.T) {
	const before, after = `{"jsonrpc":"2.0","id":1,"result":{"x":[0],"tools" : [`, `],"nextCursor":"abc"}}`
	tests := []struct{ list, drop, want string }{
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "", `{"name":"a"}, {"name":"b"} ,{"name":"c"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "a", `{"name":"b"} ,{"name":"c"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "b", `{"name":"a"} ,{"name":"c"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "c", `{"name":"a"}, {"name":"b"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "ab", `{"name":"c"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "ac", `{"name":"b"}`},
		{`{"name":"a"}, {"name":"b"} ,{"name":"c"}`, "bc", `{"name":"a"}`},
		{` {"name":"a"}, {"name":"b"} `, "ab", `  `},
		{`{"name":"a"}`, "a", ``},
		{``, "a", ``},
		{`{"name":"a","x":"],[{\"name\":\"b\"}"},{"name":"b"}`, "b", `{"name":"a","x":"],[{\"name\":\"b\"}"}`},
	}
	for _, test := range tests {
		line, e := readResult(t, before+test.list+after)
		list, err := ReadList(line, e, "tools")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Splice(line, list.Items.Cut(func(i int) bool { return strings.Contains(test.drop, list.Elements[i].ID) })...)
		if err != nil {
			t.Fatal(err)
		}
		if want := before + test.want + after; string(got) != want {
			t.Errorf("[%s] without %s:\n got %s\nwant %s", test.list, test.drop, got, want)
		}
		if string(line) != before+test.list+after {
			t.Error("the line was changed")
		}
	}
}

func TestReadList(t *testing.T) {
	tests := []struct {
		member, result string
		want           []Element // without spans
		fails          bool
	}{
		{"tools", `{"tools":[{"name":"a","title":"A"},{"name":"\u0062"}]}`, []Element{{Name: "a", ID: "a"}, {Name: "b", ID: "b"}}, false},
		{"prompts", `{"prompts":[{"name":"p","uri":"u"}]}`, []Element{{Name: "p", URI: "u", ID: "p"}}, false},
		{"resources", `{"resources":[{"name":"r","uri":"file:\/\/x"}]}`, []Element{{Name: "r", URI: "file://x", ID: "file://x"}}, false},
		{"resourceTemplates", `{"resourceTemplates":[{"name":"r","uriTemplate":"x://{a}"}]}`, []Element{{Name: "r", Template: "x://{a}", ID: "x://{a}"}}, false},
		{"skills", `{"skills":[{"uri":"skill://s/SKILL.md","frontmatter":{"name":"s","Name":"t"},"resources":[{"uri":"x"}]}]}`, []Element{{URI: "skill://s/SKILL.md", ID: "skill://s/SKILL.md"}}, false},
		{"tools", `{"tools":[]}`, nil, false},
		{"tools", `{}`, nil, false},
		{"tools", `{"tools":null}`, nil, false},

		{"tools", `{"tools":[{"name":"a"},{"name":"b"},{"name":"\u0061","description":"other"}]}`,
			[]Element{{Name: "a", ID: "a", Twice: true}, {Name: "b", ID: "b"}, {Name: "a", ID: "a", Twice: true}}, false},
		{"tools", `{"tools":["x",{},{"name":7},{"name":""},{"name":null},{"title":"a"}]}`,
			[]Element{{Bad: true}, {Bad: true}, {Bad: true}, {Bad: true}, {Bad: true}, {Bad: true}}, false},
		{"tools", `{"tools":[{"name":"a","Name":"b"},{"name":"c","name\u0000":"d"},{"na\u017fme":1,"name":"e"}]}`,
			[]Element{{Name: "a", ID: "a", Bad: true}, {Name: "c", ID: "c", Bad: true}, {Name: "e", ID: "e"}}, false},
		{"tools", `{"tools":[{"name":"cut \ud83d"}]}`, []Element{{Bad: true}}, false},
		{"resources", `{"resources":[{"uri":"u","name":7}]}`, []Element{{URI: "u", ID: "u"}}, false},

		{"tools", `{"tools":[{"name":"a"}],"Tools":[{"name":"b"}]}`, nil, true},
		{"tools", `{"TOOLS":[{"name":"b"}]}`, nil, true},
		{"tools", `{"tools":{"a":{}}}`, nil, true},
		{"tools", `{"tools":"a"}`, nil, true},
		{"tools", `[]`, nil, true},
		{"widgets", `{"widgets":[]}`, nil, true},
	}
	for _, test := range tests {
		line, e := readResult(t, `{"jsonrpc":"2.0","id":1,"result":`+test.result+`}`)
		list, err := ReadList(line, e, test.member)
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", test.result, err)
			continue
		}
		if len(list.Elements) != len(test.want) || len(list.Items) != len(test.want) {
			t.Errorf("%s: %+v", test.result, list.Elements)
			continue
		}
		for i, got := range list.Elements {
			if got.Span != list.Items[i] || !got.Span.Present() {
				t.Errorf("%s: element %d is at %v", test.result, i, got.Span)
			}
			got.Span = Span{}
			if got != test.want[i] {
				t.Errorf("%s: element %d is %+v, want %+v", test.result, i, got, test.want[i])
			}
		}
	}
}

func TestSplice(t *testing.T) {
	line := []byte("0123456789")
	at := func(start, end int, with string) Edit { return Edit{Span{start, end}, []byte(with)} }
	tests := []struct {
		edits []Edit
		want  string // empty: fails
	}{
		{nil, "0123456789"},
		{[]Edit{at(2, 4, "xyz")}, "01xyz456789"},
		{[]Edit{at(8, 10, ""), at(0, 1, "A")}, "A1234567"},
		{[]Edit{at(5, 5, "a"), at(5, 5, "b"), at(5, 6, "c")}, "01234abc6789"},
		{[]Edit{at(0, 10, "")}, ""},
		{[]Edit{at(10, 10, "!")}, "0123456789!"},
		{[]Edit{at(2, 5, "x"), at(4, 6, "y")}, ""},
		{[]Edit{at(5, 11, "x")}, ""},
		{[]Edit{at(5, 4, "x")}, ""},
		{[]Edit{at(-1, 4, "x")}, ""},
	}
	for _, test := range tests {
		got, err := Splice(line, test.edits...)
		if string(got) != test.want || err != nil && test.want != "" {
			t.Errorf("%v: %q, %v; want %q", test.edits, got, err, test.want)
		}
	}
	if string(line) != "0123456789" {
		t.Error("the line was changed")
	}
}

func TestSet(t *testing.T) {
	tests := []struct{ object, want string }{
		{`{}`, `{"ttlMs":5}`},
		{`{ }`, `{"ttlMs":5 }`},
		{`{"a":1}`, `{"ttlMs":5,"a":1}`},
		{`{"a":1, "ttlMs" : 900000 }`, `{"a":1, "ttlMs" : 5 }`},
		{`{"ttl\u004ds":{"x":[1]},"b":2}`, `{"ttl\u004ds":5,"b":2}`},
		{`{"a":1,"TTLMS":3}`, ``},
		{`[]`, ``},
	}
	for _, test := range tests {
		line, e := readResult(t, `{"jsonrpc":"2.0","id":1,"result":`+test.object+`}`)
		edit, err := Set(line, e.Result, "ttlMs", []byte("5"))
		if err != nil {
			if test.want != "" {
				t.Errorf("%s: %v", test.object, err)
			}
			continue
		}
		got, err := Splice(line, edit)
		if want := `{"jsonrpc":"2.0","id":1,"result":` + test.want + `}`; err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
