package display

import (
	"io"
	"strings"
)

// Stream prints rows under one head as they come. Unlike a [Table] it does not
// know all of them before it prints the first, so its columns have the widths
// that they are given.
type Stream struct {
	w       io.Writer
	columns []Column
	widths  []int
	cut     bool
}

// NewStream returns a stream that fits into columns columns, the last of which
// takes what the others leave. With fewer than one, cells are padded to their
// widths and never cut.
func NewStream(w io.Writer, columns int, cols ...Column) *Stream {
	s := &Stream{w: w, columns: cols, cut: columns > 0}
	used := 0
	for i, c := range cols {
		width := max(c.Width, Width(c.Head))
		if i == len(cols)-1 && s.cut {
			width = max(columns-used, c.Shrink, Width(c.Head))
		}
		s.widths = append(s.widths, width)
		used += width + gap
	}
	return s
}

// Head prints the heads of the columns.
func (s *Stream) Head() error { return s.Row(heads(s.columns)...) }

// Row prints one row.
func (s *Stream) Row(row ...Safe) error {
	_, err := io.WriteString(s.w, line(s.columns, row, s.widths, s.cut))
	return err
}

// pad fills cell up with spaces.
func pad(cell Safe, width int, right bool) string {
	space := strings.Repeat(" ", max(width-Width(cell), 0))
	if right {
		return space + string(cell)
	}
	return string(cell) + space
}
