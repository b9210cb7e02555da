package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) statusCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state of the daemon, the configuration and the agents",
		Long: `Show whether the daemon is running, which configuration is in force, what is
active, and what is wrong; then the agents found, which of their servers are
governed and why others are not, and leftovers of earlier runs, each with the
command that fixes it. Never starts the daemon; exits 3 if it is not running.`,
		Example: `  $ tgctl status
  $ tgctl status --json | jq .pending`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, around, err := a.statusAndAround(cmd.Context())
			if err != nil && !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			around.Folders = list(a.folderTroubles(st.GetAuditDir()))
			if a.asJSON {
				if err != nil {
					st, err = &pb.StatusResponse{}, &exitError{code: exitNotRunning}
				}
				return errors.Join(a.printJSON(pbjson.Object{Message: st, More: *around}), err)
			}
			sheet := &sheet{}
			if err == nil {
				sheet = a.statusSheet(st)
			}
			sheet.add("folder", each(around.Folders, display.Text)...)
			a.addAgents(sheet, around)
			return errors.Join(a.printSheet(sheet), err)
		},
	}, pbjson.Object{Message: &pb.StatusResponse{}, More: surroundingsSample})
}

// statusAndAround asks a running daemon for its status, and inspects the agents. If no daemon
// is running, the error is client.ErrNotRunning and around is still valid.
func (a *app) statusAndAround(ctx context.Context) (st *pb.StatusResponse, around *surroundings, err error) {
	c, missing := a.dialRunning(ctx)
	switch {
	case missing == nil:
		defer c.Close()
		if st, err = c.Status(ctx); err != nil {
			return nil, nil, err
		}
	case !errors.Is(missing, client.ErrNotRunning):
		return nil, nil, missing
	}
	around, err = a.surroundings(ctx, c, st.GetBuild())
	return st, around, cmp.Or(err, missing)
}

// status asks a running daemon for its status.
func (a *app) status(ctx context.Context) (*pb.StatusResponse, error) {
	c, err := a.dialRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

// addRunning adds since when the daemon runs, followed by more, and its version.
func (a *app) addRunning(s *sheet, st *pb.StatusResponse, more display.Safe) {
	s.add("daemon", "running since "+a.moment(st.GetStarted())+", pid "+pidOrDash(st.GetPid())+more)
	s.add("version", display.Name(st.GetBuild()))
	if what := versionSkew(st.GetBuild()); what != "" {
		s.add("", what)
		a.skew.suppressNotice() // do not repeat it below
	}
}

func (a *app) statusSheet(st *pb.StatusResponse) *sheet {
	s := &sheet{}
	a.addRunning(s, st, choose(st.GetActivated(), ", sockets from the service manager", ""))
	s.add("", some(st.GetOtherShims(), "server is", "servers are", " governed by a tg-shim of another version until the agent is restarted; see: tgctl ps"))
	a.addSet(s, st.GetSet())
	for _, f := range st.GetProjects() {
		s.add("project", display.Text(f.GetPath())+choose(len(f.GetProblems()) > 0,
			" IS INVALID, so every call in the project is denied; see: tgctl policy check "+display.Text(f.GetPath()),
			": "+plural(f.GetRules(), "rule", "rules")+" of the repository, which can only add restrictions"))
	}
	if failure := st.GetReloadFailure(); failure != "" {
		s.add("reload", "failed "+display.Span(a.now().Sub(st.GetReloadFailed().AsTime()))+" ago, so the configuration above stays in force: "+display.Text(failure))
	}
	s.add("sessions", display.Count(st.GetSessions())+" open, "+plural(st.GetAttachments(), "server", "servers")+" governed")
	s.add("", some(st.GetUngoverned(), "server runs", "servers run", " UNGOVERNED in an open session; see: tgctl sessions"))
	addKept(s, st.GetKept())
	s.add("questions", choose(st.GetPending() > 0, display.Count(st.GetPending())+" waiting; see: tgctl approvals", "none waiting"))
	s.add("presence", presenceLine(st.GetPresence()))
	s.add("tools", some(st.GetHeldDefinitions(), "definition is", "definitions are", " waiting for you; see: tgctl tools --waiting"))
	s.add("servers", some(st.GetWithheldStarts(), "server of a project is", "servers of projects are", " withheld until accepted; see: tgctl servers"))
	s.add("record", display.Text(st.GetAuditDir())+", "+plural(st.GetAuditSeq(), "record", "records"))
	if failure := st.GetAuditFailure(); failure != "" {
		s.add("", "NOTHING CAN BE RECORDED, so every governed call is denied: "+display.Text(failure))
	}
	s.add("sockets", display.Text(st.GetControlSocket()))
	s.add("", display.Text(st.GetShimSocket()))
	s.add("warning", each(st.GetWarnings(), display.Text)...)
	return s
}
