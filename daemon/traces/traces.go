// Package traces sends traces of calls to an OpenTelemetry collector.
//
// A call is not slowed down for it: while it is judged, the gate notes times in a
// gate.Trace, and nothing else. When the call is over the trace is kept or left out,
// put into a queue with an end, and one goroutine makes spans of it and sends them.
// A collector that is slow or gone costs traces, which are counted, and nothing
// more. Without a collector there is no trace, no queue and no goroutine.
package traces

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Traces sends what the gate tells to where the configuration says. It is safe for
// concurrent use.
type Traces struct {
	log    *slog.Logger
	build  string
	getenv func(string) string
	redact func(string) string

	on atomic.Bool // whether there is a sender; read for every call

	mu      sync.RWMutex // guards what follows
	now     settings
	sender  *sender // nil: nobody wants traces
	wrong   error   // why there is none though there should be
	closed  bool
	leaving sync.WaitGroup // of senders that were replaced
}

var _ gate.Tracer = (*Traces)(nil)

// New returns a Traces that sends nothing until Set is called. build is the
// version of the daemon, and getenv tells where credentials are. redact, which may
// be nil, takes secrets out of what strangers chose, as the name of a tool.
func New(log *slog.Logger, build string, getenv, redact func(string) string) *Traces {
	return &Traces{log: log, build: build, getenv: getenv, redact: redact}
}

// Set has traces sent as cfg says from now on. What was ended before still goes
// where it was to go, for which nobody waits here. When the headers can't be had
// nothing is sent, and Failure says so. Calls of Set must not overlap.
func (t *Traces) Set(cfg *config.Config) {
	next, err := settingsOf(cfg, t.getenv)
	if err != nil {
		t.log.Error("traces are not sent", "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = err
	if t.closed || reflect.DeepEqual(next, t.now) {
		return
	}
	if old := t.sender; old != nil {
		t.leaving.Go(old.close)
	}
	t.now, t.sender = next, nil
	if next.endpoint != "" {
		t.sender = newSender(next, t.build, t.log, t.redact)
	}
	t.on.Store(t.sender != nil)
}

// Tracing implements gate.Tracer.
func (t *Traces) Tracing() bool { return t.on.Load() }

// Traced implements gate.Tracer.
func (t *Traces) Traced(trace *gate.Trace) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.sender != nil && !t.closed {
		t.sender.take(trace)
	}
}

// Failure says why traces are missing, nil when none are.
func (t *Traces) Failure() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.wrong != nil:
		return t.wrong
	case t.sender != nil:
		return t.sender.failure()
	}
	return nil
}

// Close sends what is left and returns when nothing is going on any more, which
// takes a few seconds at most.
func (t *Traces) Close() {
	t.mu.Lock()
	t.closed = true
	t.on.Store(false)
	sender := t.sender
	t.mu.Unlock()
	if sender != nil {
		sender.close()
	}
	t.leaving.Wait()
}

// missing is what Failure says of traces that could not be sent.
type missing struct {
	err error
	n   uint64
}

func (m *missing) Error() string {
	if m.err == nil {
		return fmt.Sprintf("%d traces were left out, since the collector does not keep up", m.n)
	}
	return fmt.Sprintf("%d traces were not sent: %v", m.n, m.err)
}

func (m *missing) Unwrap() error { return m.err }
