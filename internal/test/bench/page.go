package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// The tables are between these lines of a page; the rest is written by hand.
const (
	beginMark = "<!-- make bench writes from here -->"
	endMark   = "<!-- to here -->"
)

// replaceBetween replaces what is between the marks of a page.
func replaceBetween(page, text []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(beginMark+"\n"))
	if !ok {
		return nil, fmt.Errorf("there is no line %s", beginMark)
	}
	_, after, ok := bytes.Cut(rest, []byte(endMark))
	if !ok {
		return nil, fmt.Errorf("there is no line %s after %s", endMark, beginMark)
	}
	if bytes.Contains(after, []byte(beginMark)) || bytes.Contains(after, []byte(endMark)) {
		return nil, errors.New("the marks stand there more than once")
	}
	return bytes.Join([][]byte{before, []byte(beginMark + "\n\n"), text, []byte("\n" + endMark), after}, nil), nil
}

// putInto writes the tables into the page at path. If there is no page, it creates one with the
// tables only.
func (r *report) putInto(path string) error {
	page, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		page, err = []byte(beginMark+"\n"+endMark+"\n"), nil
	}
	if err != nil {
		return err
	}
	var text bytes.Buffer
	r.markdown(&text)
	if page, err = replaceBetween(page, text.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, page, 0o644)
}

// markdown writes a summary of the run and a table for each theme.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "Measured %s, build %s, with `%s`: medians of %d turns, in %.0f s.\n", r.When.Format("2006-01-02 15:04 MST"),
		r.Build, r.Command, r.Turns, r.Took)
	fmt.Fprintf(w, "Machine: %s. Load %s before and %s after; other programs took %.0f %% of the processors meanwhile.\n",
		r.Machine, r.Quiet.Before, r.Quiet.After, 100*r.Quiet.Others)
	if r.Base != "" {
		fmt.Fprintf(w, "Base: build %s.\n", r.Base)
	}
	if len(r.Peers) > 0 {
		fmt.Fprintf(w, "Peers: %s.\n", strings.Join(r.Peers, ", "))
	}
	if warning := r.Quiet.warning(); warning != "" {
		fmt.Fprintf(w, "\n**%s.**\n", warning)
	}
	for _, theme := range themes {
		var rows []row
		for _, f := range figures {
			if v, ok := r.row(f.name); ok && f.theme == theme.name {
				rows = append(rows, v)
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(w, "\n### %s\n\n%s\n\n", theme.name, theme.about)
			table(w, rows)
		}
	}
}

// column is a column of a table. It is left out if it is empty in all rows.
type column struct {
	head  string
	right bool
	cell  func(row) string
}

func figureOf(pick func(row) *spread) func(row) string {
	return func(v row) string {
		if s := pick(v); s != nil {
			return s.String()
		}
		return ""
	}
}

func unlessZero(pick func(row) float64) func(row) string {
	return func(v row) string {
		if n := pick(v); n != 0 {
			return number(n)
		}
		return ""
	}
}

// ratio returns the ratio with its quartiles, if it was taken in turns.
func ratio(v row) string {
	switch {
	case v.Ratio == nil:
		return ""
	case v.Ratio.Turns == 1:
		return v.Ratio.String()
	}
	return fmt.Sprintf("%s (%s–%s)", v.Ratio, number(v.Ratio.Low), number(v.Ratio.High))
}

func reach(v row) string {
	if v.Reach == "" {
		return ""
	}
	return v.Reach + ": " + v.Met
}

// columnsFor returns the possible columns of a table with these rows.
func columnsFor(rows []row) []column {
	what, unit, figure := rows[0].Unit, "", "ours"
	for _, v := range rows {
		if v.Unit != what {
			what, unit = "", "unit"
		}
	}
	if rows[0].Theme == holding {
		figure = "resident"
	}
	columns := []column{
		{what, false, func(v row) string { return v.What }},
		{unit, false, func(v row) string {
			if unit == "" {
				return "" // all have the same, which is in the first head
			}
			return v.Unit
		}},
		{"direct", true, figureOf(func(v row) *spread { return v.Direct })},
		{"floor", true, figureOf(func(v row) *spread { return v.Floor })},
		{figure, true, figureOf(func(v row) *spread { return v.Ours })},
		{"PSS", true, unlessZero(func(v row) float64 { return v.Share })},
		{"peak", true, unlessZero(func(v row) float64 { return v.Peak })},
		{"adds", true, figureOf(func(v row) *spread { return v.Added })},
		{"ratio", true, ratio},
	}
	for _, name := range othersIn(rows) {
		columns = append(columns, column{name, true, func(v row) string {
			for _, o := range v.Others {
				if o.Name == name {
					return o.String()
				}
			}
			return ""
		}})
	}
	return append(columns, column{"to reach", false, reach})
}

// othersIn returns the names of the other ways in rows, in order.
func othersIn(rows []row) []string {
	var all []string
	for _, v := range rows {
		for _, o := range v.Others {
			if !slices.Contains(all, o.Name) {
				all = append(all, o.Name)
			}
		}
	}
	return all
}

// table writes the rows of one theme, aligned so that the text itself is readable, and the
// notes below it.
func table(w io.Writer, rows []row) {
	var cells [][]string // of each shown column
	var shown []column
	for _, c := range columnsFor(rows) {
		all, something := []string{c.head}, false
		for _, v := range rows {
			text := c.cell(v)
			all = append(all, text)
			something = something || text != ""
		}
		if something {
			shown, cells = append(shown, c), append(cells, all)
		}
	}
	for line := range len(rows) + 1 {
		for i, c := range shown {
			fmt.Fprintf(w, "| %s ", pad(cells[i][line], width(cells[i]), c.right))
		}
		fmt.Fprintln(w, "|")
		if line > 0 {
			continue
		}
		for i, c := range shown {
			rule := strings.Repeat("-", width(cells[i])+1)
			if c.right {
				fmt.Fprintf(w, "|%s:", rule)
			} else {
				fmt.Fprintf(w, "|%s-", rule)
			}
		}
		fmt.Fprintln(w, "|")
	}
	lead := "\n"
	remark := func(v row, text string) {
		fmt.Fprintf(w, "%s- %s: %s\n", lead, v.What, text)
		lead = ""
	}
	for _, v := range rows {
		if v.Note != "" {
			remark(v, v.Note)
		}
		for _, o := range v.Others {
			if o.Failed != "" {
				remark(v, o.Name+" failed: "+o.Failed)
			}
		}
	}
}

func width(cells []string) int {
	most := 3
	for _, c := range cells {
		most = max(most, utf8.RuneCountInString(c))
	}
	return most
}

func pad(text string, to int, right bool) string {
	room := strings.Repeat(" ", to-utf8.RuneCountInString(text))
	if right {
		return room + text
	}
	return text + room
}
