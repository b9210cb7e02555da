// Package traces sends traces of calls to an OpenTelemetry collector.
//
// It does not slow calls down: while a call is judged, the gate only records times in a gate.Trace.
// When the call has ended, the trace is sampled and put in a bounded queue, from which one
// goroutine makes spans and sends them. If a collector is slow or unreachable, traces are lost and
// counted; nothing else happens. Without a collector there are no traces, no queue and no
// goroutine.
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

// Traces sends the gate's traces to the configured collector. It is safe for concurrent use.
type Traces struct {
	log    *slog.Logger
	build  string
	getenv func(string) string
	redact func(string) string

	on atomic.Bool // whether there is a sender; read for every call

	mu      sync.RWMutex // guards the fields below
	now     settings
	sender  *sender // nil if no traces are wanted
	wrong   error   // why the settings could not be read
	closed  bool
	leaving sync.WaitGroup // replaced senders that are closing
}

var _ gate.Tracer = (*Traces)(nil)

// New returns a Traces that sends nothing until Set is called. build is the version of the daemon.
// getenv is used to find credentials. redact, which may be nil, removes secrets from untrusted
// text, such as the name of a tool.
func New(log *slog.Logger, build string, getenv, redact func(string) string) *Traces {
	return &Traces{log: log, build: build, getenv: getenv, redact: redact}
}

// Set makes further traces go where cfg says. Traces that ended before still go to the previous
// collector; Set does not wait for that. If the headers can't be read, nothing is sent, and Failure
// returns why. Calls of Set must not overlap.
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

// Failure returns why traces are missing, or nil if none are.
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

// Close sends the pending traces and returns when everything has ended, which takes a few seconds
// at most.
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

// missing is the error of Failure for traces that could not be sent.
type missing struct {
	err error
	n   uint64
}

func (m *missing) Error() string {
	if m.err == nil {
		return fmt.Sprintf("%d traces were dropped because the collector is too slow", m.n)
	}
	return fmt.Sprintf("%d traces were not sent: %v", m.n, m.err)
}

func (m *missing) Unwrap() error { return m.err }
