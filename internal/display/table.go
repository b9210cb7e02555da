package display

import (
	"bufio"
	"io"
	"strings"
)

// gap is the number of spaces between two columns.
const gap = 2

// Column is one column of a [Table].
type Column struct {
	Head   Safe
	Right  bool // align to the right, for numbers
	Shrink int  // may be cut to this many columns; 0: never cut
	Width  int  // width in a Stream; a Table computes it
}

// Row is one row of a [Table].
type Row struct {
	Cells []Safe
	Notes []Safe // lines below the row, from its second column on; wrapped, never cut
}

// Table aligns rows in columns. The last column is not padded, so that no line ends in
// spaces.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Add appends a row.
func (t *Table) Add(cells ...Safe) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// Note adds a line below the last row. An empty note is ignored.
func (t *Table) Note(note Safe) {
	if row := &t.Rows[len(t.Rows)-1]; note != "" {
		row.Notes = append(row.Notes, note)
	}
}

// Write writes the table, heads first. It fits the table into columns columns as far as
// the columns that may be cut allow. If columns is less than 1, there is no limit.
func (t *Table) Write(w io.Writer, columns int) error {
	widths := t.widths(columns)
	out := bufio.NewWriter(w)
	out.WriteString(line(t.Columns, heads(t.Columns), widths, true))
	indent := 0
	if len(widths) > 1 {
		indent = widths[0] + gap
	}
	for _, row := range t.Rows {
		out.WriteString(line(t.Columns, row.Cells, widths, true))
		for _, note := range row.Notes {
			room := 0
			if columns > 0 {
				room = max(columns-indent, 20)
			}
			for _, line := range Wrap(note, room) {
				out.WriteString(strings.Repeat(" ", indent) + string(line) + "\n")
			}
		}
	}
	return out.Flush()
}

// widths returns the width of each column: that of its widest cell, less if the table
// would be too wide.
func (t *Table) widths(columns int) []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Head)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row.Cells[i]))
		}
	}
	if columns < 1 {
		return widths
	}
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > columns; total-- {
		widest := -1
		for i, c := range t.Columns {
			if c.Shrink > 0 && widths[i] > max(c.Shrink, Width(c.Head)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func heads(columns []Column) []Safe {
	heads := make([]Safe, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	return heads
}

// line returns one line of cells, with its newline. If cut is true, cells wider than
// their column are cut.
func line(columns []Column, row []Safe, widths []int, cut bool) string {
	var b strings.Builder
	for i, cell := range row {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if cut {
			cell = Fit(cell, widths[i])
		}
		b.WriteString(pad(cell, widths[i], columns[i].Right))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
