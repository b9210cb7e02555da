package connect

import (
	"os"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// AgentEnv returns the environment of an agent started here, as far as it decides which files the
// agent reads.
func (a *App) AgentEnv() (agentconf.Env, error) {
	cwd, err := os.Getwd()
	env := agentconf.Env{Home: a.Getenv("HOME"), Cwd: cwd, LookupEnv: a.Lookup, Socket: a.DefaultPath(sock.Paths.ShimSocket), Notes: a.DefaultPath(sock.Paths.Rewrites)}
	if shim, failed := a.Sibling("tg-shim"); failed == nil {
		env.Shim = shim
	}
	return env, err
}

// DefaultPath returns one of the default paths, or "" if they cannot be determined.
func (a *App) DefaultPath(which func(sock.Paths) string) string {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return ""
	}
	return which(paths)
}

// Lookup is os.LookupEnv for a variable that is not empty.
func (a *App) Lookup(name string) (string, bool) {
	value := a.Getenv(name)
	return value, value != ""
}
