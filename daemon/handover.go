package daemon

import (
	"context"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/observe/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/backend"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// openHandover builds the part that holds the descriptors of agents and servers.
func (d *Daemon) openHandover() {
	d.handed = handover.New(handover.Options{
		Sessions: d.sessions, Store: d.store, Keep: d.options.Keep,
		Earlier: func(attachment string) relay.Earlier {
			return func(seqs []uint64) (map[uint64]string, map[uint64]bool) {
				return d.audit.PreviousOutcomes(attachment, seqs)
			}
		},
		Join:        d.joinInMemory,
		MaxSessions: d.maxSessions,
		Longest:     func() int { return int(d.policies.Options().MaxMessage) },
		ServerEnded: d.serverEnded,
		Logger:      d.log,
	})
}

// reservedDescriptors is how many descriptors the daemon needs besides those of its sessions: for
// sockets, the state, the log, callers, shared servers and extensions.
const reservedDescriptors = 256

// maxSessions returns how many shims may be attached, and what sets that limit: the configuration,
// or the number of descriptors that the daemon may open. Go has raised the soft limit to the hard
// one.
func (d *Daemon) maxSessions() (n int, by string) {
	n = d.policies.current.Load().config.Limits.Sessions
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return n, "limits.sessions"
	}
	if room := (int(min(files.Cur, math.MaxInt32)) - reservedDescriptors) / handover.DescriptorsPerSession; room < n {
		return max(room, 1), fmt.Sprintf("the daemon's limit of %d open files", files.Cur)
	}
	return n, "limits.sessions"
}

// sessionsWarning reports what keeps the daemon from having as many sessions as the configuration
// allows.
func (d *Daemon) sessionsWarning() []string {
	var all []string
	wanted := d.policies.current.Load().config.Limits.Sessions
	if n, by := d.maxSessions(); n < wanted {
		all = append(all, fmt.Sprintf("limits.sessions is %d, but %s allows %d servers: raise it to %d with LimitNOFILE= in the daemon's unit, or with ulimit -n where it is started",
			wanted, by, n, wanted*handover.DescriptorsPerSession+reservedDescriptors))
	}
	if m, err := mapping.Create(int(d.policies.Options().MaxMessage)); err != nil {
		all = append(all, "no server can be attached: "+err.Error())
	} else {
		_ = m.Close() // nothing was written
	}
	if k := d.options.Keep; k != nil {
		if _, limit := k.Kept(); limit > 0 && limit < wanted*keep.PerSession {
			all = append(all, fmt.Sprintf("limits.sessions is %d, but only the pipes of %d servers can be kept for the next daemon, others end with this one; set FileDescriptorStoreMax=%d in thoughtgated.service (systemctl --user edit thoughtgated)",
				wanted, limit/keep.PerSession, wanted*keep.PerSession))
		}
	}
	return all
}

func (d *Daemon) keeperWarning() []string {
	if k := d.options.Keep; k != nil && k.KeeperLost() {
		return []string{"the keeper has ended: if this daemon dies, no other is started, and agents lose their servers; `tgctl daemon restart` starts both again"}
	}
	return nil
}

func (d *Daemon) warnOfSessions() {
	for _, text := range d.sessionsWarning() {
		d.log.Warn(text)
	}
}

// joinInMemory connects a session to a server that the daemon runs, to the tools of an extension, or to a
// server behind an address.
func (d *Daemon) joinInMemory(ctx context.Context, s session.Saved, l handover.Launch, c relay.Client) (relay.Member, error) {
	if s.Shim.Remote {
		return d.joinRemote(ctx, &s, &l, c)
	}
	if name, ok := strings.CutPrefix(l.Server, offer.Prefix); ok && l.Launch == offer.Launch(name) {
		return d.joinTools(name, c)
	}
	if l.Executable == "" { // tg-shim did not find it in the agent's search path
		d.serverEnded(l.Server, nil)
		return nil, fmt.Errorf("%w: %q: %w", relay.ErrNotStarted, l.Command[0], child.ErrNotFound)
	}
	env, err := proc.Environ(s.Peer.PID)
	if err != nil {
		return nil, fmt.Errorf("%w: read the environment of tg-shim: %w", relay.ErrNotStarted, err)
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

// serverEnded counts how a server's process ended, a shim's own or a shared one. how is nil if it
// could not be started.
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
