package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// serviceLogHint says where a daemon under the service manager writes.
const serviceLogHint = "See: journalctl --user -u thoughtgated -e"

// serviceManager returns the command that starts the daemon through systemd,
// nil when the user's systemd does not know it, or would start it for other
// folders than ours.
func (a *app) serviceManager(ctx context.Context, paths sock.Paths) []string {
	runtime := a.getenv("XDG_RUNTIME_DIR")
	if runtime == "" || paths.Runtime != filepath.Join(runtime, "thoughtgate") {
		return nil
	}
	// Without this a session bus from elsewhere would lead to a manager whose
	// runtime folder is another one.
	if _, err := os.Stat(filepath.Join(runtime, "systemd", "private")); err != nil {
		return nil
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return nil
	}
	const unit = daemonName + ".service"
	load, err := exec.CommandContext(ctx, systemctl, "--user", "show", "--property=LoadState", "--value", unit).Output()
	if err != nil || strings.TrimSpace(string(load)) != "loaded" {
		return nil
	}
	env, err := exec.CommandContext(ctx, systemctl, "--user", "show-environment").Output()
	if err != nil || !a.sameFolders(string(env)) {
		return nil
	}
	return []string{systemctl, "--user", "start", unit}
}

// sameFolders reports whether a daemon with the environment env, as lines of
// NAME=VALUE, would use the files that we do.
func (a *app) sameFolders(env string) bool {
	theirs := map[string]string{}
	for line := range strings.SplitSeq(env, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			theirs[name] = value
		}
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		if theirs[name] != a.getenv(name) {
			return false
		}
	}
	return true
}
