package edit

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Lines is the text of a file whose syntax gives each thing a line of its own.
type Lines struct {
	Src  []byte
	Base int // where the text proper begins
}

// Lines returns the text of the document, seen as lines.
func (d *Document) Lines() Lines { return Lines{d.src, d.base} }

// Start returns where the line begins that holds the offset at.
func (l Lines) Start(at int) int {
	return max(bytes.LastIndexByte(l.Src[:at], '\n')+1, l.Base)
}

// End returns the offset past the line that holds the offset at, and past its
// end.
func (l Lines) End(at int) int {
	if i := bytes.IndexByte(l.Src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(l.Src)
}

// Indent returns the blanks between the line's begin and at, and whether there
// is nothing else.
func (l Lines) Indent(at int) (string, bool) {
	before := string(l.Src[l.Start(at):at])
	return before, strings.Trim(before, " \t") == ""
}

// Newline is how the file ends its lines.
func (l Lines) Newline() string {
	if i := bytes.IndexByte(l.Src, '\n'); i > 0 && l.Src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// Without is the removal of what stands from start to end with the lines it
// stands in, or by itself when a comment stands behind it.
func (l Lines) Without(start, end int) Splice {
	rest := l.End(end)
	if strings.TrimSpace(string(l.Src[end:rest])) != "" {
		return Splice{Start: start, End: end}
	}
	return Splice{Start: l.Start(start), End: rest}
}

// Join makes one of removals that touch. Where the last line goes and had no
// end, that of the line before goes too if tidy is set.
func (l Lines) Join(splices []Splice, tidy bool) []Splice {
	slices.SortFunc(splices, func(a, b Splice) int { return cmp.Compare(a.Start, b.Start) })
	var out []Splice
	for _, s := range splices {
		if n := len(out); n > 0 && out[n-1].End >= s.Start {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 || !tidy {
		return out
	}
	last := &out[len(out)-1]
	if last.End == len(l.Src) && !bytes.HasSuffix(l.Src, []byte("\n")) && last.Start > l.Base && l.Src[last.Start-1] == '\n' {
		last.Start--
		if last.Start > l.Base && l.Src[last.Start-1] == '\r' {
			last.Start--
		}
	}
	return out
}
