// Package agentenv has what several commands of tgctl need in order to look at the agents on this
// machine: the environment that decides which files an agent reads, and the protections of agents.
package agentenv

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Env returns the environment of an agent started here, as far as it decides which files the agent
// reads.
func Env(a *connect.App) (agentconf.Env, error) {
	cwd, err := os.Getwd()
	env := agentconf.Env{
		Home: a.Getenv("HOME"), Cwd: cwd, Socket: a.DefaultPath(sock.Paths.ShimSocket), Notes: a.DefaultPath(sock.Paths.Rewrites),
		LookupEnv: func(name string) (string, bool) { // an empty variable counts as none
			value := a.Getenv(name)
			return value, value != ""
		},
	}
	if shim, failed := a.Sibling("tg-shim"); failed == nil {
		env.Shim = shim
	}
	return env, err
}

// Protections asks the daemon which agents are protected. A daemon too old to know the request
// protects none.
func Protections(ctx context.Context, c *client.Client) ([]*agentconf.Protection, error) {
	all, err := c.ListProtections(ctx, true)
	if errors.Is(err, client.ErrVersion) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []*agentconf.Protection
	for _, m := range all {
		p, err := agentconf.ParseProtection(m.GetText())
		if err != nil {
			return nil, fmt.Errorf("read the daemon's state of %s: %w; tgctl may be older than the daemon", m.GetAgent(), err)
		}
		kept = append(kept, p)
	}
	return kept, nil
}
