package daemon

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/service"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// daemonJSON is what `daemon status --json` prints.
type daemonJSON struct {
	Running bool   `json:"running"`
	Version string `json:"version"`
	Tgctl   string `json:"tgctl"` // version of this program
	PID     int32  `json:"pid"`   // of the daemon that answered
	Why     string `json:"why"`   // why no service manager can be used
	service.State
}

func (a *app) statusCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show how the daemon is run",
		Long: `Show whether the daemon is running, its version, what starts it, from which unit
or property list, and how often it was restarted. For what it governs, see
"tgctl status". Never starts the daemon; exits 3 if it is not running.`,
		Example: `  $ tgctl daemon status
  $ tgctl daemon status --json | jq .restarts`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, st, none := a.Service(cmd.Context())
			s, err := a.statusUnlessAsleep(cmd.Context(), st)
			if !a.AsJSON {
				return errors.Join(a.PrintSheet(a.sheet(s, st, none)), err)
			}
			j := daemonJSON{Running: s != nil, Version: s.GetBuild(), Tgctl: ui.Release, PID: s.GetPid(), State: st}
			if none != nil {
				j.Why = none.Error()
			}
			if errors.Is(err, client.ErrNotRunning) {
				err = &ui.ExitError{Code: ui.ExitNotRunning}
			}
			return errors.Join(a.PrintJSON(j), err)
		},
	}, daemonJSON{})
}

// statusUnlessAsleep requests the daemon's status, unless that would start it: the
// service manager may hold its sockets while it does not run.
func (a *app) statusUnlessAsleep(ctx context.Context, st service.State) (*pb.StatusResponse, error) {
	if st.Active && st.PID == 0 {
		return nil, client.ErrNotRunning
	}
	return a.Status(ctx)
}

func (a *app) sheet(s *pb.StatusResponse, st service.State, none error) *ui.Sheet {
	out := &ui.Sheet{}
	switch {
	case s != nil:
		AddRunning(a.App, out, s, "")
	case st.PID != 0:
		out.AddIn(display.Deny, "daemon", "pid "+display.Safe(strconv.Itoa(st.PID))+" DOES NOT ANSWER; if this persists: tgctl daemon restart")
	case st.Active:
		out.Add("daemon", "not running; "+display.Text(st.Manager)+" starts it on the first connection")
	default:
		out.AddIn(display.Warn, "daemon", "not running")
	}
	switch {
	case none != nil:
		out.Add("manager", display.Text(none.Error()))
		if why, ok := errors.AsType[*service.Error](none); ok {
			out.Add("", display.Text(why.Hint))
		}
		a.addKeeper(out, s != nil)
		return out
	case !st.Installed():
		out.Add("manager", display.Text(st.Manager)+", where the daemon is not installed; to install it: tgctl daemon install")
		a.addKeeper(out, s != nil)
		return out
	}
	out.Add("manager", display.Text(st.Manager)+", "+display.Text(st.Detail)+
		ui.Choose(st.Enabled, ", started at login", ", not started at login; to enable that: tgctl daemon install"))
	if s != nil && (st.PID == 0 || !connect.StartedBy(s.GetPid(), st.PID)) {
		out.Add("", "the running daemon was not started by "+display.Text(st.Manager)+"; to change that: tgctl daemon restart")
	}
	out.Add("", ui.Choose(st.Restarts > 0, "restarted "+ui.Plural(uint32(st.Restarts), "time", "times")+" after a failure", ""))
	out.Add("definition", display.Text(st.Definition)+", "+ui.Choose(st.Ours, "written by `tgctl daemon install`", "from a package or `make install`"))
	out.Add("program", display.Text(st.Program))
	out.Add("", ui.Choose(st.Lingers, "", "ends when you log out; to keep it running: loginctl enable-linger"))
	out.Add("log", display.Text(st.Log))
	return out
}

// AddRunning adds since when the daemon runs, followed by more, and its version.
func AddRunning(a *connect.App, s *ui.Sheet, st *pb.StatusResponse, more display.Safe) {
	s.AddIn(display.OK, "daemon", "running since "+a.Moment(st.GetStarted())+", pid "+ui.PIDOrDash(st.GetPid())+more)
	s.Add("version", display.Name(st.GetBuild()))
	if what := connect.VersionSkew(st.GetBuild()); what != "" {
		s.AddIn(display.Warn, "", what)
		a.Skew.SuppressNotice() // do not repeat it below
	}
}
