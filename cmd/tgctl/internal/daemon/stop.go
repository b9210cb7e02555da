package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

const (
	// stopTimeout is the timeout for a daemon to stop.
	stopTimeout = 30 * time.Second

	// askTimeout is the timeout for a daemon to reply whether it may be stopped. A
	// daemon that hangs does not reply, and is the one that most needs stopping.
	askTimeout = 5 * time.Second
)

func (a *app) stopCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon",
		Long: `Stop the daemon, close the service manager's sockets, and return when the daemon
has exited. Governed servers end with it, and unanswered requests of agents stay
unanswered. For an update use "tgctl daemon restart", which interrupts no call.
The next command that needs the daemon starts it again.`,
		Example: "  $ tgctl daemon stop",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Skew.SuppressNotice() // it is about to end
			return a.stopDaemon(cmd.Context())
		},
	}
}

func (a *app) restartCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Restart the daemon, as after an update",
		Long: `Stop the daemon and start the installed one; start it if none is running. Calls
and questions wait meanwhile and then continue: systemd, or the daemon's keeper,
holds the sockets and the pipes of running servers. The daemon is stopped only
if its program exists and accepts the configuration: the one that
THOUGHTGATE_CONFIG names, or else the one in use.`,
		Example: "  $ tgctl daemon restart",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Skew.SuppressNotice() // the restart is meant to fix it
			return a.restartDaemon(cmd.Context())
		},
	}
}

// stopDaemon ends the daemon, through the service manager if that runs it, and returns
// when the daemon has exited.
func (a *app) stopDaemon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	m, st, err := a.Service(ctx)
	if err != nil || !st.Active {
		return a.stopDetached(ctx)
	}
	if err := a.mayStop(ctx, st); err != nil {
		return err
	}
	if err := m.Stop(ctx); err != nil {
		return connect.ServiceFailure("stop "+connect.DaemonName, err)
	}
	if err := StopUnmanaged(ctx, a.App, 0); err != nil {
		return err
	}
	a.PrintMessage("thoughtgated has stopped, and %s has closed its sockets.", st.Manager)
	return nil
}

// mayStop asks the daemon that the service manager runs whether this process may stop it:
// an agent may not. It returns nil if the daemon does not run or does not answer.
func (a *app) mayStop(ctx context.Context, st service.State) error {
	if st.PID == 0 {
		return nil // a request would start it
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := a.DialRunning(ctx)
	if err == nil {
		defer c.Close()
		err = c.MayStop(ctx)
	}
	switch {
	case err == nil, errors.Is(err, client.ErrNotRunning):
		return nil
	case errors.Is(err, client.ErrForbidden):
		return err
	}
	a.PrintMessage("thoughtgated (pid %d) does not answer; stopping it anyway: %v", st.PID, err)
	return nil
}

// stopDetached ends a daemon that no service manager runs.
func (a *app) stopDetached(ctx context.Context) error {
	paths, err := keeperPaths(a.App)
	if err != nil {
		return err
	}
	keeper, err := sock.Holder(paths.KeeperLock())
	if err != nil {
		return err
	}
	if keeper != 0 {
		return a.stopKept(ctx, paths, keeper)
	}
	c, err := a.DialRunning(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	err = endProcess(ctx, int(s.GetPid()), func() error {
		if err := c.Stop(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) { // it may exit before its answer is read
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.PrintMessage("thoughtgated has stopped.")
	return nil
}

// endProcess calls tell, which asks a process to end, and waits until the process has
// exited.
func endProcess(ctx context.Context, pid int, tell func() error) error {
	process, err := proc.Open(proc.Process{PID: int32(pid)})
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", connect.DaemonName, err)
	}
	defer process.Close()
	if err := tell(); err != nil {
		return err
	}
	if err := process.Wait(ctx); err != nil {
		return fmt.Errorf("stop %s: process %d did not exit: %w", connect.DaemonName, pid, err)
	}
	return nil
}

// StopUnmanaged ends a daemon that holds the lock but is not the service manager's, through
// its keeper if it has one. The manager's sockets have replaced that daemon's, so nobody
// can reach it, and no other daemon can start while it runs.
func StopUnmanaged(ctx context.Context, a *connect.App, managed int) error {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	lock := paths.KeeperLock()
	pid, err := sock.Holder(lock)
	if err == nil && pid == 0 {
		lock = paths.LockFile()
		pid, err = sock.Holder(lock)
	}
	if err != nil || pid == 0 || pid == managed {
		return err
	}
	a.PrintMessage("stopping the thoughtgated that was started without the service manager (pid %d)", pid)
	return endProcess(ctx, pid, func() error { return signalDaemon(pid, unix.SIGTERM, lock) })
}
