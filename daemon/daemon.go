// Package daemon puts the parts together. It is the only place that knows all
// of them; each of them knows the gate and none of its siblings.
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

	"github.com/thoughtgate/thoughtgated/daemon/agent"
	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/backend"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/extension"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/listing"
	"github.com/thoughtgate/thoughtgated/daemon/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/presence"
	"github.com/thoughtgate/thoughtgated/daemon/protect"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/daemon/traces"
	"github.com/thoughtgate/thoughtgated/daemon/trust"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Options is what a daemon is started with.
type Options struct {
	Paths     sock.Paths
	Config    string // --config, may be empty
	Getenv    func(string) string
	Logger    *slog.Logger
	Build     string
	Control   net.Listener // connections know their peer
	Shim      net.Listener
	Activated bool
	Keep      *keep.Store // where descriptors outlive the daemon; nil for nowhere
	Stopping  func()      // told when the end begins; nil: nobody wants to know

	// Step, when not nil, is told of each step of putting a file back, once it was
	// taken. It is for tests, which kill the daemon there.
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
	index    *store.Index  // of audit; nil when it can't be opened
	store    *store.DB
	listings *listing.Book
	standing *standing
	wraps    wraps
	named    named // what is ours
	queue    *approval.Queue
	presence *presence.Guard
	pins     *pin.Book
	guard    *protect.Guard
	judge    *gate.Gate
	trust    *trust.Book
	sessions *session.Registry
	pool     *backend.Pool // servers that sessions share
	handed   *handover.Book
	runs     *agent.Runs
	traces   *traces.Traces
	server   *api.Server

	extensions *extension.Registry
	offers     *offer.Book // of their tools

	metrics  *metrics.Metrics
	textfile *metrics.Textfile
	stop     chan struct{} // closed when a call asks the daemon to end
	left     sync.Once
}

// New loads the configuration, opens the record and the state, and takes up
// what an earlier daemon left. The configuration comes first: where it is wrong
// in itself (a *ConfigError), nothing has been touched; what servers have listed
// to an earlier daemon can refuse it later. Run must be called next.
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

// openState opens what is kept over a restart, and makes the first set, which
// has to fit what servers have listed to the daemon before.
func (d *Daemon) openState(path string, named bool) error {
	o := d.options
	var err error
	if d.store, err = store.Open(o.Paths.StateDB()); err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	if d.listings, err = listing.Open(d.store, d.log, d.listed); err != nil {
		return err
	}
	before, err := d.store.Standing(context.Background()) // it is local, and takes a moment
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
	d.policies.current.Store(&inForce{first, problems, time.Now(), "start"})
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

// projectFiles lists the files of the projects that the folders lie in, with none
// those that agents work in now.
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

// lost writes down that the memory of a session is not whole any more.
func (d *Daemon) lost(l facts.Loss) {
	d.log.Warn("the memory of what servers said is not whole", "server_id", l.Server, "session", l.Session, "reason", l.Reason)
	d.record(context.Background(), &record.Record{
		Kind: record.KindMemory, Session: l.Session, Attachment: l.Attachment, Server: l.Server, Profile: string(l.Profile), Reason: l.Reason,
	}, "record a loss of memory", "server_id", l.Server)
}

// steered writes down that a server has said what is worded to steer a model.
func (d *Daemon) steered(s facts.Steer) {
	d.record(context.Background(), &record.Record{
		Kind: record.KindMemory, Session: s.Session, Attachment: s.Attachment, Server: s.Server, Profile: string(s.Profile), Method: s.Method, Facts: []string{facts.Steered},
		Reason: fmt.Sprintf("what the server said is worded to steer a model (%q); messages of that kind in this session: %d", s.Quote, s.Count),
	}, "record what is worded to steer a model", "server_id", s.Server)
}

// record writes r down, or logs that what failed, with attributes.
func (d *Daemon) record(ctx context.Context, r *record.Record, what string, attrs ...any) {
	if err := d.recorder.Record(ctx, r, nil, nil); err != nil {
		d.log.Error(what, append(attrs, "err", err)...)
	}
}

// Reload puts the configuration on disk in force, or logs why not.
func (d *Daemon) Reload(ctx context.Context, by string) {
	_, problems, err := d.policies.Reload(ctx, by)
	if err != nil {
		for _, p := range problems {
			d.log.Error(p.String())
		}
	}
}

// Run serves until ctx ends or a call asks for the end, and then closes
// everything. What is undecided stays open for the next daemon.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.close()
	set := d.policies.Describe()
	start := &record.Record{Kind: record.KindStart, Reason: "thoughtgated " + d.options.Build, Set: set.Digest, Profile: string(set.Profile)}
	d.record(ctx, start, "the audit log can't be written; in production every call is refused until it can")
	d.writeMetrics(d.policies.current.Load().config)
	defer d.runBeside(ctx, d.pool.Run, "keep shared servers")()
	defer d.runBeside(ctx, d.extensions.Run, "run extensions")()
	defer d.leave()
	if err := d.handed.Restore(ctx); err != nil {
		d.log.Error("go on with the sessions of an earlier daemon", "err", err)
	}
	d.warnOfSessions()
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.options.Control, d.options.Shim) }()
	lost := time.AfterFunc(session.Reattach, func() {
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

// runBeside calls run, and returns what ends it and waits for that. What it runs for
// sessions is ended when none is left, which is not when ctx ends: the sockets close
// first.
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

// leave ends what judges for agents. What is under way has no verdict: the next daemon
// judges it. So it comes before the end of extensions, which may have been asked.
func (d *Daemon) leave() {
	d.left.Do(func() {
		end(d.runs) // their sessions go with them
		end(d.handed)
		end(d.sessions)
	})
}

// close ends the parts, each before those it stands on.
func (d *Daemon) close() {
	end(d.textfile)
	d.leave()
	d.traces.Close() // what calls that are not over have come to is told first
	end(d.guard)
	err := endOrFail(d.queue)
	end(d.presence)
	end(d.listings)
	end(d.standing)
	err = errors.Join(err, endOrFail(d.store), endOrFail(d.audit), endOrFail(d.index))
	if err != nil {
		d.log.Error("close", "err", err)
	}
}

// end closes a part, unless it was never opened.
func end[P interface {
	comparable
	Close()
}](part P) {
	if part != *new(P) {
		part.Close()
	}
}

func endOrFail[P interface {
	comparable
	Close() error
}](part P) error {
	if part == *new(P) {
		return nil
	}
	return part.Close()
}
