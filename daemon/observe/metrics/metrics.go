// Package metrics counts what the daemon does, for monitoring with Prometheus and compatible
// systems.
//
// It counts what is recorded: a Recorder in front of the audit log counts each record, so that no
// gate has to count, and none can forget to. Only messages and refused lines, which are not all
// recorded, are counted by the gate itself through a gate.Meter. Gauges, such as the number of
// waiting questions, are computed when the metrics are collected.
//
// There is no network listener. The metrics can be read over the control socket, and a Textfile
// writes them where an exporter finds them.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Metrics is what one daemon has counted since it started. Its methods are safe for concurrent use.
type Metrics struct {
	ours    *prometheus.Registry // defined by this package
	process *prometheus.Registry // the library's metrics of the process and of Go

	servers, tools *names

	messages, framingErrors, orphans    *handles[prometheus.Counter]
	decisions, verdicts                 *handles[prometheus.Counter]
	toolCalls, outcomes                 *handles[prometheus.Counter]
	questionsEnded, reloads             *handles[prometheus.Counter]
	records, errors                     prometheus.Counter
	reattachments, lost, callersRefused prometheus.Counter

	approvals    *handles[prometheus.Observer]
	judge, write prometheus.Observer

	mu    sync.Mutex            // guards ended
	ended map[[2]string]float64 // processes that have ended, by server and state
}

// New returns metrics with all counters at zero. build is the daemon's version. state is called by
// any goroutine when the metrics are collected.
func New(build string, state func() State) *Metrics {
	m := &Metrics{
		ours: prometheus.NewRegistry(), process: prometheus.NewRegistry(),
		servers: newNames(mostServers, mostServers), tools: newNames(mostToolsPerServer, mostTools), ended: map[[2]string]float64{},
	}
	m.messages, m.framingErrors = m.counts(messages), m.counts(framingErrors)
	m.orphans = m.counts(orphans)
	m.decisions, m.verdicts = m.counts(decisions), m.counts(verdicts)
	m.toolCalls, m.outcomes = m.counts(toolCalls), m.counts(outcomes)
	m.questionsEnded, m.reloads = m.counts(questionsEnded), m.counts(reloads)
	m.records, m.errors = m.counts(auditRecords).of(), m.counts(auditErrors).of()
	m.reattachments, m.lost = m.counts(reattachments).of(), m.counts(shimsLost).of()
	m.callersRefused = m.counts(callersRefused).of()

	m.approvals = m.measures(approvalLatency, slow)
	m.judge, m.write = m.measures(judgeDuration, quick).of(), m.measures(auditWrite, quick).of()

	m.ours.MustRegister(&collector{m, clean(build), state})
	m.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// counts registers a counter.
func (m *Metrics) counts(d definition) *handles[prometheus.Counter] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
	m.ours.MustRegister(vec)
	return newHandles(func(values []string) prometheus.Counter { return vec.WithLabelValues(values...) }, d)
}

// measures registers a histogram.
func (m *Metrics) measures(d definition, buckets []float64) *handles[prometheus.Observer] {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labels)
	m.ours.MustRegister(vec)
	return newHandles(func(values []string) prometheus.Observer { return vec.WithLabelValues(values...) }, d)
}

// handles caches the counters or histograms of a metric by their label values: a lookup in the
// library costs more than counting, and allocates.
type handles[H any] struct {
	labels int
	create func(values []string) H

	mu sync.RWMutex // guards by
	by map[values]H
}

// values are the label values of a metric, which has at most three labels.
type values [3]string

func newHandles[H any](create func([]string) H, d definition) *handles[H] {
	return &handles[H]{labels: len(d.labels), create: create, by: map[values]H{}}
}

// of returns the handle for the label values. The number of distinct values must be bounded,
// because handles are never removed.
func (h *handles[H]) of(of ...string) H {
	var v values
	copy(v[:], of)
	h.mu.RLock()
	handle, ok := h.by[v]
	h.mu.RUnlock()
	if ok {
		return handle
	}
	return h.add(v)
}

func (h *handles[H]) add(v values) H {
	h.mu.Lock()
	defer h.mu.Unlock()
	handle, ok := h.by[v]
	if !ok {
		handle = h.create(v[:h.labels])
		h.by[v] = handle
	}
	return handle
}

// Meter returns the gate.Meter of one server.
func (m *Metrics) Meter(server string) gate.Meter { return meter{m, m.servers.of("", server)} }

type meter struct {
	m      *Metrics
	server string
}

// Messages implements gate.Meter.
func (s meter) Messages(side wire.Side, method string, n uint64) {
	s.m.messages.of(s.server, gate.Direction(side), among(methods, method)).Add(float64(n))
}

// Refused implements gate.Meter.
func (s meter) Refused(kind string) { s.m.framingErrors.of(s.server, kind).Inc() }

// Ending is how the process of a server ended.
type Ending string

const (
	Exited    Ending = "exited"
	Signalled Ending = "signalled"
	Failed    Ending = "failed" // it could not be started
)

// Ended counts a server process that has ended.
func (m *Metrics) Ended(server string, how Ending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[[2]string{m.servers.of("", server), string(how)}]++
}
