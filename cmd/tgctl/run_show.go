package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// runPrinter prints the events of a run. The answer goes to standard output, everything else to
// standard error. With --json all events go to standard output, one per line.
type runPrinter struct {
	partial
	runOptions
}

// partial prints text that arrives in parts of lines to standard output, and keeps messages
// between them.
type partial struct {
	*app
	open bool // the last line has not ended yet
}

func (p *runPrinter) event(e *pb.RunEvent) error {
	if p.AsJSON {
		return p.PrintJSON(e)
	}
	switch m := e.GetEvent().(type) {
	case *pb.RunEvent_Text:
		return p.text(m.Text.GetText())
	case *pb.RunEvent_Stderr:
		p.line(m.Stderr.GetLine())
	case *pb.RunEvent_Note:
		p.tell("%s", display.Text(m.Note.GetText()))
	case *pb.RunEvent_Asked:
		p.asked(m.Asked)
	case *pb.RunEvent_Update:
		if p.verbose && m.Update.GetLine() != "" {
			p.line(fmt.Sprintf("%s: %s", display.Name(m.Update.GetKind()), display.Text(m.Update.GetLine())))
		}
	case *pb.RunEvent_Started:
		if p.verbose {
			p.tell("run %s is process %d, session %s", display.Name(m.Started.GetId()), m.Started.GetPid(), display.Name(m.Started.GetSession()))
		}
	}
	return nil
}

// text prints a part. On a terminal control characters are made visible; elsewhere the text is
// unchanged.
func (p *partial) text(text string) error {
	p.open = !strings.HasSuffix(text, "\n")
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

// asked reports a call that is held or denied.
func (p *runPrinter) asked(m *pb.RunAsked) {
	tool, reason := display.Name(m.GetTool()), display.Text(m.GetReason())
	if m.GetDenied() {
		p.tell("denied %s: %s", tool, reason)
		return
	}
	p.tell("%s waits for you (%s): %s", tool, display.Name(m.GetApproval()), reason)
}

func (p *runPrinter) tell(format string, args ...any) {
	p.endLine()
	p.PrintMessage("thoughtgate: "+format, args...)
}

// line prints one line of text that is safe for terminals.
func (p *runPrinter) line(text string) {
	p.endLine()
	_, _ = io.WriteString(p.Err, text+"\n") // a failure could be reported nowhere
}

// endLine ends the current line of output if stdout and stderr are both terminals.
func (p *partial) endLine() {
	if p.OutTerminal && p.ErrTerminal {
		p.close()
	}
}

// close ends the current line.
func (p *partial) close() {
	if p.open {
		_, _ = io.WriteString(p.Out, "\n") // a failure could be reported nowhere
		p.open = false
	}
}

func agentsTable(agents []*pb.Agent) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "AGENT", Shrink: 8}, {Head: "PROTOCOL"}, {Head: "TIMEOUT", Right: true}, {Head: "RUNNING", Right: true}, {Head: "SERVERS", Shrink: 8},
	}}
	for _, g := range agents {
		t.Add(display.Name(g.GetName()), display.Name(g.GetProtocol()), display.Span(g.GetTimeout().AsDuration()),
			display.Count(g.GetRunning()), ui.OrDash(strings.Join(g.GetServers(), ", ")))
		t.Note(ui.CommandLine(g.GetCommand()))
		t.Note(display.Text(g.GetDescription()))
	}
	return t
}
