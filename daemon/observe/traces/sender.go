package traces

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const (
	mostWaiting = 1024             // traces in the queue
	mostAtOnce  = 128              // traces in one request
	gather      = time.Second      // how long a trace waits for others to share its request
	patience    = 10 * time.Second // timeout of one request, with its retries
	lastWait    = 3 * time.Second  // how long close waits for the pending traces
)

// ended is a trace to be sent, with its place.
type ended struct {
	trace *gate.Trace
	at    place
}

// sender sends traces to one collector.
type sender struct {
	rate  float64
	spans *spanMaker
	out   *exporter
	log   *slog.Logger

	queue chan ended
	stop  chan struct{} // closed when no more traces come
	done  chan struct{} // closed when run has returned
	once  sync.Once

	cancel context.CancelFunc // cancels the request under way

	lost atomic.Uint64 // traces that were not sent

	mu  sync.Mutex // guards the fields below
	err error      // of the last request
}

func newSender(s settings, build string, log *slog.Logger, redact func(string) string) *sender {
	d := &sender{
		rate: s.rate, spans: newSpanMaker(s.resource, build, redact), out: newExporter(s), log: log,
		queue: make(chan ended, mostWaiting), stop: make(chan struct{}), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	go d.run(ctx)
	return d
}

// take queues a trace, or drops it.
func (d *sender) take(t *gate.Trace) {
	e := ended{t, placeOf(t)}
	if !d.wanted(e) {
		return
	}
	select {
	case d.queue <- e:
	default:
		d.lost.Add(1)
	}
}

// wanted reports whether a trace is to be sent. Every trace with a failure is. The others are
// sampled by trace and not by call, so that all calls of one agent run are kept or none. A trace
// that the agent itself does not sample is not sent.
func (d *sender) wanted(e ended) bool {
	switch e.trace.Outcome {
	case "ok", gate.OutcomeCancelled:
	default:
		return true
	}
	if e.at.parent.IsValid() && !e.at.parent.IsSampled() {
		return false
	}
	return d.rate >= 1 || float64(binary.BigEndian.Uint64(e.at.trace[8:])>>1) < d.rate*math.MaxInt64
}

// run sends queued traces until stop is closed and the queue is empty.
func (d *sender) run(ctx context.Context) {
	defer close(d.done)
	defer d.out.close()
	for {
		batch, more := d.collect()
		if len(batch) > 0 {
			d.send(ctx, batch)
		}
		if !more {
			return
		}
	}
}

// collect returns the traces for one request. more is false if they are the last.
func (d *sender) collect() (batch []ended, more bool) {
	select {
	case e := <-d.queue:
		batch = append(batch, e)
	case <-d.stop:
	}
	enough := time.NewTimer(gather)
	defer enough.Stop()
	for len(batch) < mostAtOnce {
		select {
		case e := <-d.queue:
			batch = append(batch, e)
		case <-enough.C:
			return batch, true
		case <-d.stop:
			if len(d.queue) == 0 {
				return batch, false
			}
		}
	}
	return batch, true
}

// send sends a batch in one request. It logs when failures begin and when they end.
func (d *sender) send(ctx context.Context, batch []ended) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := d.out.export(ctx, d.spans.all(batch))
	d.mu.Lock()
	before := d.err
	d.err = err
	d.mu.Unlock()
	switch {
	case err != nil:
		lost := d.lost.Add(uint64(len(batch)))
		if before == nil {
			d.log.Warn("traces can't be sent", "err", err, "lost", lost)
		}
	case before != nil:
		d.log.Info("traces are sent again", "lost", d.lost.Load())
	}
}

// failure returns why traces were lost, or nil if none were.
func (d *sender) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.lost.Load(); n > 0 {
		return &missing{d.err, n}
	}
	return nil
}

// close sends the queued traces, for at most lastWait, and returns when run has ended.
func (d *sender) close() {
	d.once.Do(func() { close(d.stop) })
	late := time.AfterFunc(lastWait, d.cancel)
	defer late.Stop()
	<-d.done
	d.cancel()
}
