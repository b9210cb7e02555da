package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) sessionsCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "sessions [flags]",
		Short: "List the running wrapped and protected agents",
		Long: `List the running wrapped agents, those that ended and whose configuration could
not be restored yet, and the protected agents that have started a server.`,
		Example: `  $ tgctl sessions
  $ tgctl sessions --json | jq -r .spec.project`,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			sessions, err := c.ListSessions(ctx)
			if err != nil {
				return err
			}
			return printList(a, sessions, nil, "No wrapped or protected agent is running. To wrap one: tgctl wrap -- COMMAND", a.sessionsTable)
		}),
	}, &pb.Session{})
}

func (a *app) sessionsTable(sessions []*pb.Session) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "AGENT", Shrink: 8}, {Head: "AGE", Right: true}, {Head: "SERVERS", Right: true},
		{Head: "PID", Right: true}, {Head: "PROFILE"}, {Head: "ID"},
	}}
	for _, s := range sessions {
		spec := s.GetSpec()
		t.Add(display.Name(spec.GetAgent()), display.Span(a.now().Sub(s.GetOpened().AsTime())),
			display.Count(s.GetAttached()), pidOrDash(s.GetPid()), orDash(pbjson.Word(spec.GetProfile())),
			display.Name(spec.GetId()))
		t.Note("in " + display.Text(spec.GetProject()) + choose(s.GetProtection() != "", ", protected: started without wrap", ""))
		for _, u := range spec.GetUngoverned() {
			t.Note(ungovernedText(u))
		}
		t.Note(choose(s.GetOrphaned(), "its wrap has ended and a configuration could not be restored: "+display.Text(s.GetProblem())+"; try `tgctl unwrap`", ""))
	}
	return t
}

// ungovernedText says that a server bypasses its session.
func ungovernedText(u *pb.UngovernedServer) display.Safe {
	return "server " + display.Name(u.GetServer()) + " in " + display.Text(u.GetPath()) +
		choose(u.GetHow() == string(agentconf.Changed), " no longer starts tg-shim", " was added while the agent was running") + " and is not governed"
}

func pidOrDash(pid int32) display.Safe {
	if pid == 0 {
		return "-"
	}
	return display.Safe(strconv.Itoa(int(pid)))
}
