package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/backend"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/trust"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// open builds the parts, each on those before it.
func (d *Daemon) open(path string, named bool) error {
	if err := d.openState(path, named); err != nil {
		return err
	}
	o, cfg := d.options, d.policies.current.Load().config
	var err error
	if err := d.openAudit(cfg); err != nil {
		return err
	}
	recorder := d.measured()
	d.policies.recorder = recorder
	if err := d.openPresence(); err != nil {
		return err
	}
	if d.queue, err = approval.New(d.store, approval.Options{
		PerServer: cfg.Limits.PendingPerServer, Total: cfg.Limits.Pending, Bytes: int64(cfg.Limits.PendingBytes), Recorder: recorder, Logger: d.log,
		Approves: d.policies.approves, Redact: d.audit.Redacted, Prover: d.presence,
	}); err != nil {
		return fmt.Errorf("take up open questions: %w", err)
	}
	if d.pins, err = pin.New(d.store, pin.Options{
		Mode: cfg.Pins.Mode, Recorder: recorder, Logger: d.log, Changed: func() { d.sessions.Refresh() },
		Redact: d.audit.Redacted,
	}); err != nil {
		return err
	}
	if d.guard, err = protect.New(protect.Options{Store: d.store, Recorder: recorder, Logger: d.log, Lookup: lookup(o.Getenv), Socket: o.Paths.ShimSocket()}); err != nil {
		return err
	}
	if d.trust, err = trust.New(d.store, trust.Options{Home: o.Getenv("HOME"), Recorder: recorder, Logger: d.log}); err != nil {
		return err
	}
	if err := d.openExtensions(recorder); err != nil {
		return err
	}
	d.pool = backend.New(backend.Options{Logger: d.log, Ended: d.serverEnded})
	if err := d.openGate(recorder); err != nil {
		return err
	}
	d.openOffers()
	d.openHandover()
	d.runs = d.newRuns()
	d.server = d.newServer(recorder)
	return nil
}

// openGate builds what judges, and the sessions that bring it calls.
func (d *Daemon) openGate(recorder gate.Recorder) (err error) {
	o := d.options
	finder := facts.New(facts.Options{Home: o.Getenv("HOME"), Ours: d.ours, Loss: d.lost, Steer: d.steered})
	d.judge = &gate.Gate{
		Policy: d.policies.set, Scope: d.projects.scope, Facts: finder, Pins: d.pins, Approver: d.queue, Grants: d.queue, Presence: d.presence,
		Recorder: recorder, Listener: d.listings, Logger: d.log, Meter: d.metrics.Meter, Tracer: d.traces, Hooks: d.extensions, Open: new(gate.OpenCalls),
		Orphan: func() time.Duration { return d.policies.current.Load().config.Limits.Orphan }, Orphaned: d.audit.Orphaned,
	}
	d.sessions, err = session.New(session.Options{
		Gate: d.judge, Recorder: recorder, Store: d.store, Restorer: restorer{o.Step}, Logger: d.log,
		Earlier: func(attachment string) map[uint64]record.Record {
			return d.audit.Recorded(attachment, d.queue.Asked(attachment)...)
		},
		Withdraw: func(attachment string) { d.queue.WithdrawAttachment(attachment, "the agent has left") },
		Forget: func(session, attachment string) {
			finder.Forget(session, attachment)
			d.queue.WithdrawSession(session, "the session is over")
		},
		Protected: d.guard.Of,
		Patience:  agentconf.Patience,
		Windowed:  agentconf.Windowed,
	})
	return err
}

// newServer builds what serves both sockets.
func (d *Daemon) newServer(recorder gate.Recorder) *api.Server {
	o := d.options
	return api.New(api.Config{
		Sessions: d.sessions, Handed: d.handed, Approvals: d.queue, Audit: d.audit, Recorder: recorder, Policies: d.policies, Pins: d.pins, Guard: d.guard, Agents: d.runs, Trust: d.trust, Presence: d.presence, Fleets: d.fleets(), Extensions: d.extensions,
		Stages: &stages{d.policies, d.projects, d.ours, d.audit, d.presence, d.judge.Hooks},
		Logger: d.log, Build: o.Build, Started: time.Now(), Activated: o.Activated,
		Control: o.Paths.ControlSocket(), Shim: o.Paths.ShimSocket(), AuditDir: o.Paths.AuditDir(),
		Warnings: func() []string {
			return slices.Concat(d.policies.warnings(), d.pins.Warnings(), d.presence.Warnings(), d.extensions.Warnings(), d.samplingWarning(), d.textfileWarning(), d.tracesWarning(), d.audit.Shares(), d.keeperWarning(), d.sessionsWarning())
		}, Projects: d.projectFiles,
		Metrics: d.metrics,
		Stop:    func() { d.once.Do(func() { close(d.stop) }) },
	})
}
