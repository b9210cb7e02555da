package ui

import (
	"io"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Partial prints text that arrives in parts of lines to standard output, and keeps messages
// between them.
type Partial struct {
	*App
	Open bool // the last line has not ended yet
}

// PrintPart prints a part. On a terminal control characters are made visible; elsewhere the text is
// unchanged.
func (p *Partial) PrintPart(text string) error {
	p.Open = !strings.HasSuffix(text, "\n")
	if p.OutTerminal {
		text = visible(text)
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// visible makes the control characters in text visible, except line ends and tabs.
func visible(text string) string {
	var b strings.Builder
	for piece := range strings.SplitAfterSeq(text, "\n") {
		for part := range strings.SplitAfterSeq(piece, "\t") {
			end := part[len(strings.TrimRight(part, "\t\n")):]
			b.WriteString(string(display.Text(strings.TrimSuffix(part, end))) + end)
		}
	}
	return b.String()
}

// EndLine ends the current line of output if stdout and stderr are both terminals.
func (p *Partial) EndLine() {
	if p.OutTerminal && p.ErrTerminal {
		p.Close()
	}
}

// Close ends the current line.
func (p *Partial) Close() {
	if p.Open {
		_, _ = io.WriteString(p.Out, "\n") // a failure could be reported nowhere
		p.Open = false
	}
}
