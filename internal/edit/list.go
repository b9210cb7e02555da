package edit

import (
	"bytes"
	"strings"
)

// List is an array or object in brackets, with commas between its items or members, as in JSON
// and in parts of other syntaxes.
type List struct {
	text          []byte
	open, closing int // offset after the opening bracket, and of the closing one
	spans         []Span
	comment       func(text []byte, i int) int
	joint         string // text between name and value, as in the first member
}

// Span is the range of an item or a whole member: offsets in the file.
type Span struct{ Start, End int }

// Blanks are the characters that have no meaning between items.
const Blanks = " \t\r\n"

// NewList returns the layout of an array or object n that is written in brackets. joint is the
// default text between a name and its value, such as ": ", for an object without members to
// copy it from. comment returns the offset after the comment that begins at i, or i+1 if none
// does.
func NewList(n Node, joint string, comment func(text []byte, i int) int) *List {
	l := &List{text: n.d.src, open: n.v.Start + 1, closing: n.v.End - 1, joint: joint, comment: comment}
	for i, kid := range n.v.Kids {
		start := kid.Start
		if n.v.Kind == Object {
			start = n.v.Names[i].Start
		}
		l.spans = append(l.spans, Span{start, kid.End})
	}
	if n.v.Kind == Object && len(n.v.Kids) > 0 && n.v.Names[0].End < n.v.Kids[0].Start {
		between := string(l.text[n.v.Names[0].End:n.v.Kids[0].Start])
		if before, after, _ := strings.Cut(between, strings.TrimSpace(joint)); strings.Trim(before+after, " \t") == "" {
			l.joint = between
		}
	}
	return l
}

// Of returns a copy of the list with spans as its items. It is for a list in which several
// values of the document share one item.
func (l *List) Of(spans []Span) *List {
	other := *l
	other.spans = spans
	return &other
}

// Splices returns the changes for op. quote quotes the names of new members.
func (l *List) Splices(n Node, op Op, quote func(string) string) []Splice {
	switch op.Do {
	case Insert:
		return l.Insert(0, op.Items)
	case Enter:
		texts := make([]string, len(op.Members))
		for i, m := range op.Members {
			texts[i] = l.Member(quote(m.Name), m.Value)
		}
		return l.Insert(0, texts)
	}
	return l.Drop(func(i int) bool { return op.Drops(n, i) })
}

// Member returns the text of a member, laid out like the first one.
func (l *List) Member(name, value string) string { return name + l.joint + value }

// Insert inserts texts before the item with index before, laid out like the existing items. In
// an empty list, before has no meaning.
func (l *List) Insert(before int, texts []string) []Splice {
	if len(texts) == 0 {
		return nil
	}
	if len(l.spans) == 0 {
		return []Splice{{l.open, l.open, strings.Join(texts, ", ")}}
	}
	gap := l.separator()
	at := l.spans[before].Start
	return []Splice{{at, at, strings.Join(texts, ","+gap) + "," + gap}}
}

// separator returns the white space before an item: that of the first item if it is on a line
// of its own, otherwise that of the second.
func (l *List) separator() string {
	gap := l.blanksBefore(0, l.open)
	if strings.Contains(gap, "\n") {
		return gap
	}
	if len(l.spans) > 1 {
		return l.blanksBefore(1, l.spans[0].End)
	}
	return l.joint[len(strings.TrimRight(l.joint, " \t")):]
}

// blanksBefore returns the white space directly before item i, but nothing before the offset
// from.
func (l *List) blanksBefore(i, from int) string {
	before := l.text[from:l.spans[i].Start]
	return string(before[len(bytes.TrimRight(before, Blanks)):])
}

// Drop removes the items for which gone returns true, with one comma each, so that it undoes
// Insert byte for byte. Comments between items stay.
func (l *List) Drop(gone func(int) bool) []Splice {
	last := len(l.spans) - 1 // the last item that stays
	for last >= 0 && gone(last) {
		last--
	}
	var out []Splice
	for i, s := range l.spans {
		if !gone(i) {
			continue
		}
		out = append(out, Splice{s.Start, s.End, ""})
		switch {
		case i < last:
			out = append(out, l.closeGap(s.End, l.spans[i+1].Start)...)
		case i > 0: // after the last item that stays, or no item stays
			out = append(out, l.closeGap(l.spans[i-1].End, s.Start)...)
		}
	}
	if last < 0 && len(l.spans) > 0 {
		out = append(out, l.empty()...)
	}
	return out
}

// closeGap removes the text between two items. If there are comments in it, it removes only the
// comma.
func (l *List) closeGap(from, to int) []Splice {
	comma := l.comma(from, to)
	if len(bytes.Trim(l.text[from:to], Blanks+",")) > 0 {
		return []Splice{{comma, comma + 1, ""}}
	}
	return []Splice{{from, to, ""}}
}

// empty cleans up inside the brackets when no item stays. It removes a trailing comma, and also
// white space if nothing else is left on both sides.
func (l *List) empty() []Splice {
	head := Span{l.open, l.spans[0].Start}
	tail := Span{l.spans[len(l.spans)-1].End, l.closing}
	comma := l.comma(tail.Start, tail.End)
	if head.Start < head.End && l.blank(head, "") && l.blank(tail, ",") {
		return []Splice{{head.Start, head.End, ""}, {tail.Start, tail.End, ""}}
	}
	if comma >= 0 {
		return []Splice{{comma, comma + 1, ""}}
	}
	return nil
}

func (l *List) blank(s Span, but string) bool {
	return len(bytes.Trim(l.text[s.Start:s.End], Blanks+but)) == 0
}

// comma returns the offset of the comma in text that otherwise has only white space and
// comments, or -1 if there is none.
func (l *List) comma(from, to int) int {
	for i := from; i < to; {
		if l.text[i] == ',' {
			return i
		}
		i = l.comment(l.text, i)
	}
	return -1
}
