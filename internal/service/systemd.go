package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	units "github.com/thoughtgate/thoughtgated/contrib/systemd"
)

// systemd is the user's instance of systemd, controlled with systemctl.
type systemd struct {
	getenv    func(string) string
	systemctl string // path, once found
	booted    string // folder that exists where systemd is the machine's init
}

const withoutSystemd = "Without systemd, tgctl starts the daemon when needed."

// reach checks that there is a usable user manager. Its error says what to do otherwise.
func (s *systemd) reach(ctx context.Context) error {
	path, err := exec.LookPath("systemctl")
	if err != nil {
		return &Error{fmt.Errorf("%w: systemctl was not found", ErrNone), withoutSystemd}
	}
	runtime := s.getenv("XDG_RUNTIME_DIR")
	if runtime == "" {
		if !s.runsMachine() {
			return s.noSystemd()
		}
		return &Error{fmt.Errorf("%w: XDG_RUNTIME_DIR is not set, so your systemd instance can't be found", ErrNone),
			"su and sudo do not start a login session. Log in, or use: machinectl shell " + userName(s.getenv) + "@"}
	}
	// Without this check a session bus from elsewhere could lead to a manager with another
	// runtime folder.
	if _, err := os.Stat(filepath.Join(runtime, "systemd", "private")); err != nil {
		if !s.runsMachine() {
			return s.noSystemd()
		}
		return &Error{fmt.Errorf("%w: your systemd instance is not running (%s/systemd/private is missing)", ErrNone, runtime),
			"It starts when you log in. To run it without a login: sudo loginctl enable-linger " + userName(s.getenv)}
	}
	s.systemctl = path
	env, err := s.tell(ctx, "show-environment")
	if err != nil {
		return &Error{fmt.Errorf("%w: %w", ErrNone, err), "See: systemctl --user status"}
	}
	return s.sameFolders(env)
}

// runsMachine reports whether systemd is the init of this machine or container. Otherwise
// logging in starts no user manager.
func (s *systemd) runsMachine() bool {
	_, err := os.Stat(s.booted)
	return err == nil
}

func (s *systemd) noSystemd() error {
	return &Error{fmt.Errorf("%w: this machine does not run systemd (%s is missing)", ErrNone, s.booted), withoutSystemd}
}

// sameFolders returns an error if a daemon with the environment env, lines of NAME=VALUE, would
// use other files than this process.
func (s *systemd) sameFolders(env string) error {
	theirs := assignments(env)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		switch {
		case theirs[name] == s.getenv(name):
		case s.getenv(name) == "":
			return &Error{fmt.Errorf("%w: your systemd instance has %s=%s, but this shell does not", ErrNone, name, theirs[name]),
				"Set it in this shell, or unset it there: systemctl --user unset-environment " + name}
		default:
			return &Error{fmt.Errorf("%w: %s is %s in this shell but %q in your systemd instance, so its daemon would use other files", ErrNone, name, s.getenv(name), theirs[name]),
				"Set it there: systemctl --user import-environment " + name + " (permanently: in ~/.config/environment.d)"}
		}
	}
	return nil
}

func (s *systemd) tell(ctx context.Context, args ...string) (string, error) {
	return tell(ctx, s.systemctl, append([]string{"--user"}, args...)...)
}

// do is tell for commands that change something: details of their failures are in the journal.
func (s *systemd) do(ctx context.Context, args ...string) error {
	if _, err := s.tell(ctx, args...); err != nil {
		return &Error{err, "See: " + journal}
	}
	return nil
}

const journal = "journalctl --user -u thoughtgated -e"

