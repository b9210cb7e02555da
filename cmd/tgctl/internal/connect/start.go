package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/beside"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// DaemonName is the name of the daemon's program.
	DaemonName = "thoughtgated"

	// StartTimeout is the timeout for a daemon to start and reply.
	StartTimeout = 15 * time.Second

	// startPoll is the interval at which a starting daemon is polled.
	startPoll = 20 * time.Millisecond

	// MaxComplaintBytes is how many bytes of a failed daemon's output, counted from the end, are
	// repeated.
	MaxComplaintBytes = 16 << 10
)

// StartDaemon starts thoughtgated and returns when it replies. It uses the service manager if
// the daemon is installed there, and otherwise starts a process that outlives this one. The
// error of a daemon that fails to start includes its output. config is the configuration to
// use, or "" for the default one.
func (a *App) StartDaemon(ctx context.Context, config string) error {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	if err := a.MayStart(paths); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	m, st, err := a.Service(ctx)
	if errors.Is(err, service.ErrNone) || err == nil && !st.Installed() {
		return a.startDetached(ctx, paths, config)
	}
	if err == nil && config != "" {
		return &ui.HintError{Err: fmt.Errorf("can't use %s: %s starts the daemon with the configuration that %s names", config, st.Manager, st.Definition),
			Hint: "Name the file there, or unset " + ConfigVar + "."}
	}
	if err == nil {
		err = m.Start(ctx)
	}
	if err != nil {
		return ServiceFailure("start "+DaemonName, err)
	}
	_, err = a.AwaitDaemon(ctx, 0, NotEnded)
	return err
}

// MayStart returns an error if a daemon must not be started, or would not be the one that is
// wanted.
func (a *App) MayStart(paths sock.Paths) error {
	if a.Getenv("THOUGHTGATE_ACTIVE") != "" {
		return &ui.HintError{Err: fmt.Errorf("%w, and a process below a wrapped agent may not start it", client.ErrNotRunning),
			Hint: "Start it from another terminal: tgctl daemon start"}
	}
	if named := a.Getenv("THOUGHTGATE_CONTROL"); named != "" && filepath.Clean(named) != paths.ControlSocket() {
		return &ui.HintError{Err: fmt.Errorf("%w: nothing listens on %s, which THOUGHTGATE_CONTROL names", client.ErrNotRunning, named),
			Hint: "tgctl would start a daemon that listens on " + paths.ControlSocket() + ". Start yours, or unset THOUGHTGATE_CONTROL."}
	}
	if what, hint := a.DaemonElsewhere(); what != "" {
		return &ui.HintError{Err: fmt.Errorf("%w: %s", client.ErrNotRunning, what), Hint: hint}
	}
	return nil
}

// DaemonElsewhere checks whether a daemon with the same state directory listens on another
// socket than expected. It returns a description and how to connect, or "" if there is none.
func (a *App) DaemonElsewhere() (what, hint string) {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return "", ""
	}
	looked := paths.ControlSocket()
	if named := a.Getenv("THOUGHTGATE_CONTROL"); named != "" {
		looked = filepath.Clean(named)
	}
	pid, socket := sock.LockHolderFromFile(paths.StateLock())
	if pid == 0 || socket == "" || socket == looked {
		return "", ""
	}
	if p, err := proc.Look(int32(pid)); err != nil || p.Name != DaemonName {
		return "", "" // the daemon has exited
	}
	return fmt.Sprintf("nothing listens on %s; the daemon with the state folder %s, pid %d, listens on %s", looked, paths.State, pid, socket),
		"The daemon was started with another XDG_RUNTIME_DIR. To connect to it: export THOUGHTGATE_CONTROL=" + socket
}

// startDetached starts the daemon in a session of its own, with only the variables of
// DaemonEnv.
func (a *App) startDetached(ctx context.Context, paths sock.Paths, config string) error {
	path, err := a.Sibling(DaemonName)
	if err != nil {
		return err
	}
	log, err := openLog(paths)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the daemon's log: %w", err)
	}
	// The process is the keeper, which starts the daemon. The log is a file for people, so its
	// format is text.
	args := []string{"--keep", "--log-format", "text"}
	if config != "" {
		args = append(args, "--config", config)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = DaemonEnv(a.Environ())
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", DaemonName, err)
	}
	// The process outlives this one. Until the daemon replies, endOf reaps it if it exits.
	pid := cmd.Process.Pid
	defer cmd.Process.Release()
	s, err := a.AwaitDaemon(ctx, 0, func() error { return endOf(pid) })
	switch {
	case err == nil && StartedBy(s.GetPid(), pid):
		a.PrintMessage("started thoughtgated (pid %d), log: %s", s.GetPid(), log.Name())
		return nil
	case err == nil:
		return dismiss(ctx, pid)
	}
	if said, _ := host.Tail(log.Name(), from, MaxComplaintBytes); len(said) > 0 { // a log that cannot be read is left out
		err = fmt.Errorf("%w; its output:\n%s", err, bytes.TrimSpace(said))
	}
	if what := host.FolderTrouble(paths.State, host.Writable, host.SpaceAt); what != "" { // in that case the log is empty
		err = fmt.Errorf("%w: %s", err, what)
	}
	return &ui.HintError{Err: err, Hint: "See the log: " + log.Name()}
}

