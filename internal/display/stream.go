package display

import (
	"io"
	"strings"
)

// Stream prints the rows of a table as they arrive. Unlike a [Table] it does not know all
// rows before it prints the first, so the widths of its columns are fixed.
type Stream struct {
	w       io.Writer
	columns []Column
	widths  []int
	cut     bool
}

// NewStream returns a stream that fits into columns columns. The last of cols takes the
// remaining space. If columns is less than 1, cells are padded to their widths and never
// cut.
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

// Head prints the column heads.
func (s *Stream) Head() error { return s.Row(heads(s.columns)...) }

// Row prints one row.
func (s *Stream) Row(row ...Safe) error {
	_, err := io.WriteString(s.w, line(s.columns, row, s.widths, s.cut))
	return err
}

// pad pads cell with spaces to width.
func pad(cell Safe, width int, right bool) string {
	space := strings.Repeat(" ", max(width-Width(cell), 0))
	if right {
		return space + string(cell)
	}
	return string(cell) + space
}
