package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Recorder returns a recorder that passes records to to and counts them. It adds no allocation to a
// record.
func (m *Metrics) Recorder(to gate.Recorder) gate.Recorder { return &recorder{m, to} }

type recorder struct {
	m  *Metrics
	to gate.Recorder
}

// Record implements gate.Recorder.
func (c *recorder) Record(ctx context.Context, r *record.Record, values []byte, redact []string) error {
	began := time.Now()
	err := c.to.Record(ctx, r, values, redact)
	took := time.Since(began)
	c.m.write.Observe(took.Seconds())
	if err != nil {
		c.m.errors.Inc()
	} else {
		c.m.records.Inc()
	}
	c.m.count(r, took, err != nil)
	return err
}

// count counts a record. took is how long writing it took; lost reports that it could not be
// written.
func (m *Metrics) count(r *record.Record, took time.Duration, lost bool) {
	switch r.Kind {
	case record.KindCall:
		m.call(r, took, lost)
	case record.KindOutcome:
		m.outcomes.of(m.servers.of("", r.Server), cmp.Or(r.Verdict, none)).Inc()
	case record.KindOrphan:
		m.orphans.of(m.servers.of("", r.Server), r.Direction, among(methods, r.Method)).Inc()
	case record.KindDecision:
		m.questionsEnded.of(r.Verdict, among(surfaces, r.Surface)).Inc()
		if r.Verdict == "approved" || r.Verdict == "rejected" {
			m.approvals.of(m.servers.of("", r.Server)).Observe(microseconds(r.LatencyUS).Seconds())
		}
	case record.KindReload:
		m.reloads.of(r.Verdict).Inc()
	case record.KindAttach:
		if r.Verdict == "reattached" {
			m.reattachments.Inc()
		}
	case record.KindDetach:
		if r.Verdict == "lost" {
			m.lost.Inc()
		}
	case record.KindDenied:
		m.callersRefused.Inc()
	}
}

// call counts a verdict. One that could not be recorded counts as denied.
func (m *Metrics) call(r *record.Record, took time.Duration, lost bool) {
	verdict, by := r.Verdict, cmp.Or(r.Gate, none)
	decision := verdict
	switch {
	case lost:
		verdict, decision, by = "deny", "deny", "accident"
	case r.Would != "":
		decision = r.Would
	}
	server := m.servers.of("", r.Server)
	m.decisions.of(server, decision, cmp.Or(r.Profile, none)).Inc()
	m.verdicts.of(by, verdict).Inc()
	if r.Method == "tools/call" && r.Direction == fromAgent {
		m.toolCalls.of(server, m.tools.of(server, r.Tool), decision).Inc()
	}
	// A verdict that follows a person's answer has waited for it.
	if r.Verdict == "hold" || r.Approval == "" || r.Grant != "" {
		m.judge.Observe((microseconds(r.LatencyUS) + took).Seconds())
	}
}

// fromAgent is the name of the direction from the agent in records.
var fromAgent = gate.Direction(wire.FromAgent)

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
