package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Kinds of programs.
const (
	kindServer    = "server"  // behind a shim of its own
	kindClient    = "client"  // a shim of a server that is shared
	kindBackend   = "backend" // shared
	kindExtension = "extension"
	kindAgent     = "agent" // a headless run
)

// processJSON is a program as --json shows it. What stands after clients is told of
// shims and runs alone, but for command and since.
type processJSON struct {
	Kind       string     `json:"kind"` // server, client, backend, extension, agent
	Name       string     `json:"name"`
	ID         string     `json:"id,omitempty"`
	State      string     `json:"state"` // starting, running, degraded, restarting, failed, stopped
	StateSince *time.Time `json:"state_since,omitempty"`
	PID        int32      `json:"pid"` // 0 while none runs
	Restarts   uint32     `json:"restarts"`
	Budget     uint32     `json:"budget,omitempty"` // restarts that are left before it fails
	Next       *time.Time `json:"next,omitempty"`   // when it is started again
	Error      string     `json:"error,omitempty"`  // why it ended last, or is not well
	Mend       string     `json:"mend,omitempty"`   // what to do about it
	Memory     uint64     `json:"memory,omitempty"` // bytes, of all that it started too; left out when not known
	Twice      bool       `json:"shared_twice,omitempty"`
	Clients    uint32     `json:"clients"` // shims that share it, or runs that wait for it

	Attachment string     `json:"attachment"`
	Server     string     `json:"server"`
	Launch     string     `json:"launch"` // hex SHA-256 over the resolved command and its arguments
	Command    []string   `json:"command"`
	Session    string     `json:"session,omitempty"`
	Agent      string     `json:"agent,omitempty"`
	Profile    string     `json:"profile"`
	ShimPID    int32      `json:"shim_pid"`
	ServerPID  int32      `json:"server_pid"`
	Since      *time.Time `json:"since,omitempty"` // it is there; of what is restarted, since its first life
	Judged     uint64     `json:"judged"`
	Denied     uint64     `json:"denied"`
	Pending    uint32     `json:"pending"`                    // held for a person
	Unanswered uint32     `json:"unanswered"`                 // requests that the server has not answered for a second or longer
	Silent     *time.Time `json:"unanswered_since,omitempty"` // the oldest of them
	Build      string     `json:"build"`
}

func processToJSON(p *pb.Process) processJSON {
	return processJSON{
		Kind: kindOf(p), Name: nameOf(p), ID: p.GetId(), State: p.GetState(), StateSince: stamp(p.GetStateSince()), PID: p.GetPid(),
		Restarts: p.GetRestarts(), Budget: p.GetBudget(), Next: stamp(p.GetNext()), Error: p.GetError(), Mend: string(mendOf(p)),
		Memory: p.GetMemory(), Twice: p.GetSharedTwice(), Clients: p.GetClients(),

		Attachment: p.GetAttachment(), Server: p.GetServer(), Launch: p.GetLaunch(), Command: list(p.GetCommand()),
		Session: p.GetSession(), Agent: p.GetAgent(), Profile: p.GetProfile(), ShimPID: p.GetShimPid(),
		ServerPID: p.GetServerPid(), Since: stamp(p.GetSince()), Judged: p.GetJudged(), Denied: p.GetDenied(),
		Pending: p.GetPending(), Unanswered: p.GetUnanswered(), Silent: stamp(p.GetUnansweredSince()), Build: p.GetBuild(),
	}
}

// kindOf is the kind of a program. A daemon from before there were others tells of
// servers alone, and of no kind.
func kindOf(p *pb.Process) string {
	if p.GetKind() == "" {
		return kindServer
	}
	return p.GetKind()
}

// isShim reports whether p is a shim, with a server of its own or without.
func isShim(p *pb.Process) bool { return kindOf(p) == kindServer || kindOf(p) == kindClient }

func nameOf(p *pb.Process) string {
	if p.GetName() == "" {
		return p.GetServer()
	}
	return p.GetName()
}

