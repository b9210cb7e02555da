package main

import (
	"fmt"
	"os"
	"time"
)

// In each turn a way makes warmCalls that do not count, since caches and processors are in the
// state that the others left, and then the counted ones.
const (
	warmCalls  = 100
	callsAlone = 500  // one after the other
	callsMany  = 4000 // several in flight
)

// kind is a kind of measured message.
type kind struct{ name, method, tool string }

var (
	governed = kind{"call", "tools/call", "read"}
	passing  = kind{"pass", "ping", ""}
)

// turns holds the figures of the ways over the turns of a measurement.
type turns struct {
	*contest
	p50, p99 compared // µs from request to answer
	rate     compared // per second
	cpu      compared // seconds for 10,000
}

// calls measures messages of a kind with flight of them pending at a time, in n turns of each way.
func (c *contest) calls(k kind, flight, n int) (*turns, error) {
	t := &turns{contest: c, p50: compared{}, p99: compared{}, rate: compared{}, cpu: compared{}}
	sessions, err := t.open()
	if err != nil {
		return nil, err
	}
	count := callsAlone
	if flight > 1 {
		count = callsMany
	}
	err = t.inTurns(n, func(place int) error {
		w, s := t.ways[place], sessions[place]
		before := w.used(s)
		if _, err := s.pipeline(k.method, k.tool, warmCalls, flight); err != nil {
			return err
		}
		began := time.Now()
		took, err := s.pipeline(k.method, k.tool, count, flight)
		if err != nil {
			return err
		}
		t.rate.note(place, float64(count)/time.Since(began).Seconds())
		t.p50.note(place, micros(quantile(took, .5)))
		t.p99.note(place, micros(quantile(took, .99)))
		w.settle()
		spent := w.used(s) - before
		t.cpu.note(place, spent.Seconds()*10_000/float64(count+warmCalls))
		return nil
	})
	if cerr := sessions.close(); err == nil {
		err = cerr
	}
	return t, err
}

// take measures one kind of message with one number in flight, and reports it.
func (h *fixture) take(r *report, k kind, flight, n int) error {
	t, err := h.contest().calls(k, flight, n)
	if err != nil {
		return err
	}
	name := func(what string) string { return fmt.Sprintf("%s.%d.%s", k.name, flight, what) }
	p50 := t.row(t.p50)
	if flight == 1 { // with several in flight each waits for others, so the rate is more useful
		p50.Ratio = t.p50.timesAdded()
	}
	r.add(name("p50"), p50)
	r.add(name("p99"), t.row(t.p99))
	r.add(name("rate"), t.contest.rate(t.rate))
	r.add(name("cpu"), t.row(t.cpu))
	return nil
}

// measureLatency measures one message after the other: governed calls, and messages that pass
// unjudged.
func measureLatency(h *fixture, r *report, o options) error {
	if err := h.take(r, governed, 1, o.turns); err != nil {
		return err
	}
	return h.take(r, passing, 1, o.turns)
}

// measureThroughput keeps a number of messages in flight.
func measureThroughput(h *fixture, r *report, o options) error {
	for _, k := range []kind{governed, passing} {
		for _, flight := range []int{32, 256} {
			if err := h.take(r, k, flight, o.turns); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureAlways measures governed calls whose records are on stable storage before the calls
// are forwarded, and for comparison a write of that size alone.
func measureAlways(h *fixture, r *report, o options) error {
	var syncs []float64
	n := max(3, o.turns/3)
	t, err := h.contest().calls(governed, 1, n)
	if err != nil {
		return err
	}
	for range n {
		took, err := h.syncs(100)
		if err != nil {
			return err
		}
		syncs = append(syncs, micros(quantile(took, .5)))
	}
	row := t.row(t.p50)
	row.Ratio = t.p50.timesAdded()
	sync := median(syncs)
	row.Beyond = row.Added.value() - sync
	row.Note = fmt.Sprintf("adds one sync (%.0f µs) and %.0f µs", sync, row.Beyond)
	r.add("always.p50", row)
	return nil
}

// syncs returns how long it takes to append 400 bytes to a file and sync it, in the folder of
// the audit log.
func (h *fixture) syncs(n int) ([]time.Duration, error) {
	f, err := os.CreateTemp(h.dir+"/state", "sync")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	for range n {
		began := time.Now()
		if _, err := f.Write(make([]byte, 400)); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}
