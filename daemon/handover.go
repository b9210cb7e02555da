package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/backend"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/trust"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// openHandover builds what holds the descriptors of agents and servers.
func (d *Daemon) openHandover() {
	d.handed = handover.New(handover.Options{
		Sessions: d.sessions, Store: d.store, Keep: d.options.Keep,
		Earlier:     func(attachment string) relay.Earlier { return d.audit.Earlier(attachment) },
		Join:        d.joinShared,
		Longest:     func() int { return int(d.policies.Options().MaxMessage) },
		ServerEnded: d.serverEnded,
		Logger:      d.log,
	})
}

// joinShared is how a session finds its place at a server of the daemon's.
func (d *Daemon) joinShared(ctx context.Context, l handover.Launch, environ func() ([]string, error), c relay.Client) (relay.Member, error) {
	if name, ok := strings.CutPrefix(l.Server, offer.Prefix); ok && l.Launch == offer.Launch(name) {
		return d.joinTools(name, c)
	}
	if l.Executable == "" { // the shim has looked for it where the agent's servers are found
		d.serverEnded(l.Server, nil)
		return nil, fmt.Errorf("%w: %q: %w", relay.ErrNotStarted, l.Command[0], child.ErrNotFound)
	}
	env, err := environ()
	if err != nil {
		return nil, fmt.Errorf("%w: look at the environment of the shim: %w", relay.ErrNotStarted, err)
	}
	if _, err := d.trust.Judge(ctx, trust.Launch{
		Server: l.Server, From: l.From, Cwd: l.Cwd, Program: l.Executable, Command: l.Command, Sets: l.Sets, Env: env,
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	m, err := d.pool.Join(ctx, backend.Spec{
		Server: l.Server, Launch: l.Launch, Executable: l.Executable, Command: l.Command, Cwd: l.Cwd,
		Env: child.ComposeEnv(env, nil, []string{"THOUGHTGATE_*"}),
	}, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	return m, nil
}

// serverEnded counts how a server's process has ended, a shim's own or a shared one;
// nil: it could not be started.
func (d *Daemon) serverEnded(server string, how *child.State) {
	switch {
	case how == nil:
		d.metrics.Ended(server, metrics.Failed)
	case how.Signal != 0:
		d.metrics.Ended(server, metrics.Signalled)
	default:
		d.metrics.Ended(server, metrics.Exited)
	}
}
