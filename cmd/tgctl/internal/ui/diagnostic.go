package ui

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxSourceBytes limits how much of a file is read to show its lines, in bytes.
const maxSourceBytes = 4 << 20

// Severity returns the severity of d as a word; error if it has none.
func Severity(d *pb.Diagnostic) string {
	return cmp.Or(pbjson.Word(d.GetSeverity()), "error")
}

// CountErrors returns how many of the diagnostics are errors.
func CountErrors(diagnostics []*pb.Diagnostic) int {
	return len(Filter(diagnostics, func(d *pb.Diagnostic) bool { return Severity(d) != "warning" }))
}

// DiagnosticsOf returns the diagnostics in an error of the daemon about a configuration
// or a manifest.
func DiagnosticsOf(err error) []*pb.Diagnostic {
	if bad, ok := errors.AsType[*client.Error](err); ok {
		return bad.Diagnostics
	}
	return nil
}

// sources caches the lines of files that diagnostics point into.
type sources map[string][]string

// of returns the lines of a file, none if the file can't be read.
func (s sources) of(path string) []string {
	if _, ok := s[path]; !ok {
		s[path] = ReadLines(path)
	}
	return s[path]
}

// ReadLines returns the lines of a file, none if it can't be read. Of a long file it returns the
// beginning.
func ReadLines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSourceBytes))
	if err != nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")
}

// PrintDiagnostics prints each diagnostic like a compiler: the position, the message, the
// line with a mark below the column, and a hint.
func PrintDiagnostics(w io.Writer, diagnostics []*pb.Diagnostic, columns int) error {
	files := sources{}
	var b strings.Builder
	for _, d := range diagnostics {
		b.WriteString(diagnosticText(d, files, columns))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func diagnosticText(d *pb.Diagnostic, files sources, columns int) string {
	var b strings.Builder
	if d.GetFile() != "" {
		b.WriteString(string(display.Text(d.GetFile())) + ":")
		if d.GetLine() > 0 {
			fmt.Fprintf(&b, "%d:%d:", d.GetLine(), max(d.GetColumn(), 1))
		}
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "%s: %s", Severity(d), display.Text(d.GetMessage()))
	if d.GetId() != "" {
		fmt.Fprintf(&b, " [%s]", display.Name(d.GetId()))
	}
	b.WriteByte('\n') // not wrapped: other programs parse this line
	if n, lines := int(d.GetLine()), files.of(d.GetFile()); 0 < n && n <= len(lines) {
		b.WriteString(excerpt(lines[n-1], n, int(d.GetColumn()), columns))
	}
	if d.GetHint() != "" {
		for _, part := range Hanging("  hint: "+display.Text(d.GetHint()), columns, 4) {
			b.WriteString(string(part) + "\n")
		}
	}
	return b.String()
}

// excerpt shows a line of a file with a mark below a column. If the line is wider than
// the screen, it shows only the part around the mark.
func excerpt(line string, number, column, columns int) string {
	margin := fmt.Sprintf("%6d | ", number)
	runes := []rune(strings.ReplaceAll(line, "\t", " ")) // a tab is one character, and one column here
	at := min(max(column-1, 0), len(runes))
	before, after := display.Text(string(runes[:at])), display.Text(string(runes[at:]))
	if columns > 0 {
		room := max(columns-len(margin), 40)
		if skip := display.Width(before) - room/2; skip > 0 && display.Width(before+after) > room {
			for cut := 0; cut < at && display.Width(before) > room/2; cut++ {
				before = "…" + display.Text(string(runes[cut+1:at]))
			}
		}
		after = display.Fit(after, room-display.Width(before))
	}
	blank := strings.Repeat(" ", len(margin)-2) + "| "
	return margin + string(before+after) + "\n" + blank + strings.Repeat(" ", display.Width(before)) + "^\n"
}
