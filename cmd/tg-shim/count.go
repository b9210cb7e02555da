package main

import (
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Most messages pass without a word to the daemon, which would wake it for each.
// They are counted here, and it is told how many there were.

const (
	// countEvery is how long a count may wait.
	countEvery = 2 * time.Second
	// mostCounts is how many methods are told apart, of both sides; what is past
	// them counts under no method.
	mostCounts = 128
)

// tally counts what was read since the daemon was told.
type tally struct {
	mu    sync.Mutex // guards what follows
	by    map[counted]uint64
	due   *time.Timer // tells the daemon
	armed bool        // due is set
}

type counted struct {
	side   wire.Side
	method string
}

// count notes that a message of side was read: a request or a notification for
// method, or the answer to one.
func (l *link) count(side wire.Side, method string) {
	t := &l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	k := counted{side, method}
	if _, known := t.by[k]; !known && len(t.by) >= mostCounts {
		k.method = ""
	}
	t.by[k]++
	if !t.armed {
		t.armed = true
		t.due.Reset(countEvery)
	}
}

// tellCounts tells the daemon what was counted since the last time.
func (l *link) tellCounts() {
	t := &l.tally
	t.mu.Lock()
	o := &pb.Observe{Unrecorded: true}
	for k, n := range t.by {
		o.Counts = append(o.Counts, &pb.Count{Direction: direction(k.side), Method: k.method, Messages: n})
	}
	clear(t.by)
	t.due.Stop()
	t.armed = false
	t.mu.Unlock()
	if len(o.Counts) > 0 {
		l.observe(o)
	}
}
