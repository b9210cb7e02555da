package wire

import (
	"context"
	"sync"
	"sync/atomic"
)

// Frames that wait to be written. Past either, whoever has more waits.
const (
	mostQueued      = 64
	mostQueuedBytes = 1 << 20
)

// outbox puts frames in an order and writes them in it, one at a time, so that
// a stream that nobody reads stops only those who have something to say.
type outbox struct {
	work chan struct{} // has an item when there may be frames

	mu     sync.Mutex // guards what follows
	queue  []*outgoing
	size   int
	room   chan struct{} // closed, and made anew, when frames were taken
	err    error         // why no more are taken
	closed bool
}

// outgoing is one frame on its way out.
type outgoing struct {
	frame []byte
	id    string      // of the call that fails when it can't be written; or empty
	taken atomic.Bool // it is being written, or was
}

func (o *outbox) init() {
	o.work, o.room = make(chan struct{}, 1), make(chan struct{})
}

// push puts a frame at the end of the queue. It waits for room until ctx ends,
// unless the frame is urgent.
func (o *outbox) push(ctx context.Context, out *outgoing, urgent bool) error {
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return o.err
		}
		full := len(o.queue) >= mostQueued || len(o.queue) > 0 && o.size+len(out.frame) > mostQueuedBytes
		if urgent || !full {
			o.queue, o.size = append(o.queue, out), o.size+len(out.frame)
			o.mu.Unlock()
			poke(o.work)
			return nil
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// retract takes a frame out of the queue, and reports whether it was there
// still.
func (o *outbox) retract(out *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, queued := range o.queue {
		if queued == out {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			o.gone(out)
			return true
		}
	}
	return false
}

// gone makes the room of a frame free. o.mu is held.
func (o *outbox) gone(out *outgoing) {
	o.size -= len(out.frame)
	close(o.room)
	o.room = make(chan struct{})
}

// close refuses what comes, for that reason, and lets run return.
func (o *outbox) close(reason error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = reason
	}
	o.closed = true
	o.queue, o.size = nil, 0
	close(o.room)
	o.room = make(chan struct{})
	o.mu.Unlock()
	poke(o.work)
}

// run writes until the outbox is closed. When a write fails, the frames that
// are left, and all to come, fail with that error; what was written before may
// be answered still.
func (o *outbox) run(w *Writer, unsent func(id string, err error)) {
	for range o.work {
		for {
			out, closed := o.next()
			if closed {
				return
			}
			if out == nil {
				break
			}
			err := w.Write(out.frame)
			if err == nil {
				continue
			}
			if w.failed() {
				o.mu.Lock()
				o.err = err
				o.mu.Unlock()
			}
			if out.id != "" {
				unsent(out.id, err)
			}
		}
	}
}

// next takes the first frame; nil when there is none.
func (o *outbox) next() (out *outgoing, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, true
	}
	if len(o.queue) == 0 {
		return nil, false
	}
	out = o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.gone(out)
	out.taken.Store(true)
	return out, false
}
