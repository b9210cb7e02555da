package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// runPrinter prints the events of a run: the answer to standard output, all else to
// standard error; or with --json everything as lines.
func (a *app) runPrinter(o runOptions) *runPrinter { return &runPrinter{partial{app: a}, o} }

type runPrinter struct {
	partial
	runOptions
}

// partial prints text that comes in parts of lines to standard output, and talk between
// them.
type partial struct {
	*app
	open bool // the last line has no end yet
}

func (p *runPrinter) event(e *pb.RunEvent) error {
	if p.asJSON {
		return p.printJSON(e)
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

// text prints a part: on a terminal with what that would act on made visible, elsewhere as
// it is.
func (p *partial) text(text string) error {
	p.open = !strings.HasSuffix(text, "\n")
	if p.outTerminal {
		text = visible(text)
	}
	_, err := io.WriteString(p.out, text)
	return err
}

// visible is text of several lines for a terminal, with its line ends and tabs.
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

// asked tells what waits, and what was refused.
func (p *runPrinter) asked(m *pb.RunAsked) {
	tool, reason := display.Name(m.GetTool()), display.Text(m.GetReason())
	if m.GetDenied() {
		p.tell("refused %s: %s", tool, reason)
		return
	}
	p.tell("%s waits for you (%s): %s", tool, display.Name(m.GetApproval()), reason)
}

func (p *runPrinter) tell(format string, args ...any) {
	p.endLine()
	p.say("thoughtgate: "+format, args...)
}

// line prints one line of talk that is safe already.
func (p *runPrinter) line(text string) {
	p.endLine()
	_, _ = io.WriteString(p.err, text+"\n") // there is nobody else to tell
}

// endLine keeps talk off the last line where both are on one terminal.
func (p *partial) endLine() {
	if p.outTerminal && p.errTerminal {
		p.close()
	}
}

// close ends the last line.
func (p *partial) close() {
	if p.open {
		_, _ = io.WriteString(p.out, "\n") // there is nobody else to tell
		p.open = false
	}
}

// listAgents prints the agents that can be run.
func (a *app) listAgents(ctx context.Context, c *client.Client, _ []string) error {
	agents, err := c.ListAgents(ctx)
	if err != nil {
		return err
	}
	return printList(a, agents, nil, "The configuration names no agents. Write them under agents: in thoughtgate.yaml, then tgctl daemon reload.", agentsTable)
}

func agentsTable(agents []*pb.Agent) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "AGENT", Shrink: 8}, {Head: "PROTOCOL"}, {Head: "TIMEOUT", Right: true}, {Head: "RUNNING", Right: true}, {Head: "SERVERS", Shrink: 8},
	}}
	for _, g := range agents {
		t.Add(display.Name(g.GetName()), display.Name(g.GetProtocol()), display.Span(g.GetTimeout().AsDuration()),
			display.Count(g.GetRunning()), orDash(strings.Join(g.GetServers(), ", ")))
		t.Note(commandLine(g.GetCommand()))
		t.Note(display.Text(g.GetDescription()))
	}
	return t
}
