package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Column widths of the output of doctor.
const (
	severityColumns = 6
	partColumns     = 11
)

// print prints the findings: the severity, the part and the text, and below that the fix
// and the id.
func (x *examination) print() error {
	if x.AsJSON {
		return ui.PrintAllJSON(x, x.found)
	}
	lines := slices.Concat(ui.Map(x.found, x.findingLines)...)
	return x.PrintLines(append(lines, "", x.painted(x.summaryTone(), x.summary())))
}

func (x *examination) findingLines(f finding) []display.Safe {
	left := severityColumns + partColumns
	room := ui.Behind(left, x.Width())
	severity := display.Safe(fmt.Sprintf("%-*s", severityColumns, f.Severity))
	head := x.painted(ui.ToneOf(severity), severity) + display.Safe(fmt.Sprintf("%-*s", partColumns, partOf(f.ID)))
	var lines []display.Safe
	add := func(tone display.Tone, text display.Safe) {
		for _, part := range display.Wrap(text, room) {
			lines = append(lines, head+x.painted(tone, part))
			head = display.Safe(strings.Repeat(" ", left))
		}
	}
	add(display.Plain, display.Text(x.TildeIn(f.What)))
	if f.Severity != gradeOK {
		fix := f.Fix
		if !strings.Contains(fix, "'") { // a shell does not expand ~ in quotes
			fix = x.TildeIn(fix)
		}
		add(display.Plain, "fix: "+display.Text(fix))
		add(display.Faint, "id:  "+display.Text(f.ID))
	}
	return lines
}

// painted returns text in the colour of a tone, if the output has colours.
func (x *examination) painted(tone display.Tone, text display.Safe) display.Safe {
	return display.Safe(x.Paint().In(tone, string(text)))
}

func (x *examination) summaryTone() display.Tone {
	switch {
	case x.count(gradeFail) > 0:
		return display.Deny
	case x.count(gradeWarn) > 0:
		return display.Warn
	}
	return display.OK
}

// summary counts the findings.
func (x *examination) summary() display.Safe {
	fails, warns := x.count(gradeFail), x.count(gradeWarn)
	switch {
	case fails+warns == 0:
		return "No problems found."
	case fails == 0:
		return ui.Plural(warns, "warning", "warnings") + ", no failures."
	}
	return ui.Plural(fails, "failure", "failures") + ui.Choose(warns > 0, ", "+ui.Plural(warns, "warning", "warnings"), "") + "."
}
