package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is the current state of the daemon's parts, from which gauges are computed.
type State struct {
	Servers         []Server // one for each shim
	Kept            []Kept   // programs that the daemon keeps running
	Sessions        int      // whose wrap is running
	Ungoverned      int      // servers that run past their sessions
	Open            int      // waiting questions
	Waiting         int      // calls that wait for an answer
	HeldDefinitions int
	WithheldStarts  int
	Set             Set
	Audit           Audit
}

// Server is a server behind a shim.
type Server struct {
	ID      string
	Started bool // its process runs, or it is behind an address
	Shared  bool // the shim has no process of its own: the server is in Kept
}

// Kept is a program that the daemon keeps running.
type Kept struct {
	Kind     string // from a small fixed set
	Name     string
	State    string // from a small fixed set
	Restarts int
}

// Set is the policy set in force.
type Set struct {
	Digest, Profile string
	Rules, Policies int
	Since           time.Time
	ReloadFailed    bool // the last reload was refused
}

// Audit is the state of the audit log.
type Audit struct {
	Bytes     int64
	Unindexed int64         // of Bytes
	Failing   bool          // it can't be written
	Synced    bool          // records are synced to stable storage, so the fields below are valid
	Unsynced  uint64        // records that are not synced yet
	Lag       time.Duration // how long the oldest of them has been waiting
}

// collector collects the metrics that are computed from a State.
type collector struct {
	*Metrics
	build string
	state func() State
}

// Describe implements prometheus.Collector. It describes no metrics, so the registry checks them
// when they are collected.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	tell := func(d definition, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d.kind == counter {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(d.name, d.help, d.labels, nil), kind, value, labels...)
	}
	s := c.state()
	tell(buildInfo, 1, c.build, runtime.Version())
	tell(sessions, float64(s.Sessions))
	tell(ungoverned, float64(s.Ungoverned))
	tell(questionsOpen, float64(s.Open))
	tell(callsWaiting, float64(s.Waiting))
	tell(heldDefinitions, float64(s.HeldDefinitions))
	tell(withheldStarts, float64(s.WithheldStarts))
	tell(setInfo, 1, s.Set.Digest, s.Set.Profile)
	tell(setSince, float64(s.Set.Since.UnixMilli())/1000)
	tell(setRules, float64(s.Set.Rules))
	tell(setPolicies, float64(s.Set.Policies))
	tell(reloadFailed, one(s.Set.ReloadFailed))
	tell(auditSize, float64(s.Audit.Bytes))
	tell(auditUnindexed, float64(s.Audit.Unindexed))
	tell(auditFailing, one(s.Audit.Failing))
	if s.Audit.Synced {
		tell(auditUnsynced, float64(s.Audit.Unsynced))
		tell(auditLag, s.Audit.Lag.Seconds())
	}
	c.processes(tell, s.Servers, s.Kept)
}

// processes reports shims and their servers, and the programs that the daemon keeps running.
func (c *collector) processes(tell func(definition, float64, ...string), all []Server, kept []Kept) {
	by, states, again := map[[2]string]float64{}, map[[2]string]float64{}, map[[2]string]float64{}
	active := 0.0
	for _, s := range all {
		if s.Shared {
			continue
		}
		state := "starting"
		if s.Started {
			state = "running"
			active++
		}
		by[[2]string{c.servers.of("", s.ID), state}]++
		states[[2]string{"server", state}]++
	}
	for _, k := range kept {
		states[[2]string{k.Kind, k.State}]++
		again[[2]string{k.Kind, c.servers.of("", k.Name)}] += float64(k.Restarts)
		if k.Kind != "backend" {
			continue
		}
		switch k.State { // in any other state it has no process now
		case "degraded":
			by[[2]string{c.servers.of("", k.Name), "running"}]++
		case "starting", "running":
			by[[2]string{c.servers.of("", k.Name), k.State}]++
		}
	}
	for k, n := range states {
		tell(processes, n, k[0], k[1])
	}
	for k, n := range again {
		tell(restarts, n, k[0], k[1])
	}
	c.mu.Lock()
	for k, n := range c.ended {
		by[k] += n
	}
	c.mu.Unlock()
	for k, n := range by {
		tell(serverState, n, k[0], k[1])
	}
	tell(activeServers, active)
	tell(shims, float64(len(all)))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
