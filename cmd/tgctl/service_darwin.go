package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// serviceLogHint says where a daemon under the service manager writes.
const serviceLogHint = "See: log show --last 5m --predicate 'process == \"thoughtgated\"'"

// serviceManager returns the command that starts the daemon through launchd,
// nil when launchd does not know it, or would start it for other folders than
// ours: it knows none of the XDG variables.
func (a *app) serviceManager(ctx context.Context, _ sock.Paths) []string {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if a.getenv(name) != "" {
			return nil
		}
	}
	launchctl, err := exec.LookPath("launchctl")
	if err != nil {
		return nil
	}
	service := fmt.Sprintf("gui/%d/io.github.thoughtgate.thoughtgated", os.Getuid())
	if err := exec.CommandContext(ctx, launchctl, "print", service).Run(); err != nil {
		return nil
	}
	return []string{launchctl, "kickstart", service}
}
