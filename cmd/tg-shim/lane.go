package main

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/nowait"
)

// A lane writes lines to one peer in the order in which places in it were
// taken. A line whose verdict is not known yet keeps its place; what comes
// behind it waits. A line that is held for a person gives its place up and
// takes a new one at the end when the person has said yes.
//
// Who pushes onto an empty lane writes at once, without a hop to another
// goroutine, and so does who fills the only place. Where more is on its way run
// writes, and what is ready by then goes out in one write.
type lane struct {
	w io.Writer
	// once, when set, writes all of b or nothing, and never waits. It makes the
	// way of a verdict shorter: who brings it may write.
	once   func(b []byte) bool
	width  width        // belongs to whoever has set writing
	idlers atomic.Int32 // calls of idle that have not returned
	more   atomic.Bool  // who pushes has the next line already: let run write them together

	mu      sync.Mutex // guards what follows; never held while writing
	changed sync.Cond  // the head can be written, there is room, or the lane closes
	places  []*place   // oldest first
	size    int        // bytes of the lines in places
	owed    int        // of these the bytes of answers of ours
	writing bool       // somebody is in Write
	loose   bool       // it takes whatever comes
	closed  bool
	err     error // of the first failed Write; nothing is written after it
	scratch []byte
}

// place is one position in a lane. Its fields belong to the lane's mutex.
type place struct {
	line  []byte
	ready bool
	owed  bool // line is an answer of ours
	// due, when set, is asked for the line once the place is at the head: what
	// stands there depends on what became of the lines before it.
	due  func() []byte
	cost int // bytes that due keeps
}

// laneBytes is how much may wait in a lane before those who fill it pause.
// One line may always wait, however long it is.
const laneBytes = 4 << 20

var errLaneClosed = errors.New("the peer is gone")

func newLane(w io.Writer) *lane {
	l := &lane{w: w, width: widthOf(w)}
	l.changed.L = &l.mu
	if pipe, ok := w.(nowait.WriteConn); ok {
		writer := nowait.NewWriter(pipe)
		l.w, l.once = writer, onePiece(pipe, writer)
	}
	return l
}

// push takes the last place for line, which may be reused when push returns.
// It waits while the lane is full. With a long line, which is better not copied, it
// waits until all that can be was written.
func (l *lane) push(line []byte) error {
	if len(line) >= long {
		l.idlers.Add(1)
		defer l.idlers.Add(-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(line) >= long && (l.writing || len(l.places) > 0 && l.places[0].ready) && l.err == nil && !l.closed && !l.loose {
		l.changed.Wait()
	}
	if err := l.room(len(line)); err != nil {
		return err
	}
	if len(l.places) == 0 && !l.writing && (len(line) >= long || !l.more.Load()) {
		return l.write(line)
	}
	l.add(&place{line: append([]byte(nil), line...), ready: true})
	return nil
}

// insert is push for a line that a peer did not cause to be read just now: it
// never waits for room, so that who answers can't be stopped by who does not read.
func (l *lane) insert(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(&place{line: append([]byte(nil), line...), ready: true})
}

// reply is insert for an answer of ours. Whoever makes us answer, and does not
// read the answers, is read no more: see heed.
func (l *lane) reply(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed += len(line)
	l.add(&place{line: append([]byte(nil), line...), ready: true, owed: true})
}

// heed waits while the peer leaves more of our answers unread than may wait.
// What others send it does not count: a peer may have to write before it can
// read that.
func (l *lane) heed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.owed > laneBytes && l.err == nil && !l.closed && !l.loose {
		l.changed.Wait()
	}
}

// take takes the last place for a line that is not decided yet.
func (l *lane) take() *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{}
	l.add(p)
	return p
}

// reserve is take for a line of n bytes that will surely be written. It waits
// while the lane is full.
func (l *lane) reserve(n int) (*place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.room(n); err != nil {
		return nil, err
	}
	p := &place{}
	l.add(p)
	return p, nil
}

// later takes the last place for what due returns when the place has come to
// the head; nil writes nothing. It waits while the lane has no room for the cost
// bytes that due keeps.
func (l *lane) later(cost int, due func() []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.room(cost); err != nil {
		return err
	}
	l.add(&place{ready: true, due: due, cost: cost})
	return nil
}

func (l *lane) add(p *place) {
	l.places = append(l.places, p)
	l.size += len(p.line) + p.cost
	l.changed.Broadcast()
}

// fill puts line, which the lane owns from here on, into a place that was
// taken; nil gives the place up.
func (l *lane) fill(p *place, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.ready {
		return
	}
	if line != nil && len(line) < pipeBuf && l.once != nil && !l.writing && len(l.places) == 1 {
		l.scratch = append(append(l.scratch[:0], line...), '\n')
		if l.once(l.scratch) {
			line = nil // its place is given up now
		}
	}
	p.line, p.ready = line, true
	l.size += len(line)
	if len(l.places) == 1 && line == nil && !l.writing {
		l.places = l.places[:0]
		if l.idlers.Load() == 0 {
			return // run has nothing to do
		}
	}
	l.changed.Broadcast()
}

// room waits until a line of n bytes may be added. l.mu is held.
func (l *lane) room(n int) error {
	for l.size > 0 && l.size+n > laneBytes && l.err == nil && !l.closed && !l.loose {
		l.changed.Wait()
	}
	if l.err != nil {
		return l.err
	}
	if l.closed {
		return errLaneClosed
	}
	return nil
}

// idle waits until nothing waits in the lane and nothing is being written, for
// d at most, or until the lane is closed or broken.
func (l *lane) idle(d time.Duration) {
	l.idlers.Add(1)
	defer l.idlers.Add(-1)
	waitWhile(&l.changed, d, func() bool {
		return (len(l.places) > 0 || l.writing) && !l.closed && l.err == nil
	})
}

// loosen makes nobody wait for room any more. It is for the end, when what is
// still to come is no more than a pipe holds.
func (l *lane) loosen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loose = true
	l.changed.Broadcast()
}

// close makes run return when it has written what is ready. Places that were
// not filled by then are given up.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
}
