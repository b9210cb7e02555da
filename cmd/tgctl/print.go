package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// fieldsNote is the annotation of a command that lists the members of its --json output.
const fieldsNote = "json-fields"

// jsonFlag adds the flag --json, which prints objects like samples, to a command. The command's
// help lists their members.
func jsonFlag(cmd *cobra.Command, to *bool, samples ...any) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON, one object a line")
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[fieldsNote] = strings.Join(pbjson.Members(samples...), "\n")
}

// withJSON adds --json to a command without other flags, see [jsonFlag].
func (a *app) withJSON(cmd *cobra.Command, samples ...any) *cobra.Command {
	jsonFlag(cmd, &a.asJSON, samples...)
	return cmd
}

// fieldsTitle returns the title above the members of --json.
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

// printList prints a list. With --json it prints one line for each element, converted with line
// unless that is nil. Otherwise it prints a table, or the text none if the list is empty.
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

// printTable prints a table that fits the screen.
func (a *app) printTable(t *display.Table) error { return t.Write(a.out, a.width()) }

// printAllJSON prints a line of JSON for each element of all.
func printAllJSON[T any](a *app, all []T) error {
	for _, v := range all {
		if err := a.printJSON(v); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one line of JSON. On a terminal, characters that could control it are
// escaped as JSON escapes; elsewhere the bytes are unchanged.
func (a *app) printLine(line []byte) error {
	if a.outTerminal {
		line = []byte(display.EscapeJSON(line))
	}
	_, err := a.out.Write(append(line, '\n'))
	return err
}

// printMessage prints a message for a person.
func (a *app) printMessage(format string, args ...any) {
	a.talk(fmt.Sprintf(format, args...))
}

// talk prints text to stderr. If that is a terminal, lines are wrapped between words; otherwise
// they stay as they are.
func (a *app) talk(text string) {
	_ = writeLines(a.err, folded(display.Safe(text), a.errColumns)) // a failure could be reported nowhere
}

// folded wraps each line of text between words at columns columns. Less than one means no
// limit.
func folded(text display.Safe, columns int) []display.Safe {
	var lines []display.Safe
	for line := range strings.SplitSeq(string(text), "\n") {
		lines = append(lines, display.Wrap(display.Safe(line), columns)...)
	}
	return lines
}

// sheet is a list of names and values that shows one thing in full.
type sheet struct {
	names  []string
	values []display.Safe
}

// add appends values under a name. A value may have several lines; empty values are skipped.
func (s *sheet) add(name string, values ...display.Safe) {
	for _, value := range values {
		if value != "" {
			s.names = append(s.names, name)
			s.values = append(s.values, value)
		}
	}
}

// lines lays the sheet out in columns columns, with the values aligned. Long values continue on
// the next line in the same column, so text in a value cannot appear as a name. Less than one
// column means no limit.
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

// printOne prints one thing: v with --json, otherwise the sheet.
func (a *app) printOne(v any, s *sheet) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	return a.printSheet(s)
}

// printSheet prints the sheet to stdout.
func (a *app) printSheet(s *sheet) error { return a.writeSheet(a.out, s) }

func (a *app) writeSheet(to io.Writer, s *sheet) error { return writeLines(to, s.lines(a.width())) }

// printLines prints lines to stdout.
func (a *app) printLines(lines []display.Safe) error { return writeLines(a.out, lines) }

func writeLines(to io.Writer, lines []display.Safe) error {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(string(line) + "\n")
	}
	_, err := to.Write([]byte(b.String()))
	return err
}

// behind returns how many columns remain after a margin, at least 20. It returns 0 if there is
// no limit.
func behind(margin, columns int) int {
	if columns < 1 {
		return 0
	}
	return max(columns-margin, 20)
}

// hanging wraps a line at columns columns and indents the continuation lines.
func hanging(line display.Safe, columns, indent int) []display.Safe {
	parts := display.Wrap(line, behind(indent, columns))
	for i := range parts[1:] {
		parts[i+1] = display.Safe(strings.Repeat(" ", indent)) + parts[i+1]
	}
	return parts
}
