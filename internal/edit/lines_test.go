package edit

import (
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	tests := []struct {
		name, src string
		drop      []string // pieces that are removed with their lines
		tidy      bool
		want      string
	}{
		{"a line", "a\nb\nc\n", []string{"b"}, true, "a\nc\n"},
		{"lines that touch", "a\nb\nc\nd\n", []string{"c", "b"}, true, "a\nd\n"},
		{"one over lines", "a\n  b(\n1)\nc\n", []string{"b(\n1)"}, true, "a\nc\n"},
		{"beside a comment", "a\n b # c\nd\n", []string{"b"}, true, "a\n  # c\nd\n"},
		{"the last without end", "a\r\nb\r\nc", []string{"b", "c"}, true, "a"},
		{"the last without end, not tidied", "a\r\nb", []string{"b"}, false, "a\r\n"},
		{"the last with an end", "a\nb\n", []string{"b"}, true, "a\n"},
		{"all", "a\nb", []string{"a", "b"}, true, ""},
		{"behind a byte order mark", "\ufeffa\nb\n", []string{"a"}, true, "\ufeffb\n"},
		{"all behind a byte order mark", "\ufeffa", []string{"a"}, true, "\ufeff"},
		{"nothing", "a\n", nil, true, "a\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := NewDocument(nil, []byte(test.src))
			var splices []Splice
			for _, piece := range test.drop {
				at := strings.Index(test.src, piece)
				splices = append(splices, d.Lines().Without(at, at+len(piece)))
			}
			got, err := d.join(d.Lines().Join(splices, test.tidy))
			if err != nil || string(got) != test.want {
				t.Errorf("\n got %q, %v\nwant %q", got, err, test.want)
			}
		})
	}
}

func TestIndent(t *testing.T) {
	l := NewDocument(nil, []byte("\ufeff\t a\n- b\n")).Lines()
	if indent, alone := l.Indent(5); indent != "\t " || !alone {
		t.Errorf("Indent = %q, %v", indent, alone)
	}
	if indent, alone := l.Indent(9); indent != "- " || alone {
		t.Errorf("Indent = %q, %v", indent, alone)
	}
	for src, want := range map[string]string{"a\r\nb\n": "\r\n", "a\nb\r\n": "\n", "a": "\n", "\nb": "\n"} {
		if got := NewDocument(nil, []byte(src)).Lines().Newline(); got != want {
			t.Errorf("the lines of %q end with %q", src, got)
		}
	}
}
