// Package daemon assembles the daemon from its parts. It is the only package that imports all of
// them. Most parts import the gate and none of the other parts.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/observe/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/observe/traces"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/pin/listing"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/agent"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/backend"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Options are the settings that a daemon is started with.
type Options struct {
	Paths     sock.Paths
	Config    string // --config; may be empty
	Getenv    func(string) string
	Logger    *slog.Logger
	Build     string
	Control   net.Listener // its connections know the process at the other end
	Shim      net.Listener
	Activated bool
	Keep      *keep.Store // where descriptors outlive the daemon; may be nil
	Stopping  func()      // called when the daemon begins to stop; may be nil

	// Step, if not nil, is called after each step of restoring a file. Tests use it to kill the
	// daemon there.
	Step func(string)
}

// Daemon is a daemon that is ready to run.
type Daemon struct {
	options  Options
	log      *slog.Logger
	user     string
	policies *policies
	projects *projects
	audit    *audit.Log
	recorder gate.Recorder // writes to audit, and counts
	index    *store.Index  // of audit; nil if it can't be opened
	store    *store.DB
	listings *listing.Registry
	standing *standing
	wraps    wraps
	named    named // cached result of ours
	queue    *approval.Queue
	presence *presence.Guard
	copies   *copies.Store
	pins     *pin.Registry
	guard    *protect.Guard
	finder   *facts.Finder
	judge    *gate.Gate
	trust    *trust.Registry
	sessions *session.Registry
	pool     *backend.Pool   // shared servers
	network  *remote.Network // to servers behind an address
	remotes  sync.Map        // *remote.Conn, by attachment
	handed   *handover.Registry
	hooks    *hook.Registry // of agents
	runs     *agent.Runs
	traces   *traces.Traces
	server   *api.Server
	logins   *logins // to servers behind an address
	fleet    *fleet.Membership

	fleetPolicy *fleet.Policy

	extensions *extension.Registry
	offers     *offer.Registry // their tools and models

	metrics  *metrics.Metrics
	textfile *metrics.Textfile
	stop     chan struct{} // closed when a call asks the daemon to stop
	left     sync.Once
}

// New loads the configuration, opens the audit log and the state, and recovers what a previous
// daemon left. The configuration is loaded first: if it is invalid by itself, New returns a
// *ConfigError and has touched nothing. A policy that does not fit the tools that servers listed to
// a previous daemon can make New fail later. Run must be called next.
func New(o Options) (*Daemon, error) {
	path, named := config.Find(o.Config, o.Getenv, o.Paths.Config)
	if _, _, err := load(path, named, o.Getenv); err != nil {
		return nil, err
	}
	d := &Daemon{options: o, log: o.Logger, user: owner(), projects: newProjects(o.Logger), stop: make(chan struct{})}
	d.traces = traces.New(o.Logger, o.Build, o.Getenv, func(text string) string { return d.audit.Redacted(text) })
	if err := d.open(path, named); err != nil {
		if d.store != nil {
			err = d.store.Explain(err)
		}
		d.close()
		return nil, err
	}
	d.traces.Set(d.policies.current.Load().config)
	return d, nil
}

// openState opens the state that is kept across restarts and makes the first policy set, which must
// fit the tools that servers have listed before.
func (d *Daemon) openState(path string, named bool) error {
	o := d.options
	var err error
	if d.store, err = store.Open(o.Paths.StateDB()); err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	if d.listings, err = listing.Open(d.store, d.log, d.listed); err != nil {
		return err
	}
	before, err := d.store.ActiveSet(context.Background()) // local and fast
	if err != nil {
		return err
	}
	d.standing = newStanding(d.store, d.log)
	d.policies = &policies{
		path: path, named: named, getenv: o.Getenv, log: d.log,
		options: []policy.Option{policy.WithKnown(d.known), policy.WithTools(d.listings)}, seen: d.seen, before: before,
	}
	first, problems, err := d.policies.load("")
	if err != nil {
		return err
	}
	for _, p := range problems {
		d.log.Warn(p.String())
	}
	d.policies.current.Store(&inForce{first, first.set, problems, time.Now(), "start"})
	d.policies.applied = func(c *config.Config) {
		d.audit.Apply(auditOptions(c, d.log))
		d.queue.SetLimits(c.Limits.PendingPerServer, c.Limits.Pending, int64(c.Limits.PendingBytes))
		d.pins.SetMode(c.Pins.Mode)
		d.sessions.Refresh()
		d.writeMetrics(c)
		d.traces.Set(c)
		d.scanExtensions()
		d.warnOfSessions()
	}
	d.policies.standing = d.standing.put
	if digest := first.set.Digest(); digest != before {
		d.standing.put(digest)
	}
	return nil
}

// attached reports whether a shim is attached.
func (d *Daemon) attached(attachment string) bool {
	return slices.ContainsFunc(d.sessions.Attachments(), func(a session.Attached) bool { return a.Shim.Attachment == attachment })
}

// projectFiles lists the files of the projects that contain the folders. Without folders, it lists
// those of the projects that agents work in now.
func (d *Daemon) projectFiles(folders ...string) []api.ProjectFile {
	if len(folders) > 0 {
		return d.projects.describe(folders)
	}
	for _, s := range d.sessions.List() {
		if s.Present {
			folders = append(folders, s.Session.Spec.Project)
		}
	}
	for _, a := range d.sessions.Attachments() {
		folders = append(folders, a.Shim.Project)
	}
	slices.Sort(folders)
	return d.projects.describe(slices.Compact(folders))
}