// State implements Manager.
func (s *systemd) State(ctx context.Context) (State, error) {
	if err := s.reach(ctx); err != nil {
		return State{}, err
	}
	about, err := s.show(ctx, units.Service, "LoadState", "FragmentPath", "UnitFileState", "ActiveState", "SubState", "MainPID", "NRestarts", "ExecStart")
	if err != nil {
		return State{}, err
	}
	st := State{Manager: "systemd", Log: journal, Detail: about["ActiveState"] + " (" + about["SubState"] + ")"}
	switch about["LoadState"] {
	case "loaded":
		st.Definition = about["FragmentPath"]
	case "masked":
		return st, &Error{fmt.Errorf("%w: %s is masked", ErrNone, units.Service), "To unmask it: systemctl --user unmask thoughtgated"}
	default:
		return st, nil
	}
	st.Ours = isOurs(st.Definition)
	if _, after, ok := strings.Cut(about["ExecStart"], "path="); ok {
		st.Program, _, _ = strings.Cut(after, " ;")
	}
	st.Failed = about["ActiveState"] == "failed"
	st.Enabled = strings.HasPrefix(about["UnitFileState"], "enabled")
	st.Active = about["ActiveState"] != "inactive" && about["ActiveState"] != "failed"
	for _, socket := range units.Sockets {
		about, err := s.show(ctx, socket, "ActiveState")
		if err != nil {
			return st, err
		}
		st.Active = st.Active || about["ActiveState"] == "active"
	}
	st.PID, _ = strconv.Atoi(about["MainPID"])
	st.Restarts, _ = strconv.Atoi(about["NRestarts"])
	st.Lingers = s.lingers(ctx)
	return st, nil
}

// show returns properties of a unit.
func (s *systemd) show(ctx context.Context, unit string, names ...string) (map[string]string, error) {
	out, err := s.tell(ctx, "show", "--property="+strings.Join(names, ","), unit)
	if err != nil {
		return nil, err
	}
	return assignments(out), nil
}

// assignments returns the values in lines of NAME=VALUE.
func assignments(lines string) map[string]string {
	values := map[string]string{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			values[name] = value
		}
	}
	return values
}

// lingers reports whether the user's services keep running after logout. It returns true if
// that is unknown, so that nothing warns.
func (s *systemd) lingers(ctx context.Context) bool {
	loginctl, err := exec.LookPath("loginctl")
	if err != nil {
		return true
	}
	out, err := tell(ctx, loginctl, "show-user", strconv.Itoa(os.Getuid()), "--property=Linger", "--value")
	return err != nil || strings.TrimSpace(out) != "no"
}

// path returns where Install writes a unit: in the folder of the user's own units.
func (s *systemd) path(unit string) string {
	return filepath.Join(configHome(s.getenv), "systemd", "user", unit)
}

// Install implements Manager.
func (s *systemd) Install(ctx context.Context, p Programs) ([]string, error) {
	st, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	if st.Installed() && !st.Ours {
		return nil, nil
	}
	texts, err := units.Units(p.Daemon, p.Tgctl)
	if err != nil {
		return nil, err
	}
	var wrote []string
	for _, name := range all {
		path := s.path(name)
		changed, err := put(path, "# "+mark+"; `tgctl daemon uninstall` removes it.\n"+texts[name])
		if err != nil {
			return wrote, fmt.Errorf("install %s: %w", name, err)
		}
		if changed {
			wrote = append(wrote, path)
		}
	}
	return wrote, s.do(ctx, "daemon-reload")
}

// Enable implements Manager. It names each unit: --now does not start a stopped socket that is
// only enabled along with another unit.
func (s *systemd) Enable(ctx context.Context) error { return s.reachAndDo(ctx, all, "enable", "--now") }

// Uninstall implements Manager.
func (s *systemd) Uninstall(ctx context.Context) ([]string, error) {
	st, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	if st.Installed() {
		if err := s.do(ctx, append([]string{"disable", "--now"}, all...)...); err != nil {
			return nil, err
		}
	}
	var paths []string
	for _, name := range all {
		paths = append(paths, s.path(name))
	}
	removed, err := drop(paths...)
	return removed, errors.Join(err, s.do(ctx, "daemon-reload"))
}

// Start implements Manager.
func (s *systemd) Start(ctx context.Context) error { return s.reachAndDo(ctx, daemon, "start") }

// Stop implements Manager. It stops the sockets too: the next connection would start the daemon
// again.
func (s *systemd) Stop(ctx context.Context) error { return s.reachAndDo(ctx, all, "stop") }

// Restart implements Manager. systemd keeps the sockets.
func (s *systemd) Restart(ctx context.Context) error { return s.reachAndDo(ctx, daemon, "restart") }

// The units for commands, without and with the daemon's sockets.
var (
	daemon = []string{units.Service}
	all    = append(daemon, units.Sockets...)
)

// reachAndDo runs a command for units if there is a usable manager.
func (s *systemd) reachAndDo(ctx context.Context, names []string, command ...string) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	return s.do(ctx, append(command, names...)...)
}

// userName returns the user's name for use in a command.
func userName(getenv func(string) string) string {
	return cmp.Or(getenv("USER"), strconv.Itoa(os.Getuid()))
}
