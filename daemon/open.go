package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/approval/presence"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/copies"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/backend"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// open builds the parts, each after those it depends on.
func (d *Daemon) open(path string, named bool) error {
	if err := d.openState(path, named); err != nil {
		return err
	}
	o, cfg := d.options, d.policies.current.Load().config
	var err error
	if err := d.openAudit(cfg); err != nil {
		return err
	}
	d.measure()
	d.policies.recorder = d.recorder
	if err := d.openPresence(); err != nil {
		return err
	}
	if d.copies, err = copies.Open(copies.Options{Dir: o.Paths.UndoDir(), Recorder: d.recorder, Logger: d.log}); err != nil {
		return err
	}
	if err := d.openFleet(); err != nil {
		return err
	}
	if d.queue, err = approval.New(d.store, approval.Options{
		PerServer: cfg.Limits.PendingPerServer, Total: cfg.Limits.Pending, Bytes: int64(cfg.Limits.PendingBytes), Recorder: d.recorder, Logger: d.log,
		Approves: d.policies.approves, Redact: d.audit.Redacted, Prover: d.presence, Colleagues: d.fleet,
	}); err != nil {
		return fmt.Errorf("load waiting questions: %w", err)
	}
	if d.pins, err = pin.New(d.store, pin.Options{
		Mode: cfg.Pins.Mode, Recorder: d.recorder, Logger: d.log, Changed: func() { d.sessions.Refresh() },
		Redact: d.audit.Redacted,
	}); err != nil {
		return err
	}
	if d.guard, err = protect.New(protect.Options{Store: d.store, Recorder: d.recorder, Logger: d.log, Lookup: lookup(o.Getenv), Socket: o.Paths.ShimSocket()}); err != nil {
		return err
	}
	if d.trust, err = trust.New(d.store, trust.Options{Home: o.Getenv("HOME"), Recorder: d.recorder, Logger: d.log}); err != nil {
		return err
	}
	if err := d.openExtensions(); err != nil {
		return err
	}
	d.network = remote.NewNetwork(net.DefaultResolver, d.log)
	d.pool = backend.New(backend.Options{Logger: d.log, Ended: d.serverEnded})
	if err := d.openGate(); err != nil {
		return err
	}
	d.hooks = hook.New(hook.Options{
		Sessions: d.sessions, Recorder: d.recorder, Logger: d.log, Redact: d.audit.Redacted, Home: o.Getenv("HOME"), Variable: d.guard.Variable,
		Protections: d.hookProtections,
	})
	d.judge.Arrived = d.hooks.Arrived
	d.openOffers()
	d.openLogins()
	d.openHandover()
	d.runs = d.newRuns()
	d.startFleet()
	d.server = d.newServer()
	return nil
}

// hookProtections returns the protections that have hooks.
func (d *Daemon) hookProtections() []hook.Protection {
	var all []hook.Protection
	for _, s := range d.guard.List() {
		if s.Protection.Tools && !s.Ending {
			all = append(all, hook.Protection{ID: s.Protection.ID, Agent: s.Protection.Agent, Since: s.Since, Covers: s.Protection.Covers})
		}
	}
	return all
}

// openGate builds the gate and the registry of sessions, whose calls it judges. A part that is added
// to the gate must be added in stages.gate too, or rehearsals judge without it.
func (d *Daemon) openGate() (err error) {
	o := d.options
	d.finder = facts.New(facts.Options{Home: o.Getenv("HOME"), Ours: d.ours, OnLoss: d.lost, OnSteer: d.steered})
	d.judge = &gate.Gate{
		Policy: d.policies.set, Scope: d.projects.scope, Facts: d.finder, Pins: d.pins, Approver: d.queue, Grants: d.queue, Presence: d.presence, Copies: d.copies,
		Recorder: d.recorder, Listener: d.listings, Logger: d.log, Meter: d.metrics.Meter, Tracer: d.traces, Hooks: d.extensions, Open: new(gate.OpenCalls),
		Orphan: func() time.Duration { return d.policies.current.Load().config.Limits.Orphan }, Orphaned: d.audit.Orphaned,
	}
	d.sessions, err = session.New(session.Options{
		Gate: d.judge, Recorder: d.recorder, Store: d.store, Restorer: restorer{o.Step}, Logger: d.log,
		Earlier: func(attachment string) map[uint64]record.Record {
			return d.audit.Recorded(attachment, d.queue.Asked(attachment)...)
		},
		Withdraw: func(attachment string) { d.queue.WithdrawAttachment(attachment, "the agent has left") },
		Forget: func(session, attachment string) {
			d.finder.Forget(session, attachment)
			d.queue.WithdrawSession(session, "the session has ended")
		},
		Protected: d.guard.Of,
		Remote:    d.guard.Remote,
		Patience:  agentconf.CallTimeout,
		Windowed:  agentconf.Windowed,
	})
	return err
}