// AwaitDaemon returns when a daemon replies whose PID is not old. gone returns an error if the
// process that was started has exited.
func (a *App) AwaitDaemon(ctx context.Context, old int, gone func() error) (*pb.StatusResponse, error) {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	var ended error
	for {
		s, err := a.Status(ctx)
		switch {
		case err == nil && int(s.GetPid()) != old:
			return s, nil
		// A daemon may listen before it can reply, and a daemon with an invalid configuration
		// listens and then exits. Only permanent errors end the wait.
		case errors.Is(err, client.ErrVersion), errors.Is(err, client.ErrForbidden):
			return nil, err
		}
		// A daemon that exits because another one holds the lock was too slow. The other daemon
		// may not listen yet.
		if ended == nil {
			if ended = gone(); ended != nil {
				continue
			}
		} else if !a.locked() {
			return nil, ended
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was started but does not answer: %w", DaemonName, cmp.Or(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// NotEnded is for awaitDaemon if the service manager starts the daemon.
func NotEnded() error { return nil }

// locked reports whether a process is alive that holds, or held, the lock of the daemon or of
// its keeper.
func (a *App) locked() bool {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return false
	}
	for _, path := range []string{paths.LockFile(), paths.KeeperLock()} {
		if pid, _ := sock.LockHolderFromFile(path); pid != 0 && unix.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}

// dismiss stops the daemon that was started here because another one was faster. It usually
// exits by itself, but not if the other one exits before it checks.
func dismiss(ctx context.Context, pid int) error {
	_ = unix.Kill(pid, unix.SIGTERM) // an unreaped child, so its PID is not reused
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for endOf(pid) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("another %s was started at the same time, and this one (pid %d) does not exit: %w", DaemonName, pid, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// endOf returns how the child pid ended, or nil if it has not.
func endOf(pid int) error {
	var status unix.WaitStatus
	for {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("%s: wait: %w", DaemonName, err)
		case got != pid:
			return nil
		case status.Signaled():
			return fmt.Errorf("%s exited at once, by signal: %v", DaemonName, status.Signal())
		}
		return fmt.Errorf("%s exited at once, with exit code %d", DaemonName, status.ExitStatus())
	}
}

// Sibling returns the path of another program of ThoughtGate: beside this one, or in the
// directory where packages install internal programs.
func (a *App) Sibling(name string) (string, error) {
	self, err := a.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return beside.Find(self, name)
}

// Lasting returns the path of one of ThoughtGate's programs to write into other files, see
// [beside.Lasting].
func (a *App) Lasting(name string) (path, why string, err error) {
	self, err := a.Executable()
	if err != nil {
		return "", "", fmt.Errorf("find %s: %w", name, err)
	}
	return beside.Lasting(self, a.Getenv("PATH"), name)
}

// DaemonEnv returns the variables of environ that the daemon needs: where the user's files are.
// It leaves out the shell's secrets and variables that change how programs run.
func DaemonEnv(environ []string) []string {
	return ui.Filter(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "HOME" || name == "PATH" || name == "LANG" || strings.HasPrefix(name, "XDG_")
	})
}

// openLog opens the log file of a daemon without a service manager.
func openLog(paths sock.Paths) (*os.File, error) {
	if err := paths.Prepare(); err != nil {
		return nil, fmt.Errorf("create the folder of the daemon's log: %w", err)
	}
	f, err := os.OpenFile(paths.LogFile(), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	return f, nil
}

// StartedBy reports whether daemon is the process ours or a child of it.
func StartedBy(daemon int32, ours int) bool {
	if int(daemon) == ours {
		return true
	}
	p, err := proc.Look(daemon)
	return err == nil && int(p.PPID) == ours
}

// Service asks the service manager about the daemon that this process talks to. The error
// is service.ErrNone if no service manager would start that daemon.
func (a *App) Service(ctx context.Context) (service.Manager, service.State, error) {
	m := service.For(runtime.GOOS, a.Getenv)
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return m, service.State{}, err
	}
	if named := a.Getenv("THOUGHTGATE_CONTROL"); named != "" && filepath.Clean(named) != paths.ControlSocket() {
		return m, service.State{}, fmt.Errorf("%w: THOUGHTGATE_CONTROL names the socket of another daemon, %s", service.ErrNone, named)
	}
	st, err := m.State(ctx)
	return m, st, err
}

// ServiceFailure wraps the error of a service manager, with a hint how to fix it.
func ServiceFailure(what string, err error) error {
	wrapped := fmt.Errorf("%s: %w", what, err)
	if failed, ok := errors.AsType[*service.Error](err); ok {
		return &ui.HintError{Err: wrapped, Hint: failed.Hint}
	}
	return wrapped
}

// Status asks a running daemon for its status.
func (a *App) Status(ctx context.Context) (*pb.StatusResponse, error) {
	c, err := a.DialRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}
