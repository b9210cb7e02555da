package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// FieldsNote is the annotation of a command that lists the members of its --json output.
const FieldsNote = "json-fields"

// WithJSON adds the flag --json, which prints objects like samples, to a command and returns it.
// The command's help lists their members.
func (a *App) WithJSON(cmd *cobra.Command, samples ...any) *cobra.Command {
	cmd.Flags().BoolVar(&a.AsJSON, "json", false, "print JSON, one object a line")
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[FieldsNote] = strings.Join(pbjson.Members(samples...), "\n")
	return cmd
}

// FieldsTitle returns the title above the members of --json.
func FieldsTitle(fields string) string {
	if strings.Contains(fields, "?") {
		return "Members of --json; one with a ? is left out when it has no value:"
	}
	return "Members of --json:"
}

// PrintJSON prints v as one line of JSON, see [pbjson.Marshal].
func (a *App) PrintJSON(v any) error {
	line, err := pbjson.Marshal(v)
	if err != nil {
		return err
	}
	return a.PrintLine(line)
}

// PrintList prints a list. With --json it prints one line for each element, converted with line
// unless that is nil. Otherwise it prints a table, or the text none if the list is empty.
func PrintList[T any](h Holder, all []T, line func(T) any, none string, table func([]T) *display.Table) error {
	switch a := h.app(); {
	case a.AsJSON && line == nil:
		return PrintAllJSON(a, all)
	case a.AsJSON:
		return PrintAllJSON(a, Map(all, line))
	case len(all) > 0:
		return a.PrintTable(table(all))
	case none != "":
		a.PrintText(none)
	}
	return nil
}

// PrintTable prints a table that fits the screen.
func (a *App) PrintTable(t *display.Table) error { return t.Write(a.Out, a.Width(), a.Paint()) }

// PrintAllJSON prints a line of JSON for each element of all.
func PrintAllJSON[T any](h Holder, all []T) error {
	a := h.app()
	for _, v := range all {
		if err := a.PrintJSON(v); err != nil {
			return err
		}
	}
	return nil
}

// PrintLine prints one line of JSON. On a terminal, characters that could control it are
// escaped as JSON escapes; elsewhere the bytes are unchanged.
func (a *App) PrintLine(line []byte) error {
	if a.OutTerminal {
		line = []byte(display.EscapeJSON(line))
	}
	_, err := a.Out.Write(append(line, '\n'))
	return err
}

// PrintMessage prints a message for a person.
func (a *App) PrintMessage(format string, args ...any) {
	a.PrintText(fmt.Sprintf(format, args...))
}

// PrintNext says below what was printed on a terminal what a person can do next.
func (a *App) PrintNext(text string) {
	if a.OutTerminal && a.ErrTerminal && !a.AsJSON {
		a.PrintText("\n" + text)
	}
}

// PrintText prints text to stderr. If that is a terminal, lines are wrapped between words; otherwise
// they stay as they are.
func (a *App) PrintText(text string) {
	_ = WriteLines(a.Err, Folded(display.Safe(text), a.ErrColumns)) // a failure could be reported nowhere
}

// Folded wraps each line of text between words at columns columns. Less than one means no
// limit.
func Folded(text display.Safe, columns int) []display.Safe {
	var lines []display.Safe
	for line := range strings.SplitSeq(string(text), "\n") {
		lines = append(lines, display.Wrap(display.Safe(line), columns)...)
	}
	return lines
}

// Sheet is a list of names and values that shows one thing in full.
type Sheet struct {
	Names  []string
	Values []display.Safe
	Tones  []display.Tone
}

// Add appends values under a name. A value may have several lines; empty values are skipped.
func (s *Sheet) Add(name string, values ...display.Safe) { s.AddIn(display.Plain, name, values...) }

// AddIn is Add for values in a tone.
func (s *Sheet) AddIn(tone display.Tone, name string, values ...display.Safe) {
	for _, value := range values {
		if value != "" {
			s.Names = append(s.Names, name)
			s.Values = append(s.Values, value)
			s.Tones = append(s.Tones, tone)
		}
	}
}

// From returns the sheet without its first n values.
func (s *Sheet) From(n int) *Sheet { return &Sheet{s.Names[n:], s.Values[n:], s.Tones[n:]} }

