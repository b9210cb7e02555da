package gate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// traceBook is a Tracer that keeps traces.
type traceBook struct {
	off bool

	mu  sync.Mutex // guards the fields below
	all []*Trace
}

func (b *traceBook) Tracing() bool { return !b.off }
func (b *traceBook) Traced(t *Trace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, t)
}

// outcomes lists the outcomes of calls, in the order of their ends.
func (b *traceBook) outcomes() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, t := range b.all {
		all = append(all, fmt.Sprintf("%d:%s", t.Seq, t.Outcome))
	}
	return strings.Join(all, " ")
}

// allocationsOfCall returns how many allocations a call takes that is forwarded and answered.
func (h *fixture) allocationsOfCall() float64 {
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	a.Bind(func(Verdict) {})
	line, seq := []byte(aCall), uint64(0)
	return rig.Allocations(500, func() {
		seq++
		a.Submit(Submission{Seq: seq, Side: wire.FromAgent, Line: line})
		a.RecordOutcome(context.Background(), seq, "ok")
		h.records = h.records[:0]
	})
}

// fewest returns the minimum of several alternating measurements of two functions: garbage
// collections empty pools at random.
func fewest(a, b func() float64) (leastA, leastB float64) {
	leastA, leastB = a(), b()
	for range 4 {
		leastA, leastB = min(leastA, a()), min(leastB, b())
	}
	return leastA, leastB
}

// Unwanted traces cost nothing: a call allocates as much with a tracer that is off as with
// none.
func TestNoTracesNoAllocations(t *testing.T) {
	measure := func(tracer Tracer) float64 {
		h := newFixture()
		h.gate.Tracer = tracer
		return h.allocationsOfCall()
	}
	none, off := fewest(func() float64 { return measure(nil) }, func() float64 { return measure(&traceBook{off: true}) })
	if off > none+room {
		t.Errorf("%v allocations with traces off, %v without", off, none)
	}
	var nobody *Trace
	if n := testing.AllocsPerRun(100, func() {
		nobody.Finish(nobody.Begin(StageCedar))
		nobody.judged(nil)
		nobody.decided(Verdict{})
	}); n != 0 {
		t.Errorf("%v allocations of a trace that is none", n)
	}
}

// Each call has exactly one trace, however it ends.
func TestTracesEndOnce(t *testing.T) {
	h, book := newFixture(), &traceBook{}
	h.gate.Tracer = book
	h.rule = func(c *Call) Ruling {
		switch {
		case c.Seq == 2:
			return Ruling{Move: Deny, Gate: "rule"}
		case c.Seq == 3 || c.Seq == 4:
			return Ruling{Move: Ask}
		}
		return Ruling{Move: Forward, Gate: "rule"}
	}
	a := h.gate.Attach(context.Background(), shimX, nil)
	verdicts := collect(a)
	submit := func(seq uint64) {
		a.Submit(Submission{Seq: seq, Side: wire.FromAgent, Line: []byte(aCall)})
		<-verdicts
	}
	for seq := range uint64(5) {
		submit(seq + 1)
	}
	submit(1) // its stream broke: it is submitted again, and is the same call
	a.RecordOutcome(t.Context(), 1, "tool_error")
	a.RecordOutcome(t.Context(), 1, "ok")
	a.Cancel(3)
	h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
	a.Close(true)
	got := book.outcomes()
	for _, want := range []string{"2:denied", "1:tool_error", "5:lost"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %s, want %s once", got, want)
		}
	}
	for seq := 1; seq <= 5; seq++ {
		if n := strings.Count(got, fmt.Sprintf("%d:", seq)); n != 1 {
			t.Errorf("got %s, want call %d once", got, seq)
		}
	}
}

// A verdict that can't be recorded is an accident, whatever the rules decided.
func TestTraceOfAnAccident(t *testing.T) {
	h, book := newFixture(), &traceBook{}
	h.gate.Tracer, h.full = book, fmt.Errorf("no space left on device")
	_, a := submitTo(h, shimX, aCall)
	a.Close(true)
	if len(book.all) != 1 || book.all[0].Gate != "accident" || book.all[0].Verdict != "deny" || book.all[0].Outcome != OutcomeDenied {
		t.Errorf("got %+v", book.all)
	}
}

// From the agent's own trace context only unambiguous values of limited length are taken.
func TestTraceparent(t *testing.T) {
	for meta, want := range map[string]string{
		`{"traceparent":"00-ab"}`: "00-ab",
		`{"TRACEPARENT":"00-ab"}`: "",
		`{"traceparent":7}`:       "",
		`{}`:                      "",
		`{"traceparent":"` + strings.Repeat("0", 4*maxTraceparent) + `"}`: "",
	} {
		h, book := newFixture(), &traceBook{}
		h.gate.Tracer, h.ruling = book, Ruling{Move: Deny, Gate: "rule"}
		_, a := submitTo(h, shimX, strings.Replace(aCall, `"arguments"`, `"_meta":`+meta+`,"arguments"`, 1))
		a.Close(true)
		if len(book.all) != 1 || book.all[0].Parent != want {
			t.Errorf("%.60s: got %+v", meta, book.all)
		}
	}
}

// The memory for calls without an outcome is limited.
func TestTracesAreForgotten(t *testing.T) {
	h, book := newFixture(), &traceBook{}
	h.gate.Tracer = book
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	for seq := range uint64(remembered + 1) {
		a.Submit(Submission{Seq: seq + 1, Side: wire.FromAgent, Line: []byte(aCall)})
	}
	if got := book.outcomes(); got != "1:"+OutcomeForgotten {
		t.Errorf("got %q", got)
	}
}
