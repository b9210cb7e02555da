package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	job "github.com/thoughtgate/thoughtgated/contrib/launchd"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// launchd is macOS's service manager, controlled with launchctl.
type launchd struct {
	getenv    func(string) string
	uid       int
	launchctl string // path, once found
}

// reach finds launchctl. It fails if the daemon of launchd would use other files than this
// process: launchd does not know the XDG variables.
func (l *launchd) reach() error {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if value := l.getenv(name); value != "" {
			return &Error{fmt.Errorf("%w: %s is %s in this shell but not set in launchd, so its daemon would use other files", ErrNone, name, value), "Unset it."}
		}
	}
	path, err := exec.LookPath("launchctl")
	if err != nil {
		return &Error{fmt.Errorf("%w: launchctl was not found", ErrNone), "Without launchd, tgctl starts the daemon when needed."}
	}
	l.launchctl = path
	return nil
}

// domain returns the user's login session, in which the daemon runs.
func (l *launchd) domain() string { return fmt.Sprintf("gui/%d", l.uid) }

func (l *launchd) target() string { return l.domain() + "/" + job.Label }

func (l *launchd) path() string {
	return filepath.Join(l.getenv("HOME"), "Library", "LaunchAgents", job.Label+".plist")
}

func (l *launchd) log() string {
	return filepath.Join(l.getenv("HOME"), "Library", "Logs", "thoughtgated.log")
}

func (l *launchd) do(ctx context.Context, args ...string) error {
	if _, err := tell(ctx, l.launchctl, args...); err != nil {
		return &Error{err, "See: tail " + l.log()}
	}
	return nil
}

// State implements Manager.
func (l *launchd) State(ctx context.Context) (State, error) {
	if err := l.reach(); err != nil {
		return State{}, err
	}
	st := State{Manager: "launchd", Log: "tail " + l.log(), Detail: "not loaded", Lingers: true}
	if _, err := os.Stat(l.path()); err == nil {
		st.Definition, st.Ours = l.path(), isOurs(l.path())
	}
	about, err := tell(ctx, l.launchctl, "print", l.target())
	if err != nil {
		return st, nil // it is not loaded, which is not an error
	}
	st.Active, st.Enabled, st.Detail = true, true, "loaded"
	for line := range strings.SplitSeq(about, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok || strings.HasPrefix(line, "\t\t"): // nested
		case name == "state":
			st.Detail = value
		case name == "program":
			st.Program = value
		case name == "path" && st.Definition == "":
			st.Definition = value
		case name == "pid":
			st.PID, _ = strconv.Atoi(value)
		}
	}
	return st, nil
}

// Install implements Manager. No package installs our property list.
func (l *launchd) Install(ctx context.Context, p Programs) ([]string, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	paths, err := sock.DefaultPaths(l.getenv)
	if err != nil {
		return nil, err
	}
	if err := paths.Prepare(); err != nil { // launchd creates the sockets, but not their folder
		return nil, err
	}
	for _, path := range []string{paths.ControlSocket(), paths.ShimSocket()} {
		if err := sock.CheckPath(path); err != nil {
			return nil, err
		}
	}
	text, err := job.Paths{Daemon: p.Daemon, Control: paths.ControlSocket(), Shim: paths.ShimSocket(), Log: l.log()}.Plist()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(l.log()), 0o700); err != nil {
		return nil, err
	}
	changed, err := put(l.path(), text)
	if err != nil {
		return nil, fmt.Errorf("install %s: %w", job.Label, err)
	}
	if !changed {
		return nil, nil
	}
	// The loaded definition is that of the old file.
	return []string{l.path()}, l.unload(ctx)
}

// unload removes the daemon from launchd, which ends it, if it is loaded.
func (l *launchd) unload(ctx context.Context) error {
	if _, err := tell(ctx, l.launchctl, "print", l.target()); err != nil {
		return nil
	}
	return l.do(ctx, "bootout", l.target())
}

// Enable implements Manager.
func (l *launchd) Enable(ctx context.Context) error { return l.Start(ctx) }

// Uninstall implements Manager.
func (l *launchd) Uninstall(ctx context.Context) ([]string, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	err := l.unload(ctx)
	removed, dropped := drop(l.path())
	return removed, errors.Join(err, dropped)
}

// Start implements Manager.
func (l *launchd) Start(ctx context.Context) error {
	st, err := l.State(ctx)
	if err != nil {
		return err
	}
	if !st.Active {
		if err := l.do(ctx, "bootstrap", l.domain(), l.path()); err != nil {
			return err
		}
	}
	return l.do(ctx, "kickstart", l.target())
}

// Stop implements Manager. It unloads the daemon until the next start: otherwise launchd would
// start it for the next connection.
func (l *launchd) Stop(ctx context.Context) error {
	if err := l.reach(); err != nil {
		return err
	}
	return l.unload(ctx)
}

// Restart implements Manager. launchd runs the daemon's keeper. The keeper is told to start the
// program that is installed now, and keeps the descriptors of sessions.
func (l *launchd) Restart(ctx context.Context) error {
	st, err := l.State(ctx)
	if err != nil {
		return err
	}
	if !st.Active {
		return l.Start(ctx)
	}
	if st.PID != 0 {
		if err := l.do(ctx, "kill", "SIGUSR2", l.target()); err != nil {
			return err
		}
	}
	return l.do(ctx, "kickstart", l.target())
}
