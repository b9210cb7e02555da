package display

import (
	"bufio"
	"io"
	"strings"
)

// gap is the space between two columns.
const gap = 2

// Column is one column of a [Table].
type Column struct {
	Head   Safe
	Right  bool // align to the right: numbers
	Shrink int  // may be cut, to no fewer columns than this; 0: never
	Width  int  // in a Stream, how wide it is; a Table finds out by itself
}

// Row is one row of a [Table].
type Row struct {
	Cells []Safe
	Notes []Safe // lines below it, from its second column on; wrapped, never cut
}

// Table lays rows out in columns. The last column is not padded, so that no
// line ends in spaces.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Add appends a row.
func (t *Table) Add(cells ...Safe) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// Note puts a line below the row added last; an empty one is left out.
func (t *Table) Note(note Safe) {
	if row := &t.Rows[len(t.Rows)-1]; note != "" {
		row.Notes = append(row.Notes, note)
	}
}

// Write writes the table, heads first, to fit into columns columns where the
// columns that may be cut allow it. Fewer than one means no limit.
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

// widths says how wide each column becomes: as its widest cell, less where the
// whole would be too wide.
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

// line is one line of cells, with its end. Those that are wider than their column are cut
// if cut is true.
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
