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

// launchd is macOS's service manager, spoken to by launchctl.
type launchd struct {
	getenv    func(string) string
	uid       int
	launchctl string // its path, once it was found
}

// reach finds launchctl, and fails where launchd's daemon would use other files
// than we do: it knows none of the XDG variables.
func (l *launchd) reach() error {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if value := l.getenv(name); value != "" {
			return &Error{fmt.Errorf("%w: %s is %s here, and launchd doesn't know it, so that its daemon would use other files", ErrNone, name, value), "Unset it."}
		}
	}
	path, err := exec.LookPath("launchctl")
	if err != nil {
		return &Error{fmt.Errorf("%w: there is no launchctl here", ErrNone), "Without launchd tgctl starts the daemon itself when it is needed."}
	}
	l.launchctl = path
	return nil
}

// domain is the user's login session, in which the daemon runs.
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
		return st, nil // it is not loaded, which is no failure
	}
	st.Active, st.Enabled, st.Detail = true, true, "loaded"
	for line := range strings.SplitSeq(about, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok || strings.HasPrefix(line, "\t\t"): // of something inside
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

// Install implements Manager. No package brings a property list of ours.
func (l *launchd) Install(ctx context.Context, p Programs) ([]string, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	paths, err := sock.DefaultPaths(l.getenv)
	if err != nil {
		return nil, err
	}
	if err := paths.Prepare(); err != nil { // launchd makes the sockets, not their folder
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
	// What is loaded is what the file said then.
	return []string{l.path()}, l.unload(ctx)
}

// unload has launchd forget the daemon, if it knows it, and end it.
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

// Stop implements Manager. launchd forgets the daemon until it is started again:
// else it would start it for whoever connects next.
func (l *launchd) Stop(ctx context.Context) error {
	if err := l.reach(); err != nil {
		return err
	}
	return l.unload(ctx)
}

// Restart implements Manager. What launchd starts is the daemon's keeper, which is told
// to start the program that is installed now, and keeps what sessions have open.
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
