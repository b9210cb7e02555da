package backend

import (
	"bytes"
	"context"
	"sync"
)

// mostLines is the capacity of a Queue in lines.
const mostLines = 1024

// Queue is a [Client] that keeps lines for one reader: at most 1,024 lines and 16 MiB, but always
// at least one line of any length. The zero value is ready for use.
type Queue struct {
	mu      sync.Mutex // guards the fields below
	lines   [][]byte   // oldest first
	bytes   int
	gone    error
	changed chan struct{} // closed when a line is added; nil if nobody waits
}

// Deliver implements Client. A line beyond the capacity ends the queue: the reader gets the lines
// before it, and then ErrSlow.
func (q *Queue) Deliver(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone != nil {
		return false
	}
	if len(q.lines) > 0 && (len(q.lines) >= mostLines || q.bytes+len(line) > mostBytes) {
		q.end(ErrSlow)
		return false
	}
	q.lines = append(q.lines, bytes.Clone(line))
	q.bytes += len(line)
	q.wake()
	return true
}

// Gone implements Client.
func (q *Queue) Gone(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone == nil {
		q.end(err)
	}
}

func (q *Queue) end(err error) {
	q.gone = err
	q.wake()
}

func (q *Queue) wake() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// Next returns the next line, which the caller then owns. If there are no more lines, it returns
// the reason.
func (q *Queue) Next(ctx context.Context) ([]byte, error) {
	for {
		q.mu.Lock()
		if len(q.lines) > 0 {
			line := q.lines[0]
			q.lines[0] = nil
			q.lines = q.lines[1:]
			q.bytes -= len(line)
			q.mu.Unlock()
			return line, nil
		}
		if q.gone != nil {
			defer q.mu.Unlock()
			return nil, q.gone
		}
		if q.changed == nil {
			q.changed = make(chan struct{})
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
