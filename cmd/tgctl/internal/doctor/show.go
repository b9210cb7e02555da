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
	return x.PrintLines(append(lines, "", x.summary()))
}

func (x *examination) findingLines(f finding) []display.Safe {
	left := severityColumns + partColumns
	room := ui.Behind(left, x.Width())
	head := fmt.Sprintf("%-*s%-*s", severityColumns, f.Severity, partColumns, partOf(f.ID))
	var lines []display.Safe
	add := func(text display.Safe) {
		for _, part := range display.Wrap(text, room) {
			lines = append(lines, display.Safe(head)+part)
			head = strings.Repeat(" ", left)
		}
	}
	add(display.Text(x.TildeIn(f.What)))
	if f.Severity != gradeOK {
		fix := f.Fix
		if !strings.Contains(fix, "'") { // a shell does not expand ~ in quotes
			fix = x.TildeIn(fix)
		}
		add("fix: " + display.Text(fix))
		add("id:  " + display.Text(f.ID))
	}
	return lines
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
