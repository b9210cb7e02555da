// Package service knows the service manager of one user: systemd, or launchd on
// macOS. It installs ThoughtGate's daemon there, starts and stops it, and says
// what has become of it.
//
// A manager is told by its own program, as a person would tell it. What that says
// when it fails is in the error, and beside it what can be done.
package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNone is a user without a service manager, or with one that would start a
// daemon for other folders than this process uses.
var ErrNone = errors.New("no service manager can be used")

// Error is why a manager can't be used or did not do what it was told, and what
// can be done about it.
type Error struct {
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// State is what a manager knows of the daemon.
type State struct {
	Manager    string `json:"manager"`    // systemd or launchd
	Definition string `json:"definition"` // path of the unit or property list in use; empty: not installed
	Ours       bool   `json:"ours"`       // Definition was written by Install
	Program    string `json:"program"`    // that the definition starts; empty when not known
	Enabled    bool   `json:"enabled"`    // it is started at login, or when somebody connects
	Active     bool   `json:"active"`     // it runs, or its sockets wait; or it is being started
	Detail     string `json:"detail"`     // the manager's own words, as: active (running)
	Failed     bool   `json:"failed"`     // the manager has given up starting it
	PID        int    `json:"pid"`        // of the daemon, 0 when it does not run
	Restarts   int    `json:"restarts"`   // after failures, since it was started
	Log        string `json:"log"`        // command that shows what the daemon has written
	Lingers    bool   `json:"lingers"`    // it goes on when the user has logged out
}

// Installed reports whether the manager has a definition of the daemon.
func (s State) Installed() bool { return s.Definition != "" }

// Programs are absolute paths.
type Programs struct{ Daemon, Tgctl string }

// Manager is a user's service manager. Its methods are not for concurrent use.
type Manager interface {
	// State asks what is known of the daemon. The error is ErrNone, or an *Error
	// around it, when there is no manager to ask.
	State(ctx context.Context) (State, error)
	// Install writes a definition that starts p, unless a package has brought
	// one, and returns the paths of what it wrote or changed.
	Install(ctx context.Context, p Programs) (wrote []string, err error)
	// Enable has the daemon started now, and from now on.
	Enable(ctx context.Context) error
	// Uninstall stops the daemon, has it not started any more, and returns the
	// paths of what it removed: what Install has written.
	Uninstall(ctx context.Context) (removed []string, err error)
	// Start starts the daemon, with its sockets.
	Start(ctx context.Context) error
	// Stop stops the daemon, and nobody starts it by connecting.
	Stop(ctx context.Context) error
	// Restart starts the daemon anew. Where it can, it keeps the sockets open.
	Restart(ctx context.Context) error
}

// For returns the manager of a platform, as runtime.GOOS names it, for whoever's
// environment getenv tells of.
func For(platform string, getenv func(string) string) Manager {
	if platform == "darwin" {
		return &launchd{getenv: getenv, uid: os.Getuid()}
	}
	return &systemd{getenv: getenv, booted: "/run/systemd/system"}
}

// tell runs the manager's program and returns what it prints. The error quotes
// what it complained of.
func tell(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		line := filepath.Base(program) + " " + strings.Join(args, " ")
		if said := strings.TrimSpace(complaint.String()); said != "" {
			return out.String(), fmt.Errorf("`%s`: %w: %s", line, err, said)
		}
		return out.String(), fmt.Errorf("`%s`: %w", line, err)
	}
	return out.String(), nil
}

// mark is in every file that Install writes. What lacks it is somebody else's.
const mark = "Written by `tgctl daemon install`"

// isOurs reports whether Install has written a file.
func isOurs(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(text), mark)
}

// put writes a definition for all to read, unless it is there as it should be.
// A file of the same name that somebody else has written is left alone.
func put(path, text string) (changed bool, err error) {
	have, err := os.ReadFile(path)
	switch {
	case err == nil && string(have) == text:
		return false, nil
	case err == nil && !strings.Contains(string(have), mark):
		return false, fmt.Errorf("%s was not written by tgctl, and is kept; remove it to have it written", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(f.Name()))
	}
	return true, nil
}

// drop removes those of the files that Install has written.
func drop(paths ...string) (removed []string, err error) {
	for _, path := range paths {
		if !isOurs(path) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return removed, err
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// configHome is where a user's own configuration lies.
func configHome(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(getenv("HOME"), ".config")
}
