package display

import "io"

// Stream prints the rows of a table as they arrive. Unlike a [Table] it does not know all
// rows before it prints the first, so the widths of its columns are fixed.
type Stream struct {
	w       io.Writer
	columns []Column
	widths  []int
	room    int // columns of a line; 0: without a limit
	paint   Paint
	above   []Safe // the last row
}

// NewStream returns a stream that fits into columns columns. The last of cols takes the
// remaining space. If columns is less than 1, cells are padded to their widths and never
// cut.
func NewStream(w io.Writer, columns int, paint Paint, cols ...Column) *Stream {
	s := &Stream{w: w, columns: cols, room: max(columns, 0), paint: paint, above: make([]Safe, len(cols))}
	used := 0
	for i, c := range cols {
		width := max(c.Width, Width(c.Head))
		if i == len(cols)-1 && s.room > 0 {
			width = max(columns-used, c.Shrink, Width(c.Head))
		}
		s.widths = append(s.widths, width)
		used += width + gap
	}
	return s
}

// Head prints the column heads.
func (s *Stream) Head() error {
	_, err := io.WriteString(s.w, headLine(s.columns, s.widths, s.paint))
	return err
}

// Note prints a line below the last row. It is wrapped, never cut. An empty note is ignored.
func (s *Stream) Note(text Safe) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(s.w, Note{Text: text}.below(s.widths, s.room, s.paint))
	return err
}

// Row prints one row.
func (s *Stream) Row(row ...Safe) error {
	_, err := io.WriteString(s.w, line(s.columns, row, s.above, s.widths, s.room > 0, s.paint))
	s.above = row
	return err
}
