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
	gather      = time.Second      // how long a trace waits for others to go with
	patience    = 10 * time.Second // how long one request may take, with what is tried again
	lastWait    = 3 * time.Second  // how long the end waits for what is left
)

// ended is a trace that is to be sent, and where it belongs.
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
	done  chan struct{} // closed when all has ended
	once  sync.Once

	cancel context.CancelFunc // of the request that is under way

	lost atomic.Uint64 // traces that were not sent

	mu  sync.Mutex // guards what follows
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

// take queues a trace, or leaves it out.
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

// wanted reports whether a trace is to be sent. All that did not go well is. Of the
// rest it goes by the trace and not by the call, so that all calls of one run of an
// agent are kept or none; and nothing is that the agent itself does not keep.
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

// run sends what is queued until stop, and then what is left.
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

// collect returns the traces of one request, and false when they are the last.
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

// send makes one request of a batch. Failures are told when they begin and when
// they end.
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

// failure says what was not sent; nil when all was, up to now.
func (d *sender) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.lost.Load(); n > 0 {
		return &missing{d.err, n}
	}
	return nil
}

// close sends what is queued, for lastWait at most, and returns when that is over.
func (d *sender) close() {
	d.once.Do(func() { close(d.stop) })
	late := time.AfterFunc(lastWait, d.cancel)
	defer late.Stop()
	<-d.done
	d.cancel()
}
