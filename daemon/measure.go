package daemon

import (
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/observe/metrics"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

// measure creates the metrics and the recorder that counts what it records.
func (d *Daemon) measure() {
	d.metrics = metrics.New(d.options.Build, d.state)
	d.textfile = d.metrics.NewTextfile(d.log)
	d.recorder = d.metrics.Recorder(d.audit)
}

// state returns the state of the parts for the metrics.
func (d *Daemon) state() metrics.State {
	var s metrics.State
	for _, a := range d.sessions.Attachments() {
		if a.Shim.Host {
			continue // its process is counted among the programs that the daemon runs
		}
		s.Servers = append(s.Servers, metrics.Server{ID: a.Shim.Server, Started: a.Server.PID != 0 || a.Shim.Remote, Shared: a.Shim.InMemory && !a.Shim.Remote})
	}
	for _, fleet := range d.fleets() {
		for _, i := range fleet.List() {
			s.Kept = append(s.Kept, metrics.Kept{Kind: i.Kind, Name: i.Name, State: i.Status.State.String(), Restarts: i.Status.Restarts})
		}
	}
	for _, one := range d.sessions.List() {
		if one.Present {
			s.Sessions++
			s.Ungoverned += len(one.Ungoverned)
		}
	}
	s.Open, s.Waiting = d.queue.Counts()
	s.HeldDefinitions, s.WithheldStarts = d.pins.Waiting(), d.trust.Waiting()

	now := d.policies.current.Load()
	set := now.judges.Describe()
	failure, _ := d.policies.Failure()
	s.Set = metrics.Set{
		Digest: set.Digest, Profile: string(set.Profile), Rules: set.Rules, Policies: set.Policies,
		Since: now.since, ReloadFailed: failure != "",
	}
	s.Audit = metrics.Audit(d.audit.Standing())
	return s
}

// writeMetrics configures the text file of metrics.
func (d *Daemon) writeMetrics(cfg *config.Config) {
	d.textfile.Set(nextTo(cfg, cfg.Metrics.Textfile), cfg.Metrics.Interval)
}

// fleets returns the programs that the daemon keeps running, by the part that runs them.
func (d *Daemon) fleets() []supervise.Fleet {
	return []supervise.Fleet{d.pool, d.runs, joined{d.extensions.Fleet(), d.offers}}
}
