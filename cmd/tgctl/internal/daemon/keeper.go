package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// keeperPaths returns the default paths with the runtime directory of the daemon that
// this process talks to. A keeper's lock is in that directory; a daemon started by
// systemd has no keeper.
func keeperPaths(a *connect.App) (sock.Paths, error) {
	paths, err := sock.DefaultPaths(a.Getenv)
	if named := a.Getenv("THOUGHTGATE_CONTROL"); named != "" && filepath.Base(named) == filepath.Base(paths.ControlSocket()) {
		paths.Runtime = filepath.Dir(named)
	}
	return paths, err
}

// daemonPIDInLock returns the pid in the lock at path if that process is a daemon, otherwise 0.
// The result is only a hint: unlike a keeper's, the pid may have been reused.
func daemonPIDInLock(path string) int {
	pid, _ := sock.LockHolderFromFile(path)
	if p, err := proc.Look(int32(pid)); pid == 0 || err != nil || p.Name != connect.DaemonName {
		return 0
	}
	return pid
}

// Keeper returns the pid of the daemon's keeper, 0 if there is none.
func Keeper(a *connect.App) int {
	paths, err := keeperPaths(a)
	if err != nil {
		return 0 // other uses of the paths report the error
	}
	return daemonPIDInLock(paths.KeeperLock())
}

// addKeeper adds who restarts the daemon if no service manager does.
func (a *app) addKeeper(out *ui.Sheet, runs bool) {
	switch pid := Keeper(a.App); {
	case pid != 0 && runs:
		out.Add("keeper", "pid "+display.Safe(strconv.Itoa(pid))+", holds the sockets and pipes and restarts the daemon if it dies")
	case pid != 0:
		out.Add("keeper", "pid "+display.Safe(strconv.Itoa(pid))+", restarts the daemon, which keeps exiting; see its log")
	case runs:
		out.Add("keeper", "none: if the daemon dies, it is not restarted; to start a keeper: tgctl daemon restart")
	}
}

// stopKept ends the daemon through its keeper, which ends with it.
func (a *app) stopKept(ctx context.Context, paths sock.Paths, keeper int) error {
	if err := a.mayStop(ctx, service.State{PID: daemonPIDInLock(paths.LockFile())}); err != nil {
		return err
	}
	err := endProcess(ctx, keeper, func() error { return signalDaemon(keeper, unix.SIGTERM, paths.KeeperLock()) })
	if err != nil {
		return err
	}
	a.PrintMessage("thoughtgated has stopped.")
	return nil
}

// restartKept has the keeper end the daemon and start the installed program. Sessions
// continue.
func (a *app) restartKept(ctx context.Context, paths sock.Paths, keeper int) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+connect.StartTimeout)
	defer cancel()
	old := daemonPIDInLock(paths.LockFile())
	if err := a.mayStop(ctx, service.State{PID: old}); err != nil {
		return err
	}
	if err := signalDaemon(keeper, unix.SIGUSR2, paths.KeeperLock()); err != nil { // keep.Again
		return err
	}
	s, err := a.AwaitDaemon(ctx, old, connect.NotEnded)
	if err != nil {
		return &ui.HintError{Err: fmt.Errorf("restart %s: %w", connect.DaemonName, err), Hint: "See the log: " + paths.LogFile()}
	}
	a.PrintMessage("thoughtgated %s is running (pid %d).", s.GetBuild(), s.GetPid())
	return nil
}

// keeperWouldStart reports whether a restart by the keeper would start program, with sockets
// that can be reached.
func keeperWouldStart(keeper int, paths sock.Paths, program string) bool {
	for _, path := range []string{paths.ControlSocket(), paths.ShimSocket()} {
		if _, err := os.Lstat(path); err != nil {
			return false
		}
	}
	args, _ := proc.Args(int32(keeper)) // none if it has ended
	return len(args) > 0 && (args[0] == program || beside.SameProgram(args[0], program))
}

// signalDaemon sends a signal to the process that holds the lock at path, if it is
// thoughtgated.
func signalDaemon(pid int, signal unix.Signal, path string) error {
	p, err := proc.Look(int32(pid))
	if err != nil {
		return nil // it has ended meanwhile
	}
	if p.Name != connect.DaemonName {
		return fmt.Errorf("process %d (%s) holds %s but is not %s; end that process, then try again", pid, p.Name, path, connect.DaemonName)
	}
	return unix.Kill(pid, signal)
}