// newServer builds the server of both sockets.
func (d *Daemon) newServer() *api.Server {
	o := d.options
	return api.New(api.Config{
		Sessions: d.sessions, Handed: d.handed, AgentHooks: d.hooks, Approvals: d.queue, Audit: d.audit, Recorder: d.recorder, Policies: d.policies, Pins: d.pins, Guard: d.guard, Agents: d.runs, Trust: d.trust, Presence: d.presence, Copies: d.copies, Fleets: d.fleets(), Extensions: d.extensions,
		Remote: d.remoteCommand, RemoteState: d.remoteState,
		Grain:  d.finder.Grain,
		Stages: &stages{d.policies, d.projects, d.ours, d.audit, d.presence, d.judge.Hooks, d.copies},
		Logger: d.log, Build: o.Build, Started: time.Now(), Activated: o.Activated,
		Control: o.Paths.ControlSocket(), Shim: o.Paths.ShimSocket(), AuditDir: o.Paths.AuditDir(),
		Warnings: func() []string {
			return slices.Concat(d.policies.warnings(), d.pins.Warnings(), d.presence.Warnings(), d.extensions.Warnings(), d.samplingWarning(),
				failing("the text file of metrics is not up to date", d.textfile.Failure()), failing("traces could not be sent to the collector", d.traces.Failure()),
				d.audit.Shares(), d.audit.Unsent(), d.keeperWarning(), d.sessionsWarning(), d.logins.warnings())
		}, Projects: d.projectFiles,
		Metrics: d.metrics, Logins: d.logins, Fleet: d.fleet, FleetPolicy: d.fleetPolicy,
		Stop: sync.OnceFunc(func() { close(d.stop) }),
	})
}

// failing returns the warning that something fails, or nil if err is nil.
func failing(what string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v", what, err)}
}

// openAudit opens the audit log as configured, and its index. If the index can't be opened, the log
// works without it.
func (d *Daemon) openAudit(cfg *config.Config) error {
	dir := d.options.Paths.AuditDir()
	o := auditOptions(cfg, d.log)
	var err error
	if d.index, err = store.OpenIndex(filepath.Join(dir, "index.db")); err != nil {
		d.log.Warn("queries of the audit log are slower", "err", err)
	} else {
		o.Index = d.index
	}
	if d.audit, err = audit.Open(dir, o); err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	return nil
}

// auditOptions returns the options of the audit log that cfg configures.
func auditOptions(cfg *config.Config, log *slog.Logger) audit.Options {
	return audit.Options{
		Sync: cfg.Audit.Sync, Interval: cfg.Audit.Interval, Values: cfg.Audit.Values,
		Retention: cfg.Audit.Retention, MaxSize: int64(cfg.Audit.MaxSize), Strict: cfg.Profile == config.Production, Heads: nextTo(cfg, cfg.Audit.Heads),
		Redact: facts.Redact, Profile: string(cfg.Profile), Logger: log,
	}
}

// nextTo resolves a path that may be relative to the configuration file. An empty path stays empty.
func nextTo(cfg *config.Config, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(cfg.Path), path)
}

// openPresence opens the presence secret, with which people prove that they answer.
func (d *Daemon) openPresence() (err error) {
	d.presence, err = presence.New(d.store, presence.Options{
		Recorder: d.audit, Logger: d.log,
		// The queue is set before the first call can arrive.
		Void: func(ctx context.Context, by, why string, grants bool) error {
			return d.queue.Void(ctx, by, why, grants)
		},
	})
	if err != nil {
		return fmt.Errorf("load presence: %w", err)
	}
	return nil
}

// openExtensions opens the registry of the user's extensions.
func (d *Daemon) openExtensions() (err error) {
	d.extensions, err = extension.Open(extension.Options{
		Dir: d.options.Paths.ExtensionsDir(), Store: d.store, Recorder: d.recorder, Logger: d.log,
		Getenv: d.options.Getenv, Build: d.options.Build,
		Changed: func() {
			if offers := d.offers; offers != nil { // nil while the extensions are being opened
				offers.Changed()
			}
		},
	})
	return err
}

// scanExtensions scans the installed extensions again.
func (d *Daemon) scanExtensions() {
	if err := d.extensions.Scan(context.Background()); err != nil { // local and fast
		d.log.Error("check extensions again", "err", err)
	}
}

// restorer restores files with the same code as tgctl.
type restorer struct {
	step func(string) // nil except in tests
}

func (o restorer) Restore(journal []byte) (report string, free bool, err error) {
	unlock, held, err := agentconf.TryLock(journal)
	if err != nil || held {
		return "", !held, err
	}
	defer unlock()
	r, err := agentconf.Restore(journal, o.step)
	if r.State == agentconf.Untouched && r.String() == "" {
		return "", true, err
	}
	report = r.String()
	if report == "" {
		report = string(r.State)
	}
	return report, true, err
}

// lookup adapts getenv to a function that reports whether a variable is set. Like getenv, it can't
// distinguish an unset variable from an empty one.
func lookup(getenv func(string) string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value := getenv(name)
		return value, value != ""
	}
}
