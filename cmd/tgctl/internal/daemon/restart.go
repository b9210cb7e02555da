package daemon

import (
	"cmp"
	"context"
	"errors"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// restartDaemon ends the daemon, if one runs, and starts the installed one.
func (a *app) restartDaemon(ctx context.Context) error {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	if err := a.MayStart(paths); err != nil {
		return err
	}
	m, st, err := a.Service(ctx)
	if err != nil && !errors.Is(err, service.ErrNone) {
		return connect.ServiceFailure("restart "+connect.DaemonName, err)
	}
	if err != nil || !st.Installed() {
		return a.restartDetached(ctx, paths)
	}
	if err := a.mayStop(ctx, st); err != nil {
		return err
	}
	if st.Program != "" {
		if err := a.checkDaemonStarts(ctx, st.Program, a.nonDefaultConfig(ctx, st, paths)); err != nil {
			return err
		}
	}
	return a.restartManaged(ctx, m, st, paths)
}

// restartDetached restarts a daemon that no service manager starts, with the
// configuration that the environment names, or the previous one. The keeper does it if it
// would start the same program with the same configuration.
func (a *app) restartDetached(ctx context.Context, paths sock.Paths) error {
	named, err := a.NamedConfig()
	if err != nil {
		return err
	}
	a.ConfigMismatchChecked = named != "" // the restart puts it in force
	before := a.nonDefaultConfig(ctx, service.State{PID: daemonPIDInLock(paths.LockFile())}, paths)
	config := cmp.Or(named, before)
	program, err := a.Sibling(connect.DaemonName)
	if err != nil {
		return err
	}
	if err := a.checkDaemonStarts(ctx, program, config); err != nil {
		return err
	}
	keeper, err := sock.Holder(paths.KeeperLock())
	if err != nil {
		return err
	}
	if keeper != 0 && config == before && keeperWouldStart(keeper, paths, program) {
		return a.restartKept(ctx, paths, keeper)
	}
	if err := a.stopDetached(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return a.StartDaemon(ctx, config)
}

// nonDefaultConfig returns the configuration that the daemon uses if it is not the default
// file. It returns an empty string if the daemon does not run or does not answer.
func (a *app) nonDefaultConfig(ctx context.Context, st service.State, paths sock.Paths) string {
	if st.PID == 0 {
		return "" // a request would start it
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := a.Status(ctx)
	if source := s.GetSet().GetSource(); err == nil && source != paths.ConfigFile() {
		return source
	}
	return ""
}

// checkDaemonStarts returns an error if the daemon could not start: its program is missing or
// rejects the configuration.
func (a *app) checkDaemonStarts(ctx context.Context, program, config string) error {
	found, err := policy.CheckWith(ctx, program, config, connect.DaemonEnv(a.Environ()))
	if err != nil {
		return &ui.HintError{Err: err, Hint: "Nothing was stopped."}
	}
	if ui.CountErrors(found.GetProblems()) > 0 {
		if err := ui.PrintDiagnostics(a.Err, found.GetProblems(), a.Width()); err != nil {
			return err
		}
		return &ui.HintError{Err: errors.New("the configuration has errors; nothing was stopped"), Hint: "Fix it, then run `tgctl policy check`."}
	}
	return nil
}

// restartManaged has the service manager restart the daemon and reports what runs then.
func (a *app) restartManaged(ctx context.Context, m service.Manager, st service.State, paths sock.Paths) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+connect.StartTimeout)
	defer cancel()
	if err := StopUnmanaged(ctx, a.App, st.PID); err != nil {
		return err
	}
	old := st.PID
	if old != 0 { // launchd knows the pid of the keeper, not of the daemon
		old = cmp.Or(daemonPIDInLock(paths.LockFile()), old)
	}
	if err := m.Restart(ctx); err != nil {
		return connect.ServiceFailure("restart "+connect.DaemonName, err)
	}
	s, err := a.AwaitDaemon(ctx, old, connect.NotEnded)
	if err != nil {
		return &ui.HintError{Err: err, Hint: "See: " + st.Log}
	}
	a.PrintMessage("thoughtgated %s is running (pid %d).", s.GetBuild(), s.GetPid())
	if s.GetBuild() != ui.Release {
		a.PrintMessage("This tgctl is version %s, but %s starts %s.", ui.Release, st.Definition, st.Program)
	}
	return nil
}
