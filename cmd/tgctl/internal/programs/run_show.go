package programs

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
	ui.Partial
	runOptions
}

func (p *runPrinter) event(e *pb.RunEvent) error {
	if p.AsJSON {
		return p.PrintJSON(e)
	}
	switch m := e.GetEvent().(type) {
	case *pb.RunEvent_Text:
		return p.PrintPart(m.Text.GetText())
	case *pb.RunEvent_Stderr:
		p.line(m.Stderr.GetLine())
	case *pb.RunEvent_Note:
		p.message("%s", display.Text(m.Note.GetText()))
	case *pb.RunEvent_Asked:
		p.asked(m.Asked)
	case *pb.RunEvent_Update:
		if p.verbose && m.Update.GetLine() != "" {
			p.line(fmt.Sprintf("%s: %s", display.Name(m.Update.GetKind()), display.Text(m.Update.GetLine())))
		}
	case *pb.RunEvent_Started:
		if p.verbose {
			p.message("run %s is process %d, session %s", display.Name(m.Started.GetId()), m.Started.GetPid(), display.Name(m.Started.GetSession()))
		}
	}
	return nil
}

// asked reports a call that is held or denied.
func (p *runPrinter) asked(m *pb.RunAsked) {
	tool, reason := display.Name(m.GetTool()), display.Text(m.GetReason())
	if m.GetDenied() {
		p.message("denied %s: %s", tool, reason)
		return
	}
	p.message("%s waits for you (%s): %s", tool, display.Name(m.GetApproval()), reason)
}

func (p *runPrinter) message(format string, args ...any) {
	p.EndLine()
	p.PrintMessage("thoughtgate: "+format, args...)
}

// line prints one line of text that is safe for terminals.
func (p *runPrinter) line(text string) {
	p.EndLine()
	_, _ = io.WriteString(p.Err, text+"\n") // a failure could be reported nowhere
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
