// Package programs has the commands of tgctl for what runs under ThoughtGate: they run an agent
// headless, list the programs, show what each wrote to its standard error, and restart one.
package programs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Kinds of programs.
const (
	kindServer    = "server"  // behind a shim of its own
	kindClient    = "client"  // a shim whose server is shared
	KindRemote    = "remote"  // a shim whose server is behind an address
	KindBackend   = "backend" // a shared server
	KindExtension = "extension"
	KindAgent     = "agent" // a headless run
)

// wantsLogin is the state of a server behind an address to which a person has to log in.
const wantsLogin = "wants a login"

// WithFix adds to a process how to fix its failure.
type WithFix struct {
	Fix display.Safe `json:"fix"`
}

// app holds what these commands use.
type app struct{ *connect.App }

// IsShim reports whether p is a shim, with its own server, a shared one, or one behind an address.
func IsShim(p *pb.Process) bool {
	return p.GetKind() == kindServer || p.GetKind() == kindClient || p.GetKind() == KindRemote
}

// PSCommand returns the command ps.
func PSCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	var wide bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the programs that run under ThoughtGate, with their state",
		Long: `List the programs that run under ThoughtGate: the servers behind tg-shim, and
the programs that the daemon runs: shared servers (kind backend), extensions and
headless agents.

  starting    started, not ready yet
  running     no problems
  degraded    running, but it ended not long ago
  restarting  ended, about to be restarted
  failed      ended too often, or can't be started; not restarted
  stopped     stopped, or not needed now

A client is a tg-shim whose server is a shared one. A remote is one whose server
is behind an address; it is degraded if its last request failed, and "wants a
login" until you log in. MEMORY is that of a program and all it has started.
Shared memory is divided among the programs that share it; if the system does
not say how, it is counted for each, marked with +. FOR names the agent of a
server, or says how many sessions share it. Requests without an answer for a
second or longer are counted below their server; after limits.orphan (5 minutes)
each is recorded as an orphan.`,
		Example: `  $ tgctl ps
  $ tgctl ps --wide
  $ tgctl ps --json | jq -r 'select(.state == "failed") | .name'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			processes, err := c.ListProcesses(ctx)
			if err != nil {
				return err
			}
			if wide && !a.AsJSON && len(processes) > 0 {
				return a.wideProcesses(processes).Write(a.Out, 0, a.Paint())
			}
			return ui.PrintList(a, processes, func(p *pb.Process) any { return pbjson.Object{Message: p, More: WithFix{fixFor(p)}} },
				"No programs run under ThoughtGate. To wrap an agent: tgctl wrap -- COMMAND", a.fittingProcesses)
		}),
	}
	cmd.Flags().BoolVarP(&wide, "wide", "w", false, "also show session, profile, judged calls, tg-shim and command; truncate nothing")
	return a.WithJSON(cmd, pbjson.Object{Message: &pb.Process{}, More: WithFix{}})
}

// processTable returns a table that fits into 80 columns.
func (a *app) processTable(processes []*pb.Process) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "KIND", Repeats: true}, {Head: "NAME", Shrink: 8}, {Head: "STATE", Tone: ui.ToneOf}, {Head: "AGE", Right: true}, {Head: "MEMORY", Right: true},
		{Head: "RESTARTS", Right: true}, {Head: "PID", Right: true}, {Head: "FOR", Shrink: 8},
	}}
	for _, p := range processes {
		t.Add(a.processCells(p, processes)...)
		a.noteProcess(t, p)
	}
	return t
}

// fittingProcesses returns a table that shows as much as the terminal has room for.
func (a *app) fittingProcesses(processes []*pb.Process) *display.Table {
	if a.Width() == 0 {
		return a.processTable(processes)
	}
	return a.wideProcesses(processes)
}

// wideProcesses returns a table for wide terminals and for --wide.
func (a *app) wideProcesses(processes []*pb.Process) *display.Table {
	narrow := a.processTable(nil)
	t := &display.Table{Columns: append(narrow.Columns, []display.Column{
		{Head: "SESSION", Drop: 2}, {Head: "PROFILE", Drop: 3}, {Head: "JUDGED", Right: true, Drop: 4}, {Head: "DENIED", Right: true, Drop: 5},
		{Head: "HELD", Right: true, Drop: 5}, {Head: "SHIM", Right: true, Drop: 1}, {Head: "COMMAND", Shrink: 30, Drop: 6},
	}...)}
	for _, p := range processes {
		cells := append(a.processCells(p, processes), ui.OrDash(p.GetSession()[:min(8, len(p.GetSession()))]), ui.OrDash(p.GetProfile()))
		judged := []display.Safe{"-", "-", "-"}
		if IsShim(p) || p.GetSession() != "" {
			judged = []display.Safe{display.Count(p.GetJudged()), display.Count(p.GetDenied()), display.Count(p.GetPending())}
		}
		t.Add(append(append(cells, judged...), ui.PIDOrDash(p.GetShimPid()), ui.CommandLine(p.GetCommand()))...)
		a.noteProcess(t, p)
	}
	return t
}

// processCells returns the cells of p, which is one of all.
func (a *app) processCells(p *pb.Process, all []*pb.Process) []display.Safe {
	var ofSeveral display.Safe
	for _, other := range all {
		if !IsShim(p) && other != p && other.GetKind() == p.GetKind() && other.GetName() == p.GetName() {
			ofSeveral = " " + display.Name(p.GetId())
		}
	}
	memory := ui.Choose(p.GetMemory() > 0, display.Size(p.GetMemory())+ui.Choose(p.GetSharedTwice(), "+", ""), "-")
	restarts := ui.Choose(IsShim(p), "-", display.Count(p.GetRestarts()))
	return []display.Safe{
		display.Name(p.GetKind()), display.Name(p.GetName()) + ofSeveral, ui.OrDash(p.GetState()), a.Age(p.GetSince()), memory, restarts,
		ui.PIDOrDash(max(p.GetPid(), p.GetServerPid())), whoFor(p),
	}
}

// whoFor says whom a program serves.
func whoFor(p *pb.Process) display.Safe {
	switch n := p.GetClients(); {
	case p.GetKind() == KindBackend:
		return ui.Plural(n, "client", "clients")
	case p.GetKind() == KindAgent: // works for itself
		return "-"
	case n > 0:
		return ui.Plural(n, "call", "calls")
	}
	return ui.OrDash(p.GetAgent())
}

// noteProcess adds notes below a program: its problems, and what to do about them.
func (a *app) noteProcess(t *display.Table, p *pb.Process) {
	why := display.Text(p.GetError())
	switch state := p.GetState(); {
	case state == "restarting" && p.GetNext() != nil:
		t.NoteIn(display.Warn, "restarts in "+ui.InSeconds(p.GetNext().AsTime().Sub(a.Now()))+ui.AfterColon(why))
	case state == wantsLogin:
		t.NoteIn(display.Held, why)
	case p.GetKind() == KindRemote:
		t.NoteIn(display.Warn, ui.Choose(why != "", "its last request failed"+ui.AfterColon(why), ""))
	case IsShim(p):
	case state == "failed":
		t.NoteIn(display.Deny, "failed"+ui.AfterColon(why))
	case state == "degraded":
		t.NoteIn(display.Warn, "degraded"+ui.AfterColon(why))
	case why != "":
		t.Note("ended before" + ui.AfterColon(why))
	}
	t.Note(fixFor(p))
	t.NoteIn(display.Held, ui.Some(p.GetPending(), "call is", "calls are", " held for you; see: tgctl approvals"))
	since := p.GetUnansweredSince()
	t.Note(ui.Some(p.GetUnanswered(), "request has", "requests have", " no answer from the server"+ui.Choose(since != nil, ", the oldest for "+a.Age(since), "")))
	if build := p.GetBuild(); build != "" && build != ui.Release {
		t.Note("its tg-shim is " + display.Name(build) + ", but tgctl is " + display.Name(ui.Release))
	}
}

// fixFor says how to fix a program that has failed, or wants a login.
func fixFor(p *pb.Process) display.Safe {
	if p.GetState() == wantsLogin {
		return "log in with: " + ui.LoginCommand(p.GetName())
	}
	if p.GetState() != "failed" || IsShim(p) {
		return ""
	}
	name := ui.ShellWord(display.Name(p.GetName()))
	switch p.GetKind() {
	case KindAgent:
		return "see: tgctl logs " + name
	case KindExtension:
		return "see: tgctl ext show " + name
	}
	return "see: tgctl logs " + name + "; then: tgctl restart " + name
}