// Lines returns the text of [Sheet.Toned].
func (s *Sheet) Lines(columns int) []display.Safe {
	return Map(s.Toned(columns), func(l Line) display.Safe { return l.Head + l.Text })
}

// Toned lays the sheet out in columns columns, with the values aligned. Long values continue on
// the next line in the same column, so text in a value cannot appear as a name. Less than one
// column means no limit.
func (s *Sheet) Toned(columns int) []Line {
	left := 0
	for _, name := range s.Names {
		left = max(left, len(name)+2)
	}
	room := Behind(left, columns)
	var lines []Line
	for i, name := range s.Names {
		for line := range strings.SplitSeq(string(s.Values[i]), "\n") {
			for _, part := range display.Wrap(display.Safe(line), room) {
				part = display.Safe(strings.TrimRight(string(part), " "))
				head := fmt.Sprintf("%-*s", left, name)
				if part == "" {
					head = strings.TrimRight(head, " ")
				}
				lines = append(lines, Line{display.Safe(head), part, s.Tones[i]})
				name = "" // only the first line has it
			}
		}
	}
	return lines
}

// PrintOne prints one thing: v with --json, otherwise the sheet.
func (a *App) PrintOne(v any, s *Sheet) error {
	if a.AsJSON {
		return a.PrintJSON(v)
	}
	return a.PrintSheet(s)
}

// PrintSheet prints the sheet to stdout, as wide as the screen.
func (a *App) PrintSheet(s *Sheet) error { return a.PrintToned(s.Toned(a.Width())) }

// PrintLines prints lines to stdout.
func (a *App) PrintLines(lines []display.Safe) error { return WriteLines(a.Out, lines) }

// Line is a line of text in a tone, behind a head that is faint.
type Line struct {
	Head, Text display.Safe
	Tone       display.Tone
}

// InTone returns lines in a tone.
func InTone(tone display.Tone, lines ...display.Safe) []Line {
	return Map(lines, func(text display.Safe) Line { return Line{"", text, tone} })
}

// Painted returns lines as paint colours them.
func Painted(paint display.Paint, lines []Line) []display.Safe {
	return Map(lines, func(l Line) display.Safe {
		return display.Safe(paint.In(display.Faint, string(l.Head)) + paint.In(l.Tone, string(l.Text)))
	})
}

// PrintToned prints lines with their colours to stdout.
func (a *App) PrintToned(lines []Line) error { return a.PrintLines(Painted(a.Paint(), lines)) }

// DiffTone returns the tone of a line of a diff.
func DiffTone(line string) display.Tone {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return display.Strong
	case strings.HasPrefix(line, "+"):
		return display.OK
	case strings.HasPrefix(line, "-"):
		return display.Deny
	case strings.HasPrefix(line, "@@"):
		return display.Faint
	}
	return display.Plain
}

// PrintDiff prints a unified diff to stdout: on a terminal without characters that could control it, and in
// colour; elsewhere as it is, so that it can be applied.
func (a *App) PrintDiff(diff string) error {
	if !a.OutTerminal {
		_, err := io.WriteString(a.Out, diff)
		return err
	}
	diff = strings.TrimSuffix(strings.ReplaceAll(diff, "\t", "    "), "\n")
	if diff == "" {
		return nil
	}
	return a.PrintToned(Map(strings.Split(diff, "\n"), func(line string) Line { return Line{"", display.Text(line), DiffTone(line)} }))
}

// WriteLines writes lines in one call of Write.
func WriteLines(to io.Writer, lines []display.Safe) error {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(string(line) + "\n")
	}
	_, err := to.Write([]byte(b.String()))
	return err
}

// Behind returns how many columns remain after a margin, at least 20. It returns 0 if there is
// no limit.
func Behind(margin, columns int) int {
	if columns < 1 {
		return 0
	}
	return max(columns-margin, 20)
}

// Hanging wraps a line at columns columns and indents the continuation lines.
func Hanging(line display.Safe, columns, indent int) []display.Safe {
	parts := display.Wrap(line, Behind(indent, columns))
	for i := range parts[1:] {
		parts[i+1] = display.Safe(strings.Repeat(" ", indent)) + parts[i+1]
	}
	return parts
}
