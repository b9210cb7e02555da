package display

import (
	"bufio"
	"io"
	"slices"
	"strings"
)

// gap is the number of spaces between two columns.
const gap = 2

// Tone is what a piece of text means, for a [Paint]. The text says it too.
type Tone uint8

// The tones. Strong and Faint are for what is looked for first and last.
const (
	Plain Tone = iota
	OK
	Warn
	Deny
	Held
	Strong
	Faint
)

// Paint returns text in the colour of a tone. It does not change what text says or its width. A nil
// Paint colours nothing.
type Paint func(tone Tone, text string) string

// In returns text in the colour of a tone.
func (p Paint) In(tone Tone, text string) string {
	if p == nil || tone == Plain || text == "" {
		return text
	}
	return p(tone, text)
}

// Column is one column of a [Table].
type Column struct {
	Head   Safe
	Right  bool // align to the right, for numbers
	Shrink int  // may be cut to this many columns; 0: never cut
	Width  int  // width in a Stream; a Table computes it

	// Drop says when a Table leaves the column out: where the columns with 0 would have to be cut to make
	// room for it. The column with the highest number goes first.
	Drop    int
	Tone    func(cell Safe) Tone // nil: plain
	Repeats bool                 // a cell is faint if the one above says the same
}

// tone returns the tone of a cell below another.
func (c *Column) tone(cell, above Safe) Tone {
	switch {
	case c.Repeats && cell == above:
		return Faint
	case c.Tone != nil:
		return c.Tone(cell)
	}
	return Plain
}

// Row is one row of a [Table].
type Row struct {
	Cells []Safe
	Notes []Note
}

// Note is a text below a row, from its second column on. It is wrapped, never cut.
type Note struct {
	Text Safe
	Tone Tone
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
func (t *Table) Note(note Safe) { t.NoteIn(Plain, note) }

// NoteIn adds a line in a tone below the last row. An empty note is ignored.
func (t *Table) NoteIn(tone Tone, note Safe) {
	if row := &t.Rows[len(t.Rows)-1]; note != "" {
		row.Notes = append(row.Notes, Note{note, tone})
	}
}

// Write writes the table, heads first. It fits the table into columns columns as far as the columns
// that may be cut or left out allow. If columns is less than 1, there is no limit.
func (t *Table) Write(w io.Writer, columns int, paint Paint) error {
	t, widths := t.fitting(columns)
	out := bufio.NewWriter(w)
	out.WriteString(headLine(t.Columns, widths, paint))
	above := make([]Safe, len(t.Columns))
	for _, row := range t.Rows {
		out.WriteString(line(t.Columns, row.Cells, above, widths, true, paint))
		above = row.Cells
		for _, note := range row.Notes {
			out.WriteString(note.below(widths, columns, paint))
		}
	}
	return out.Flush()
}

// below returns the lines of the note below a row with columns of these widths.
func (n Note) below(widths []int, columns int, paint Paint) string {
	indent, room := 0, 0
	if len(widths) > 1 {
		indent = widths[0] + gap
	}
	if columns > 0 {
		room = max(columns-indent, 20)
	}
	var b strings.Builder
	for _, line := range Wrap(n.Text, room) {
		b.WriteString(strings.Repeat(" ", indent) + paint.In(n.Tone, string(line)) + "\n")
	}
	return b.String()
}

// fitting returns t without the columns that have no room in columns columns, and the widths of those
// that have.
func (t *Table) fitting(columns int) (*Table, []int) {
	for {
		widths, last, need := t.widths(), 0, -gap
		for i, c := range t.Columns {
			if need += gap + widths[i]; c.Drop > 0 && c.Shrink > 0 {
				need -= max(0, widths[i]-c.least())
			}
			if c.Drop > t.Columns[last].Drop {
				last = i
			}
		}
		if columns < 1 || need <= columns || len(t.Columns) == 0 || t.Columns[last].Drop == 0 {
			return t, t.shrink(widths, columns)
		}
		less := &Table{Columns: slices.Delete(slices.Clone(t.Columns), last, last+1)}
		for _, row := range t.Rows {
			less.Rows = append(less.Rows, Row{slices.Delete(slices.Clone(row.Cells), last, last+1), row.Notes})
		}
		t = less
	}
}

// least returns the width to which the column may be cut.
func (c *Column) least() int { return max(c.Shrink, Width(c.Head)) }

// widths returns the width of each column's widest cell.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Head)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row.Cells[i]))
		}
	}
	return widths
}

// shrink makes widths smaller until the table fits into columns columns, as far as its columns may be
// cut.
func (t *Table) shrink(widths []int, columns int) []int {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > columns && columns > 0; total-- {
		widest := -1
		for i, c := range t.Columns {
			if c.Shrink == 0 || widths[i] <= c.least() {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
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

// headLine returns the line of heads.
func headLine(columns []Column, widths []int, paint Paint) string {
	cells, plain := make([]Safe, len(columns)), make([]Column, len(columns))
	for i, c := range columns {
		cells[i], plain[i] = c.Head, Column{Right: c.Right}
	}
	heads, _ := strings.CutSuffix(line(plain, cells, cells, widths, true, nil), "\n")
	return paint.In(Faint, heads) + "\n"
}

// line returns one line of cells below those of above, with its newline. If cut is true, cells wider
// than their column are cut. No line ends in spaces.
func line(columns []Column, row, above []Safe, widths []int, cut bool, paint Paint) string {
	var b strings.Builder
	blank := 0 // not written yet: it may be at the end
	for i, cell := range row {
		tone := columns[i].tone(cell, above[i])
		if cut {
			cell = Fit(cell, widths[i])
		}
		cell = Safe(strings.TrimRight(string(cell), " "))
		padding := max(widths[i]-Width(cell), 0)
		if columns[i].Right {
			blank += padding
			padding = 0
		}
		if cell != "" {
			b.WriteString(strings.Repeat(" ", blank))
			blank = 0
		}
		b.WriteString(paint.In(tone, string(cell)))
		blank += padding + gap
	}
	return b.String() + "\n"
}
