// Package service controls a user's service manager: systemd, or launchd on macOS. It installs
// ThoughtGate's daemon there, starts and stops it, and reports its state.
//
// It uses the manager's own command line program, as a person would. An error contains that
// program's error output, and a hint what to do.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNone reports that a user has no service manager, or one that would start a daemon for
// other folders than those of this process.
var ErrNone = errors.New("no service manager can be used")

// Error says why a manager can't be used or has failed, and what can be done about it.
type Error struct {
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// State is what a manager reports about the daemon.
type State struct {
	Manager    string `json:"manager"`    // systemd or launchd
	Definition string `json:"definition"` // path of the unit or property list in use; empty if not installed
	Ours       bool   `json:"ours"`       // Install wrote Definition
	Program    string `json:"program"`    // started by the definition; empty if unknown
	Enabled    bool   `json:"enabled"`    // started at login, or by a connection
	Active     bool   `json:"active"`     // running, being started, or its sockets are open
	Detail     string `json:"detail"`     // in the manager's own words, as: active (running)
	Failed     bool   `json:"failed"`     // the manager no longer tries to start it
	PID        int    `json:"pid"`        // of the daemon; 0 if it does not run
	Restarts   int    `json:"restarts"`   // after failures, since its start
	Log        string `json:"log"`        // command that shows the daemon's log
	Lingers    bool   `json:"lingers"`    // keeps running after the user has logged out
}

// Installed reports whether the manager has a definition of the daemon.
func (s State) Installed() bool { return s.Definition != "" }

// Programs are the absolute paths of the programs.
type Programs struct{ Daemon, Tgctl string }

// Manager is a user's service manager. Its methods are not safe for concurrent use.
type Manager interface {
	// State returns the state of the daemon. The error is ErrNone, possibly wrapped in an
	// *Error, if there is no usable manager.
	State(ctx context.Context) (State, error)
	// Install writes a definition that starts p, unless a package has installed one, and
	// returns the paths of the files that it wrote or changed.
	Install(ctx context.Context, p Programs) (wrote []string, err error)
	// Enable starts the daemon now and at each login.
	Enable(ctx context.Context) error
	// Uninstall stops and disables the daemon, removes what Install has written, and returns
	// the removed paths.
	Uninstall(ctx context.Context) (removed []string, err error)
	// Start starts the daemon and opens its sockets.
	Start(ctx context.Context) error
	// Stop stops the daemon. Connections do not start it again.
	Stop(ctx context.Context) error
	// Restart restarts the daemon. If possible, its sockets stay open.
	Restart(ctx context.Context) error
}

// For returns the service manager of a platform, named as in runtime.GOOS, for the user with
// the environment getenv.
func For(platform string, getenv func(string) string) Manager {
	if platform == "darwin" {
		return &launchd{getenv: getenv, uid: os.Getuid()}
	}
	return &systemd{getenv: getenv, booted: "/run/systemd/system"}
}

// tell runs the manager's program and returns its output. An error quotes its error output.
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

// mark is in every file that Install writes. A file without it was written by somebody else.
const mark = "Written by `tgctl daemon install`"

// isOurs reports whether Install has written a file.
func isOurs(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(text), mark)
}

// put writes a definition, readable by all, unless it is up to date. It does not change a file
// that somebody else has written.
func put(path, text string) (changed bool, err error) {
	have, err := os.ReadFile(path)
	switch {
	case err == nil && string(have) == text:
		return false, nil
	case err == nil && !strings.Contains(string(have), mark):
		return false, fmt.Errorf("%s was not written by tgctl and is not overwritten; remove it, then try again", path)
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

// configHome returns the folder of the user's configuration files.
func configHome(getenv func(string) string) string {
	return cmp.Or(getenv("XDG_CONFIG_HOME"), filepath.Join(getenv("HOME"), ".config"))
}
