package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// processJSON is a shim and its server as --json shows them.
type processJSON struct {
	Attachment string     `json:"attachment"`
	Server     string     `json:"server"`
	Launch     string     `json:"launch"` // hex SHA-256 over the resolved command and its arguments
	Command    []string   `json:"command"`
	Session    string     `json:"session,omitempty"`
	Agent      string     `json:"agent,omitempty"`
	Profile    string     `json:"profile"`
	ShimPID    int32      `json:"shim_pid"`
	ServerPID  int32      `json:"server_pid"`
	Since      *time.Time `json:"since,omitempty"`
	Judged     uint64     `json:"judged"`
	Denied     uint64     `json:"denied"`
	Pending    uint32     `json:"pending"` // held for a person
	Build      string     `json:"build"`
	Detached   bool       `json:"detached,omitempty"` // its stream tore; it may come back
}

func processToJSON(p *pb.Process) processJSON {
	return processJSON{
		Attachment: p.GetAttachment(), Server: p.GetServer(), Launch: p.GetLaunch(), Command: list(p.GetCommand()),
		Session: p.GetSession(), Agent: p.GetAgent(), Profile: p.GetProfile(), ShimPID: p.GetShimPid(),
		ServerPID: p.GetServerPid(), Since: stamp(p.GetSince()), Judged: p.GetJudged(), Denied: p.GetDenied(),
		Pending: p.GetPending(), Build: p.GetBuild(), Detached: p.GetDetached(),
	}
}

func (a *app) psCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List the servers that are governed now",
		Long: `List the MCP servers that are governed now: since when, how many messages were
judged and denied, how many are held, and what was started.`,
		Example: `  $ tgctl ps
  $ tgctl ps --json | jq -r 'select(.denied > 0) | .server'`,
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
				a.say("No server is governed now.")
				return nil
			}
			return a.processTable(processes).Write(a.out, a.width())
		},
	}
	jsonFlag(cmd, &asJSON, processJSON{})
	return cmd
}

func (a *app) processTable(processes []*pb.Process) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "SERVER", Shrink: 8}, {Head: "AGENT", Shrink: 8}, {Head: "PROFILE"}, {Head: "AGE", Right: true},
		{Head: "JUDGED", Right: true}, {Head: "DENIED", Right: true}, {Head: "HELD", Right: true},
		{Head: "SHIM", Right: true}, {Head: "PID", Right: true},
	}}
	for _, p := range processes {
		t.Add(display.Name(p.GetServer()), orDash(p.GetAgent()), display.Name(p.GetProfile()),
			display.Span(a.now().Sub(p.GetSince().AsTime())), display.Count(p.GetJudged()), display.Count(p.GetDenied()),
			display.Count(p.GetPending()), pidOrDash(p.GetShimPid()), pidOrDash(p.GetServerPid()))
		if len(p.GetCommand()) > 0 {
			t.Note(commandLine(p.GetCommand()))
		}
		if build := p.GetBuild(); build != "" && build != release {
			t.Note("its tg-shim is " + display.Name(build) + ", and tgctl " + display.Name(release))
		}
		if p.GetDetached() {
			t.Note("its connection tore; it may come back")
		}
	}
	return t
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
