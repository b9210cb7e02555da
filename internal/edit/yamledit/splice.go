package yamledit

import (
	"errors"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Extent implements [edit.Syntax]. The extent of a mapping that is written by indentation is all of its
// lines. The newline at the end of a block of text is part of its value.
func (s Syntax) Extent(n edit.Node) (edit.Span, error) {
	v := n.Value()
	span := edit.Span{Start: v.Start, End: v.End}
	layout, ok := v.Layout.(*block)
	if !ok {
		return span, nil
	}
	span.Start, span.End = n.Document().Lines().Start(layout.starts[0]), n.Document().Lines().End(v.End)
	if _, alone := n.Document().Lines().Indent(layout.starts[0]); !alone || v.Start != layout.starts[0] {
		return edit.Span{}, errors.New("it does not begin on a line of its own")
	}
	return span, nil
}

// Lift implements [edit.Syntax].
func (s Syntax) Lift(text string, _ []string) (*edit.Document, []string, error) {
	if edit.IsBraced(s, text) {
		return edit.LiftBraced(s, ": ", text)
	}
	d, err := s.Read([]byte(text))
	return d, nil, err
}

// Splices implements [edit.Syntax].
func (s Syntax) Splices(n edit.Node, op edit.Op) ([]edit.Splice, error) {
	v := n.Value()
	l := lines{n.Document().Lines(), v, nil}
	if op.Do == edit.Paste {
		return op.Paste(n, func(text string) bool { return edit.IsBraced(s, text) })
	}
	if op.Do == edit.Replace {
		return l.replace(op.Text), nil
	}
	layout, ok := v.Layout.(*block)
	if !ok {
		return edit.NewList(n, ": ", edit.HashComment).Splices(n, op, s.Quote), nil
	}
	l.starts = layout.starts
	switch op.Do {
	case edit.Insert, edit.Enter:
		return []edit.Splice{l.insert(op)}, nil
	}
	return l.drop(func(i int) bool { return op.Drops(n, i) }), nil
}

// lines is a value in the lines of a file. If it is written by indentation, starts has the
// offsets of its items or members.
type lines struct {
	edit.Lines
	v      *edit.Value
	starts []int
}

// replace replaces the value by text.
func (l lines) replace(text string) []edit.Splice {
	start, end := l.v.Start, l.v.End
	colon := l.pastColon()
	switch nothing := strings.TrimSpace(text) == ""; {
	case l.v.Layout != nil && colon >= 0:
		// Brackets must be indented, dashes need not be.
		start, text = colon, " "+text
		if nothing {
			text = ""
		}
	case l.v.Layout != nil:
		text = "  " + text
	case nothing: // also removes the blank before the value
		if start > l.Base && l.Src[start-1] == ' ' && start < end {
			start--
		}
		text = ""
	case start == end:
		text = " " + text
	}
	return []edit.Splice{{Start: start, End: end, Text: text}}
}

// pastColon returns the offset after the colon before the value. It returns -1 if there is
// none, or if a comment is between the two.
func (l lines) pastColon() int {
	before := strings.TrimRight(string(l.Src[l.Base:l.v.Start]), edit.Blanks)
	line := before[strings.LastIndexByte(before, '\n')+1:]
	if !strings.HasSuffix(line, ":") || strings.Contains(line, "#") {
		return -1
	}
	return l.Base + len(before)
}

// insert inserts items or members before the first one, each on a line of its own.
func (l lines) insert(op edit.Op) edit.Splice {
	parts := make([]string, 0, len(op.Items)+len(op.Members))
	for _, item := range op.Items {
		parts = append(parts, "- "+item)
	}
	for _, m := range op.Members {
		parts = append(parts, quoteKey(m.Name)+": "+m.Value)
	}
	at := l.starts[0]
	indent, alone := l.Indent(at)
	if !alone { // after the dash of a sequence
		indent = strings.Repeat(" ", len([]rune(indent)))
	}
	text := strings.Join(append(parts, ""), l.Newline()+indent)
	return edit.Splice{Start: at, End: at, Text: text}
}

// drop removes the items or members for which gone returns true, with their lines. Comments
// stay.
func (l lines) drop(gone func(int) bool) []edit.Splice {
	stay := 0
	for stay < len(l.starts) && gone(stay) {
		stay++
	}
	if stay == len(l.starts) {
		if l.v.Kind == edit.Array {
			return l.replace("[]")
		}
		return l.replace("{}")
	}
	var out []edit.Splice
	first := 0
	if _, alone := l.Indent(l.starts[0]); !alone && stay > 0 && l.together(stay) {
		// The first part that stays moves to the place after the dash.
		out, first = []edit.Splice{{Start: l.starts[0], End: l.starts[stay]}}, stay
	}
	for i := first; i < len(l.starts); i++ {
		switch _, alone := l.Indent(l.starts[i]); {
		case !gone(i):
		case alone:
			out = append(out, l.Without(l.starts[i], l.v.Kids[i].End))
		default:
			out = append(out, edit.Splice{Start: l.starts[i], End: l.v.Kids[i].End})
		}
	}
	return l.Join(out, true)
}

// together reports whether only white space separates the first n parts from each other and
// from the next.
func (l lines) together(n int) bool {
	for i := range n {
		if strings.Trim(string(l.Src[l.v.Kids[i].End:l.starts[i+1]]), edit.Blanks) != "" {
			return false
		}
	}
	return true
}