func (a *app) psCmd() *cobra.Command {
	var asJSON, wide bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the programs that run under ThoughtGate, and how they are",
		Long: `List the programs that run under ThoughtGate: the servers behind shims, and what
the daemon itself keeps running: backends (servers that sessions share),
extensions, and the runs of headless agents.

  starting    it was started and has not greeted yet
  running     all is well
  degraded    it runs, and ended not long ago or fails its health check
  restarting  it has ended and is started again in a moment
  failed      it ended too often, or can't be started; nobody starts it again
  stopped     it was stopped, or nobody needs it now

A client is a shim whose server is a backend. MEMORY is that of a program and
all it has started; what several share counts in parts, or where that is not
told more than once, which a + says. FOR names the agent that a shim belongs to,
or says how many share a backend. Requests that a server has not answered for a
second or longer are counted below it; after limits.orphan (5 minutes) each is
on record as an orphan.`,
		Example: `  $ tgctl ps
  $ tgctl ps --wide
  $ tgctl ps --json | jq -r 'select(.state == "failed") | .name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			processes, err := c.ListProcesses(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				for _, p := range processes {
					if err := a.printJSON(processToJSON(p)); err != nil {
						return err
					}
				}
				return nil
			}
			if len(processes) == 0 {
				a.say("Nothing runs under ThoughtGate now.")
				return nil
			}
			if wide {
				return a.wideProcesses(processes).Write(a.out, 0)
			}
			return a.processTable(processes).Write(a.out, a.width())
		},
	}
	jsonFlag(cmd, &asJSON, processJSON{})
	cmd.Flags().BoolVarP(&wide, "wide", "w", false, "show session, profile, what was judged, shim and command as well, and cut nothing")
	return cmd
}

// processTable fits into 80 columns.
func (a *app) processTable(processes []*pb.Process) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "KIND"}, {Head: "NAME", Shrink: 8}, {Head: "STATE"}, {Head: "AGE", Right: true}, {Head: "MEMORY", Right: true},
		{Head: "RESTARTS", Right: true}, {Head: "PID", Right: true}, {Head: "FOR", Shrink: 8},
	}}
	for _, p := range processes {
		t.Add(a.processCells(p, processes)...)
		a.noteProcess(t, p)
	}
	return t
}

// wideProcesses is a table for wide terminals and for pipes, which is not cut.
func (a *app) wideProcesses(processes []*pb.Process) *display.Table {
	narrow := a.processTable(nil)
	t := &display.Table{Columns: append(narrow.Columns, []display.Column{
		{Head: "SESSION"}, {Head: "PROFILE"}, {Head: "JUDGED", Right: true}, {Head: "DENIED", Right: true}, {Head: "HELD", Right: true},
		{Head: "SHIM", Right: true}, {Head: "COMMAND"},
	}...)}
	for _, p := range processes {
		cells := append(a.processCells(p, processes), orDash(p.GetSession()[:min(8, len(p.GetSession()))]), orDash(p.GetProfile()))
		judged := []display.Safe{"-", "-", "-"}
		if isShim(p) || p.GetSession() != "" {
			judged = []display.Safe{display.Count(p.GetJudged()), display.Count(p.GetDenied()), display.Count(p.GetPending())}
		}
		t.Add(append(append(cells, judged...), pidOrDash(p.GetShimPid()), commandLine(p.GetCommand()))...)
		a.noteProcess(t, p)
	}
	return t
}

// processCells are the cells of p, one of all.
func (a *app) processCells(p *pb.Process, all []*pb.Process) []display.Safe {
	var ofSeveral display.Safe
	for _, other := range all {
		if !isShim(p) && other != p && kindOf(other) == kindOf(p) && nameOf(other) == nameOf(p) {
			ofSeveral = " " + display.Name(p.GetId())
		}
	}
	age, memory, restarts := display.Safe("-"), display.Safe("-"), display.Safe("-")
	if p.GetSince() != nil {
		age = display.Span(a.now().Sub(p.GetSince().AsTime()))
	}
	if p.GetMemory() > 0 {
		memory = display.Size(p.GetMemory())
		if p.GetSharedTwice() {
			memory += "+"
		}
	}
	if !isShim(p) {
		restarts = display.Count(p.GetRestarts())
	}
	return []display.Safe{
		display.Name(kindOf(p)), display.Name(nameOf(p)) + ofSeveral, orDash(p.GetState()), age, memory, restarts,
		pidOrDash(max(p.GetPid(), p.GetServerPid())), whoFor(p),
	}
}

// whoFor says whom a program serves.
func whoFor(p *pb.Process) display.Safe {
	switch n := p.GetClients(); {
	case kindOf(p) == kindBackend:
		return plural(n, "client", "clients")
	case kindOf(p) == kindAgent: // itself
		return "-"
	case n > 0:
		return plural(n, "call", "calls")
	}
	return orDash(p.GetAgent())
}

// noteProcess puts below a program what a person should know of it, and do.
func (a *app) noteProcess(t *display.Table, p *pb.Process) {
	why := display.Text(p.GetError())
	switch state := p.GetState(); {
	case state == "restarting" && p.GetNext() != nil:
		t.Note("is started again in " + inSeconds(p.GetNext().AsTime().Sub(a.now())) + after(why))
	case isShim(p):
	case state == "failed":
		t.Note("failed" + after(why))
	case state == "degraded":
		t.Note("is not well" + after(why))
	case why != "":
		t.Note("ended before" + after(why))
	}
	if mend := mendOf(p); mend != "" {
		t.Note(mend)
	}
	if n := p.GetPending(); n > 0 {
		t.Note(plural(n, "call is", "calls are") + " held for you; see: tgctl approvals")
	}
	if n := p.GetUnanswered(); n > 0 {
		note := plural(n, "request has", "requests have") + " no answer from the server"
		if since := p.GetUnansweredSince(); since != nil {
			note += ", the oldest for " + display.Span(a.now().Sub(since.AsTime()))
		}
		t.Note(note)
	}
	if build := p.GetBuild(); build != "" && build != release {
		t.Note("its tg-shim is " + display.Name(build) + ", and tgctl " + display.Name(release))
	}
}

func after(why display.Safe) display.Safe {
	if why == "" {
		return ""
	}
	return ": " + why
}

// inSeconds is a short wait, rounded up: nothing is about to happen in 0 s.
func inSeconds(d time.Duration) display.Safe {
	return display.Count(max(int64((d+time.Second-1)/time.Second), 1)) + " s"
}

// mendOf says what a person can do about a program that has failed.
func mendOf(p *pb.Process) display.Safe {
	if p.GetState() != "failed" || isShim(p) {
		return ""
	}
	name := shellWord(display.Name(nameOf(p)))
	switch kindOf(p) {
	case kindAgent:
		return "see: tgctl logs " + name
	case kindExtension:
		return "see what to do: tgctl ext show " + name
	}
	return "see: tgctl logs " + name + "; then: tgctl restart " + name
}

// commandLine shows a command and its arguments so that each can be told from
// the next.
func commandLine(command []string) display.Safe {
	words := make([]string, len(command))
	for i, word := range command {
		shown := string(display.Text(word))
		if shown == "" || strings.ContainsAny(shown, " '\"") {
			shown = "'" + strings.ReplaceAll(shown, "'", `'\''`) + "'"
		}
		words[i] = shown
	}
	return display.Safe(strings.Join(words, " "))
}
