package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/service"
)

func (a *app) installCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "install",
		Short: "Install the daemon in the service manager and start it",
		Long: `Have your systemd user instance, or launchd on macOS, start the daemon now, at
every login and on a connection, restart it when it fails or hangs, and hold its
sockets, so that no connection fails during a restart. Units installed by a
package are used as they are. Otherwise units are written that start the
programs beside this tgctl by absolute path. Run it again after moving them.`,
		Example: `  $ tgctl daemon install
  $ tgctl daemon status`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd.Context()) },
	}
}

func (a *app) uninstallCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the daemon and remove it from the service manager",
		Long: `Stop the daemon, disable it in the service manager, and remove the files that
"tgctl daemon install" wrote. Units of a package are disabled and kept, and so
are configuration, questions and records. Commands that need the daemon then
start it without the service manager.`,
		Example: "  $ tgctl daemon uninstall",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context()) },
	}
}

// programs returns the paths of the programs that a definition starts.
func (a *app) programs() (service.Programs, error) {
	daemon, why, err := a.Lasting(connect.DaemonName)
	if err != nil {
		return service.Programs{}, err
	}
	tgctl, _, err := a.Lasting("tgctl")
	if err != nil {
		return service.Programs{}, err
	}
	if why != "" {
		a.PrintMessage("The service manager will start %s, which %s. If that path is removed, run `tgctl daemon install` again, or install ThoughtGate in a permanent location.", daemon, why)
	}
	return service.Programs{Daemon: filepath.Clean(daemon), Tgctl: filepath.Clean(tgctl)}, nil
}

func (a *app) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+connect.StartTimeout)
	defer cancel()
	m, before, err := a.Service(ctx)
	if err != nil {
		return connect.ServiceFailure("install "+connect.DaemonName, err)
	}
	if err := a.mayStop(ctx, before); err != nil {
		return err
	}
	if before.PID == 0 && !before.Active {
		// A daemon that was started without the manager must end before the manager
		// starts one.
		if err := a.stopDetached(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
			return err
		}
	}
	p, err := a.programs()
	if err != nil {
		return err
	}
	wrote, err := m.Install(ctx, p)
	for _, path := range wrote {
		a.PrintMessage("wrote %s", path)
	}
	if err != nil {
		return connect.ServiceFailure("install "+connect.DaemonName, err)
	}
	if err := StopUnmanaged(ctx, a.App, before.PID); err != nil {
		return err
	}
	if err := m.Enable(ctx); err != nil {
		return connect.ServiceFailure("install "+connect.DaemonName, err)
	}
	if before.PID != 0 && len(wrote) > 0 { // it still runs by the previous definition
		if err := m.Restart(ctx); err != nil {
			return connect.ServiceFailure("restart "+connect.DaemonName, err)
		}
	}
	return a.sayInstalled(ctx, m, p)
}

// sayInstalled reports what runs now and what may be unexpected.
func (a *app) sayInstalled(ctx context.Context, m service.Manager, p service.Programs) error {
	st, err := m.State(ctx)
	if err != nil {
		return connect.ServiceFailure("get the status of "+connect.DaemonName, err)
	}
	s, err := a.AwaitDaemon(ctx, 0, connect.NotEnded)
	if err != nil {
		return &ui.HintError{Err: err, Hint: "See: " + st.Log}
	}
	a.PrintMessage("thoughtgated %s is running (pid %d), started by %s from %s.", s.GetBuild(), s.GetPid(), st.Manager, st.Definition)
	if !st.Ours && st.Program != "" && !beside.SameProgram(st.Program, p.Daemon) {
		a.PrintMessage("tgctl did not write that file: it starts %s, but the program beside this tgctl is %s.", st.Program, p.Daemon)
	}
	if !st.Lingers {
		a.PrintMessage("The daemon ends with your last login session. To keep it running: loginctl enable-linger")
	}
	return nil
}

func (a *app) uninstall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	m, st, err := a.Service(ctx)
	if err != nil {
		return connect.ServiceFailure("uninstall "+connect.DaemonName, err)
	}
	if !st.Installed() {
		a.PrintMessage("thoughtgated is not installed in %s; nothing to remove.", st.Manager)
		return nil
	}
	if err := a.mayStop(ctx, st); err != nil {
		return err
	}
	removed, err := m.Uninstall(ctx)
	for _, path := range removed {
		a.PrintMessage("removed %s", path)
	}
	if err != nil {
		return connect.ServiceFailure("uninstall "+connect.DaemonName, err)
	}
	if !st.Ours {
		a.PrintMessage("%s was not written by tgctl; it is disabled and kept.", st.Definition)
	}
	a.PrintMessage("thoughtgated has stopped. Configuration and records are kept.")
	return nil
}
