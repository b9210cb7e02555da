package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// fieldsNote is the annotation of a command that names what --json prints.
const fieldsNote = "json-fields"

// jsonFlag gives a verb --json, which prints objects like samples. Its help names
// their members.
func jsonFlag(cmd *cobra.Command, to *bool, samples ...any) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON, one object a line")
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[fieldsNote] = strings.Join(pbjson.Members(samples...), "\n")
}

// withJSON gives a verb --json and no other flag, see [jsonFlag].
func (a *app) withJSON(cmd *cobra.Command, samples ...any) *cobra.Command {
	jsonFlag(cmd, &a.asJSON, samples...)
	return cmd
}

// fieldsTitle stands above what an annotation names.
func fieldsTitle(fields string) string {
	if strings.Contains(fields, "?") {
		return "Members of --json; one with a ? is left out when it has no value:"
	}
	return "Members of --json:"
}

// printJSON prints v as one line of JSON, see [pbjson.Marshal].
func (a *app) printJSON(v any) error {
	line, err := pbjson.Marshal(v)
	if err != nil {
		return err
	}
	return a.printLine(line)
}

// printList prints what a verb lists: with --json each as line makes it, or as it is
// where line is nil; else as a table, or none where there is nothing.
func printList[T any](a *app, all []T, line func(T) any, none string, table func([]T) *display.Table) error {
	if a.asJSON && line == nil {
		return printAllJSON(a, all)
	}
	if a.asJSON {
		return printAllJSON(a, each(all, line))
	}
	switch {
	case len(all) > 0:
		return a.printTable(table(all))
	case none != "":
		a.talk(none)
	}
	return nil
}

// printTable prints a table as wide as the screen.
func (a *app) printTable(t *display.Table) error { return t.Write(a.out, a.width()) }

// printAllJSON prints a line of JSON for each of all.
func printAllJSON[T any](a *app, all []T) error {
	for _, v := range all {
		if err := a.printJSON(v); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one line of JSON. On a terminal what it could act on is
// escaped in the way of JSON; elsewhere each byte stays.
func (a *app) printLine(line []byte) error {
	if a.outTerminal {
		line = []byte(display.EscapeJSON(line))
	}
	_, err := a.out.Write(append(line, '\n'))
	return err
}

// say prints talk: what happened, for a person.
func (a *app) say(format string, args ...any) {
	a.talk(fmt.Sprintf(format, args...))
}

// talk prints text to stderr, broken between words where that is a terminal: a
// terminal itself breaks anywhere. Elsewhere each line stays one line.
func (a *app) talk(text string) {
	_ = writeLines(a.err, folded(display.Safe(text), a.errColumns)) // there is nobody else to tell
}

// folded breaks each line of text between words into columns columns; fewer than
// one means no limit.
func folded(text display.Safe, columns int) []display.Safe {
	var lines []display.Safe
	for line := range strings.SplitSeq(string(text), "\n") {
		lines = append(lines, display.Wrap(display.Safe(line), columns)...)
	}
	return lines
}

// sheet is a list of names and values, for showing one thing in full.
type sheet struct {
	names  []string
	values []display.Safe
}

// add appends values of a name, which may have several lines; an empty one is left out.
func (s *sheet) add(name string, values ...display.Safe) {
	for _, value := range values {
		if value != "" {
			s.names = append(s.names, name)
			s.values = append(s.values, value)
		}
	}
}

// lines lays the sheet out in columns columns, the values below one another; long
// ones go on in the next line, so that nothing in a value can stand where a name
// does. Fewer than one column means no limit.
func (s *sheet) lines(columns int) []display.Safe {
	left := 0
	for _, name := range s.names {
		left = max(left, len(name)+2)
	}
	room := behind(left, columns)
	var lines []display.Safe
	for i, name := range s.names {
		first := true
		for line := range strings.SplitSeq(string(s.values[i]), "\n") {
			for _, part := range display.Wrap(display.Safe(line), room) {
				head := ""
				if first {
					head, first = name, false
				}
				lines = append(lines, display.Safe(strings.TrimRight(fmt.Sprintf("%-*s%s", left, head, part), " ")))
			}
		}
	}
	return lines
}

// printOne prints what a verb shows of one thing: with --json v, else the sheet.
func (a *app) printOne(v any, s *sheet) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	return a.printSheet(s)
}

// printSheet prints the sheet to stdout.
func (a *app) printSheet(s *sheet) error { return a.writeSheet(a.out, s) }

func (a *app) writeSheet(to io.Writer, s *sheet) error { return writeLines(to, s.lines(a.width())) }

// printLines prints lines of data.
func (a *app) printLines(lines []display.Safe) error { return writeLines(a.out, lines) }

func writeLines(to io.Writer, lines []display.Safe) error {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(string(line) + "\n")
	}
	_, err := to.Write([]byte(b.String()))
	return err
}

// behind is how many columns are left behind a margin, enough for a few words; 0 where
// there is no limit.
func behind(margin, columns int) int {
	if columns < 1 {
		return 0
	}
	return max(columns-margin, 20)
}

// hanging breaks a line into columns columns; what goes on is indented.
func hanging(line display.Safe, columns, indent int) []display.Safe {
	parts := display.Wrap(line, behind(indent, columns))
	for i := range parts[1:] {
		parts[i+1] = display.Safe(strings.Repeat(" ", indent)) + parts[i+1]
	}
	return parts
}