// lost records that the fact memory of a session is incomplete.
func (d *Daemon) lost(l facts.Loss) {
	d.log.Warn("the memory of what servers sent is incomplete", "server_id", l.Server, "session", l.Session, "reason", l.Reason)
	d.record(context.Background(), &record.Record{
		Kind: record.KindMemory, Session: l.Session, Attachment: l.Attachment, Server: l.Server, Profile: string(l.Profile), Reason: l.Reason,
	}, "record a loss of memory", "server_id", l.Server)
}

// steered records that a server's message is worded to steer a model.
func (d *Daemon) steered(s facts.Steer) {
	d.record(context.Background(), &record.Record{
		Kind: record.KindMemory, Session: s.Session, Attachment: s.Attachment, Server: s.Server, Profile: string(s.Profile), Method: s.Method, Facts: []string{gate.FactSteered},
		Reason: fmt.Sprintf("the server sent text that may steer a model (%q); such messages in this session: %d", s.Quote, s.Count),
	}, "record text that may steer a model", "server_id", s.Server)
}

// record records r. If that fails, it logs what and attrs.
func (d *Daemon) record(ctx context.Context, r *record.Record, what string, attrs ...any) {
	if err := d.recorder.Record(ctx, r, nil, nil); err != nil {
		d.log.Error(what, append(attrs, "err", err)...)
	}
}

// Reload puts the configuration on disk in force, or logs why it can't.
func (d *Daemon) Reload(ctx context.Context, by string) {
	_, problems, err := d.policies.Reload(ctx, by)
	if err != nil {
		for _, p := range problems {
			d.log.Error(p.String())
		}
	}
}

// Run serves until ctx ends or a call asks the daemon to stop, and then closes everything.
// Undecided questions remain for the next daemon.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.close()
	set := d.policies.Describe()
	start := &record.Record{Kind: record.KindStart, Reason: "thoughtgated " + d.options.Build, Set: set.Digest, Profile: string(set.Profile)}
	d.record(ctx, start, "the audit log can't be written; production denies every call until it is writable")
	d.writeMetrics(d.policies.current.Load().config)
	defer d.runBeside(ctx, d.pool.Run, "keep shared servers")()
	defer d.runBeside(ctx, d.extensions.Run, "run extensions")()
	defer d.runBeside(ctx, d.copies.Run, "remove old copies of destroyed files")()
	defer d.leave()
	defer d.runBeside(ctx, d.serveFleet, "serve the courier of the fleet")()
	if err := d.handed.Restore(ctx); err != nil {
		d.log.Error("recover the sessions of the previous daemon", "err", err)
	}
	d.warnOfSessions()
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.options.Control, d.options.Shim) }()
	lost := time.AfterFunc(session.ReattachGracePeriod, func() {
		d.queue.WithdrawUnclaimed("the agent has left")
		d.pins.Forget(d.attached)
	})
	defer lost.Stop()
	var err error
	select {
	case <-ctx.Done():
	case <-d.stop:
	case err = <-served:
		return err
	}
	if d.options.Stopping != nil {
		d.options.Stopping()
	}
	d.server.Close()
	err = <-served
	stop := &record.Record{Kind: record.KindStop, Reason: "thoughtgated " + d.options.Build, Profile: string(d.policies.set().Profile())}
	d.record(context.WithoutCancel(ctx), stop, "record the end")
	return err
}

// runBeside starts run in a goroutine. The returned function cancels it and waits for it. run does
// not end with ctx, since it serves sessions that end later: the sockets are closed first.
func (d *Daemon) runBeside(ctx context.Context, run func(context.Context) error, what string) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			d.log.Error(what, "err", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// leave closes the parts that judge for agents. Calls under way get no verdict; the next daemon
// judges them. So leave comes before the extensions end, which may be judging such calls.
func (d *Daemon) leave() {
	d.left.Do(func() {
		if d.logins != nil {
			d.logins.leave()
		}
		closePart(d.runs) // closes their sessions too
		closePart(d.handed)
		closePart(d.network) // after its clients
		closePart(d.hooks)
		closePart(d.sessions)
	})
}

// close closes the parts, each before those it depends on.
func (d *Daemon) close() {
	closePart(d.textfile)
	d.leave()
	d.traces.Close() // first, to export the spans of unfinished calls
	closePart(d.logins)
	closePart(d.fleetPolicy)
	closePart(d.guard)
	err := closePartOrFail(d.queue)
	closePart(d.presence)
	closePart(d.copies)
	closePart(d.listings)
	closePart(d.standing)
	err = errors.Join(err, closePartOrFail(d.store), closePartOrFail(d.audit), closePartOrFail(d.index))
	if err != nil {
		d.log.Error("close", "err", err)
	}
}

// closePart closes a part, unless it was never opened.
func closePart[P interface {
	comparable
	Close()
}](part P) {
	if part != *new(P) {
		part.Close()
	}
}

func closePartOrFail[P interface {
	comparable
	Close() error
}](part P) error {
	if part == *new(P) {
		return nil
	}
	return part.Close()
}
