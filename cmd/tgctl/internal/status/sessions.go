package status

import (
	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// SessionsCommand returns the command sessions.
func SessionsCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	return a.WithJSON(&cobra.Command{
		Use:   "sessions [flags]",
		Short: "List the running wrapped and protected agents",
		Long: `List the running wrapped agents, those that ended and whose configuration could
not be restored yet, the protected agents that have started a server or run a
hook, and those that ended and have used tools that no hook reported.`,
		Example: `  $ tgctl sessions
  $ tgctl sessions --json | jq -r .spec.project`,
		RunE: connect.PrintListed(a.App, (*client.Client).ListSessions, nil,
			"No wrapped or protected agent is running. To wrap one: tgctl wrap -- COMMAND", a.sessionsTable),
	}, &pb.Session{})
}

func (a *app) sessionsTable(sessions []*pb.Session) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "AGENT", Shrink: 8}, {Head: "AGE", Right: true}, {Head: "SERVERS", Right: true},
		{Head: "PID", Right: true, Drop: 1}, {Head: "PROFILE", Drop: 2}, {Head: "ID"},
	}}
	for _, s := range sessions {
		spec := s.GetSpec()
		t.Add(display.Name(spec.GetAgent()), a.Age(s.GetOpened()),
			display.Count(s.GetAttached()), ui.PIDOrDash(s.GetPid()), ui.OrDash(pbjson.Word(spec.GetProfile())),
			display.Name(spec.GetId()))
		t.Note("in " + display.Text(spec.GetProject()) + ui.Choose(s.GetProtection() != "", ", protected: started without wrap", ""))
		t.Note(ui.Some(s.GetRemote(), "server is", "servers are", " behind an address; see: tgctl ps"))
		t.Note(ui.Choose(s.GetEnded() != nil, "it has ended "+ui.Ago(s.GetEnded().AsTime(), a.Now()), ""))
		t.NoteIn(display.Warn, ui.Choose(s.GetHooksSilent(), noHook, ""))
		for _, u := range s.GetUnseen() {
			t.NoteIn(display.Warn, display.Text(u.GetText()))
		}
		for _, u := range spec.GetUngoverned() {
			t.NoteIn(display.Deny, ungovernedText(u))
		}
		t.NoteIn(display.Deny, ui.Choose(s.GetOrphaned(), "its wrap has ended and a configuration could not be restored: "+display.Text(s.GetProblem())+"; try `tgctl unwrap`", ""))
	}
	return t
}

// noHook says that an agent has not run any of its hooks.
const noHook display.Safe = "tools: no hook has run yet"

// ungovernedText says that a server bypasses its session.
func ungovernedText(u *pb.UngovernedServer) display.Safe {
	return "server " + display.Name(u.GetServer()) + " in " + display.Text(u.GetPath()) +
		ui.Choose(u.GetHow() == string(agentconf.Changed), " no longer starts tg-shim", " was added while the agent was running") + " and is not governed"
}

// SessionsTable lists sessions as the command sessions does.
func SessionsTable(c *connect.App, sessions []*pb.Session) *display.Table {
	return (&app{c}).sessionsTable(sessions)
}
