package edit

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Lines is the text of a file in a syntax that works line by line.
type Lines struct {
	Src  []byte
	Base int // offset of the text after the byte order mark
}

// Lines returns the text of the document as lines.
func (d *Document) Lines() Lines { return Lines{d.src, d.base} }

// Start returns the offset at which the line with the offset at begins.
func (l Lines) Start(at int) int {
	return max(bytes.LastIndexByte(l.Src[:at], '\n')+1, l.Base)
}

// End returns the offset after the line with the offset at, including its newline.
func (l Lines) End(at int) int {
	if i := bytes.IndexByte(l.Src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(l.Src)
}

// Indent returns the text between the start of the line and at, and whether it is only blanks.
func (l Lines) Indent(at int) (string, bool) {
	before := string(l.Src[l.Start(at):at])
	return before, strings.Trim(before, " \t") == ""
}

// Newline returns the line ending of the file.
func (l Lines) Newline() string {
	if i := bytes.IndexByte(l.Src, '\n'); i > 0 && l.Src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// Without returns the splice that removes the text from start to end together with its lines.
// If other text, such as a comment, follows in the last line, only start to end is removed.
func (l Lines) Without(start, end int) Splice {
	rest := l.End(end)
	if strings.TrimSpace(string(l.Src[end:rest])) != "" {
		return Splice{Start: start, End: end}
	}
	return Splice{Start: l.Start(start), End: rest}
}

// Join merges removals that overlap or touch. If tidy is set, and the last line is removed and
// had no newline, the newline before it is removed too.
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
