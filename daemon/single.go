package daemon

import (
	"log/slog"
	"net"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// ServePolicies answers questions about policies over conn until its other end
// is closed, as a daemon would that had just been started with the flag --config.
// It takes no part in anything else: it opens no socket, and writes nothing. A
// configuration that can't be used is told to who asks for what it says.
func ServePolicies(conn net.Conn, flag string, getenv func(string) string, log *slog.Logger, build string) error {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return err
	}
	path, named := config.Find(flag, getenv, paths.Config)
	p := &policies{path: path, named: named, getenv: getenv, log: log}
	s := &stages{p, newProjects(log), func() []string { return []string{paths.Config, paths.State, paths.Runtime} }, nil, gate.Assumed, nil}
	return api.ServePolicies(api.Config{Policies: p, Stages: s, Logger: log, Build: build}, conn)
}
