// Package status has the commands of tgctl that show the state of the daemon, of the agents and their
// sessions, and the metrics.
package status

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/daemon"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/fleet"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// Command returns the command status.
func Command(c *connect.App) *cobra.Command { return command(c, host.Writable, host.SpaceAt) }

// command returns the command status for a machine whose folders are examined with writable and space.
func command(c *connect.App, writable func(dir string) error, space func(path string) (host.Space, error)) *cobra.Command {
	a := &app{c}
	return a.WithJSON(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state of the daemon, the configuration and the agents",
		Long: `Show whether the daemon is running, which configuration is in force, what is
active, the calls of the last hour and day, each counted once by its end, and
what is wrong; then the agents found, which of their servers are
governed and why others are not, and leftovers of earlier runs, each with the
command that fixes it. Never starts the daemon; exits 3 if it is not running.`,
		Example: `  $ tgctl status
  $ tgctl status --json | jq .pending`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, around, err := a.statusAndAround(cmd.Context())
			if err == nil {
				around.Calls, err = a.recentCalls(cmd.Context())
			}
			if err != nil && !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			around.Folders = ui.List(a.folderTroubles(st.GetAuditDir(), writable, space))
			if a.AsJSON {
				if err != nil {
					st, err = &pb.StatusResponse{}, &ui.ExitError{Code: ui.ExitNotRunning}
				}
				return errors.Join(a.PrintJSON(pbjson.Object{Message: st, More: *around}), err)
			}
			sheet := &ui.Sheet{}
			if err == nil {
				sheet = a.statusSheet(st, around.Calls)
			}
			sheet.AddIn(display.Warn, "folder", ui.Map(around.Folders, display.Text)...)
			a.addAgents(sheet, around)
			return errors.Join(a.PrintSheet(sheet), err)
		},
	}, pbjson.Object{Message: &pb.StatusResponse{}, More: surroundingsSample})
}

// statusAndAround asks a running daemon for its status, and inspects the agents. If no daemon
// is running, the error is client.ErrNotRunning and around is still valid.
func (a *app) statusAndAround(ctx context.Context) (st *pb.StatusResponse, around *Surroundings, err error) {
	c, missing := a.DialRunning(ctx)
	switch {
	case missing == nil:
		defer c.Close()
		if st, err = c.Status(ctx); err != nil {
			return nil, nil, err
		}
	case !errors.Is(missing, client.ErrNotRunning):
		return nil, nil, missing
	}
	around, err = LookAround(ctx, a.App, c, st.GetBuild())
	return st, around, cmp.Or(err, missing)
}

// recentCalls counts the calls of the last day.
func (a *app) recentCalls(ctx context.Context) (*RecentCalls, error) {
	c, err := a.DialRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return countCalls(ctx, c, a.Now())
}

// addFleet adds which fleet the machine is in, and what its policy is.
func (a *app) addFleet(s *ui.Sheet, state *pb.FleetState) {
	if state.GetDevice() == "" {
		return
	}
	s.Add("fleet", display.Name(state.GetFleet())+", group "+display.Name(state.GetGroup()))
	line, tone := fleet.PolicyLine(a.App.App, state)
	s.AddIn(tone, "", line)
	s.AddIn(display.Deny, "", ui.Choose(state.GetFailure() != "", "a later policy was REFUSED: "+display.Text(state.GetFailure()), ""))
}

func (a *app) statusSheet(st *pb.StatusResponse, recent *RecentCalls) *ui.Sheet {
	s := &ui.Sheet{}
	daemon.AddRunning(a.App, s, st, ui.Choose(st.GetActivated(), ", sockets from the service manager", ""))
	s.Add("", ui.Some(st.GetOtherShims(), "server is", "servers are", " governed by a tg-shim of another version until the agent is restarted; see: tgctl ps"))
	policy.AddSet(s, st.GetSet())
	a.addFleet(s, st.GetFleet())
	for _, f := range st.GetProjects() {
		s.Add("project", display.Text(f.GetPath())+ui.Choose(len(f.GetProblems()) > 0,
			" IS INVALID, so every call in the project is denied; see: tgctl policy check "+display.Text(f.GetPath()),
			": "+ui.Plural(f.GetRules(), "rule", "rules")+" of the repository, which can only add restrictions"))
	}
	if failure := st.GetReloadFailure(); failure != "" {
		s.AddIn(display.Deny, "reload", "failed "+ui.Ago(st.GetReloadFailed().AsTime(), a.Now())+", so the configuration above stays in force: "+display.Text(failure))
	}
	s.Add("sessions", display.Count(st.GetSessions())+" open, "+ui.Plural(st.GetAttachments(), "server", "servers")+" governed")
	s.AddIn(display.Deny, "", ui.Some(st.GetUngoverned(), "server runs", "servers run", " UNGOVERNED in an open session; see: tgctl sessions"))
	for i, u := range st.GetUnseen() {
		again := func(later *pb.Unseen) bool { return later.GetAgent() == u.GetAgent() && later.GetText() == u.GetText() }
		if u.GetCount() == 0 && slices.ContainsFunc(st.GetUnseen()[i+1:], again) {
			continue // what keeps calls from being seen, and still does
		}
		s.AddIn(display.Warn, "unseen", display.Name(u.GetAgent())+", "+ui.Ago(u.GetAt().AsTime(), a.Now())+": "+display.Text(u.GetText()))
	}
	addKept(s, st.GetKept())
	s.AddIn(display.Held, "questions", ui.Choose(st.GetPending() > 0, display.Count(st.GetPending())+" waiting; see: tgctl approvals", ""))
	s.Add("questions", ui.Choose(st.GetPending() == 0, "none waiting", ""))
	a.addCalls(s, recent)
	s.Add("presence", approval.PresenceLine(st.GetPresence()))
	s.AddIn(display.Held, "tools", ui.Some(st.GetHeldDefinitions(), "definition is", "definitions are", " waiting for you; see: tgctl tools --waiting"))
	s.AddIn(display.Held, "servers", ui.Some(st.GetWithheldStarts(), "server of a project is", "servers of projects are", " withheld until accepted; see: tgctl servers"))
	s.Add("record", display.Text(st.GetAuditDir())+", "+ui.Plural(st.GetAuditSeq(), "record", "records"))
	if failure := st.GetAuditFailure(); failure != "" {
		s.AddIn(display.Deny, "", "NOTHING CAN BE RECORDED, so every governed call is denied: "+display.Text(failure))
	}
	s.Add("sockets", display.Text(st.GetControlSocket()))
	s.Add("", display.Text(st.GetShimSocket()))
	s.AddIn(display.Warn, "warning", ui.Map(st.GetWarnings(), display.Text)...)
	return s
}
