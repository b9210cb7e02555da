package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/service"
)

func (a *app) daemonInstallCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "install",
		Short: "Have the service manager start the daemon, now and from now on",
		Long: `Have your own systemd, or launchd on macOS, start the daemon now, at every login
and when somebody connects, start it again when it fails or hangs, and hold its
sockets, so that nobody is refused while it is restarted. Units that a package
has brought are used as they are; else ones are written that start the programs
beside this tgctl, by their absolute paths. May be repeated after a move.`,
		Example: `  $ tgctl daemon install
  $ tgctl daemon status`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd.Context()) },
	}
}

func (a *app) daemonUninstallCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the daemon and take it from the service manager",
		Long: `Stop the daemon, have the service manager start it no more, and remove what
"tgctl daemon install" has written. Units of a package stay, switched off.
Configuration, questions and records stay too. Commands that need the daemon
start it without the service manager then.`,
		Example: "  $ tgctl daemon uninstall",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context()) },
	}
}

// programs returns the paths of the programs that a definition starts.
func (a *app) programs() (service.Programs, error) {
	daemon, why, err := a.lasting(daemonName)
	if err != nil {
		return service.Programs{}, err
	}
	tgctl, _, err := a.lasting("tgctl")
	if err != nil {
		return service.Programs{}, err
	}
	if why != "" {
		a.printMessage("The service manager will start %s, which %s. When it goes, run `tgctl daemon install` again; better install ThoughtGate where it stays.", daemon, why)
	}
	return service.Programs{Daemon: filepath.Clean(daemon), Tgctl: filepath.Clean(tgctl)}, nil
}

func (a *app) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+startTimeout)
	defer cancel()
	m, before, err := a.service(ctx)
	if err != nil {
		return serviceFailure("install "+daemonName, err)
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
		a.printMessage("wrote %s", path)
	}
	if err != nil {
		return serviceFailure("install "+daemonName, err)
	}
	if err := a.stopUnmanagedDaemon(ctx, before.PID); err != nil {
		return err
	}
	if err := m.Enable(ctx); err != nil {
		return serviceFailure("install "+daemonName, err)
	}
	if before.PID != 0 && len(wrote) > 0 { // it still runs by the previous definition
		if err := m.Restart(ctx); err != nil {
			return serviceFailure("restart "+daemonName, err)
		}
	}
	return a.sayInstalled(ctx, m, p)
}

// sayInstalled reports what runs now and what may be unexpected.
func (a *app) sayInstalled(ctx context.Context, m service.Manager, p service.Programs) error {
	st, err := m.State(ctx)
	if err != nil {
		return serviceFailure("look at "+daemonName, err)
	}
	s, err := a.awaitDaemon(ctx, 0, notEnded)
	if err != nil {
		return &hintError{err: err, hint: "See: " + st.Log}
	}
	a.printMessage("thoughtgated %s runs (pid %d), started by %s as %s says.", s.GetBuild(), s.GetPid(), st.Manager, st.Definition)
	if !st.Ours && st.Program != "" && !sameProgram(st.Program, p.Daemon) {
		a.printMessage("That is not tgctl's: it starts %s, and beside this tgctl lies %s.", st.Program, p.Daemon)
	}
	if !st.Lingers {
		a.printMessage("It ends when you log out for the last time. To have it stay: loginctl enable-linger")
	}
	return nil
}

func (a *app) uninstall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	m, st, err := a.service(ctx)
	if err != nil {
		return serviceFailure("uninstall "+daemonName, err)
	}
	if !st.Installed() {
		a.printMessage("%s does not know thoughtgated; there is nothing to take away.", st.Manager)
		return nil
	}
	if err := a.mayStop(ctx, st); err != nil {
		return err
	}
	removed, err := m.Uninstall(ctx)
	for _, path := range removed {
		a.printMessage("removed %s", path)
	}
	if err != nil {
		return serviceFailure("uninstall "+daemonName, err)
	}
	if !st.Ours {
		a.printMessage("%s is not tgctl's and stays, switched off.", st.Definition)
	}
	a.printMessage("thoughtgated has stopped. Configuration and records stay.")
	return nil
}
