package main

import (
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxOpen bounds the requests without an answer that the ledger keeps for each
// direction.
const maxOpen = 16384

// maxCancelled bounds how many cancelled requests are remembered, so that an
// answer that was on its way still passes.
const maxCancelled = 1024

// A ledger knows which requests are open in each direction. Every open request
// gets exactly one answer: whoever removes it gives the answer.
type ledger struct {
	mu        sync.Mutex
	open      [2]map[string]*request // by who asked (wire.Side)
	cancelled [2][]string            // keys of cancelled requests, oldest first
	answers   [2]map[string]*call    // what answers a request and is being judged, by who asked
	over      [2]bool                // nobody is left to answer that side
	changed   sync.Cond              // fewer are open

	silence silence // see unanswered
}

// request is one request that was not answered yet.
type request struct {
	key    string // wire's canonical id
	id     []byte // as written
	method string
	modern bool
	side   wire.Side // who asked
	token  []byte    // raw progress token; nil when it gave none, or does not ask the server
	task   string    // the task that it asks about; empty for none
	line   []byte    // of a request that is made again of a shared server that was started anew; nil for another
	ours   bool      // the shim has made it, and takes the answer

	// The ledger's mutex guards what follows.
	written   bool // it is on its way to the other side, which may answer it
	cancelled bool
	call      *call     // the submission that judges or judged it, nil when it passed
	since     time.Time // when it was written
	told      uint64    // its seq, once the daemon was told that it has no answer; else 0
}

func newLedger() *ledger {
	l := &ledger{open: [2]map[string]*request{{}, {}}, answers: [2]map[string]*call{{}, {}}}
	l.changed.L = &l.mu
	return l
}

type addition uint8

const (
	added addition = iota
	alreadyOpen
	tooMany
	tooLate
)

// add opens r.
func (l *ledger) add(r *request) addition {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := l.open[r.side]
	if _, ok := open[r.key]; ok || l.answers[r.side][r.key] != nil {
		return alreadyOpen
	}
	if l.over[r.side] {
		return tooLate
	}
	if len(open) >= maxOpen {
		return tooMany
	}
	open[r.key] = r
	if r.written {
		l.wait(r)
	}
	return added
}

// remove removes r, which is open. l.mu is held.
func (l *ledger) remove(r *request) {
	delete(l.open[r.side], r.key)
	l.silence.over(r)
}

// settle removes and returns the open request that an answer to side's id
// belongs to. The second result is false when nobody was asked: an answer to a
// request that is held still is a forgery.
func (l *ledger) settle(side wire.Side, key string) (*request, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.open[side][key]
	if !ok || !r.written {
		return nil, false
	}
	l.remove(r)
	l.changed.Broadcast()
	return r, true
}

// write notes that r is about to be written, and reports whether it may be: it
// is open still, and the other side was not told already that it is cancelled.
func (l *ledger) write(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.written = true
	if l.open[r.side][r.key] != r {
		return false
	}
	if r.cancelled { // nothing that is not written is answered
		l.remove(r)
		return false
	}
	l.wait(r)
	return true
}

// close removes r if it is open still, and reports whether it was: the caller
// owes the answer then.
func (l *ledger) close(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[r.side][r.key] != r || r.cancelled {
		return false
	}
	l.remove(r)
	return true
}

// find returns the open request of side with the id.
func (l *ledger) find(side wire.Side, key string) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[side][key]
}

// attach notes which submission judges r.
func (l *ledger) attach(r *request, c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.call = c
}

// judgement returns the submission that judges r, nil when it passed unjudged.
func (l *ledger) judgement(r *request) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.call
}

// weigh notes that c, which answers a request, is being judged: to whoever asked
// that request is open until the answer has been let through.
func (l *ledger) weigh(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[c.request.side][c.request.key] = c
}

// weighing returns the answer to a request of side that is being judged, nil for
// none.
func (l *ledger) weighing(side wire.Side, key string) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[side][key]
}

// weighed notes that it is known what becomes of an answer.
func (l *ledger) weighed(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answers[c.request.side], c.request.key)
	l.changed.Broadcast()
}

// allWeighed waits until no answer to a request of side is being judged, for d at
// most.
func (l *ledger) allWeighed(side wire.Side, d time.Duration) {
	waitWhile(&l.changed, d, func() bool { return len(l.answers[side]) > 0 })
}

// cancel notes that the other side was told that r's answer is not wanted, and
// reports whether that is news. An answer may still come, so r stays, but none
// is owed any more.
func (l *ledger) cancel(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[r.side][r.key] != r || r.cancelled {
		return false
	}
	r.cancelled = true
	l.silence.over(r)
	keys := append(l.cancelled[r.side], r.key)
	if len(keys) > maxCancelled {
		if old := l.open[r.side][keys[0]]; old != nil && old.cancelled {
			delete(l.open[r.side], keys[0])
		}
		keys = keys[1:]
	}
	l.cancelled[r.side] = keys
	return true
}

// drain removes and returns every open request of side that is owed an answer,
// and lets none be opened after.
func (l *ledger) drain(side wire.Side) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []*request
	for _, r := range l.open[side] {
		l.silence.over(r)
		if !r.cancelled {
			owed = append(owed, r)
		}
	}
	clear(l.open[side])
	l.over[side] = true
	return owed
}

// unanswered returns an open request of the agent for method, nil for none.
func (l *ledger) unanswered(method string) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.open[wire.FromAgent] {
		if r.method == method && !r.cancelled {
			return r
		}
	}
	return nil
}

// loseWritten removes and returns the requests of the agent that are on their way
// to the server, but for those in spared, and forgets what the server has asked.
// Those that the agent has cancelled are not returned.
func (l *ledger) loseWritten(spared map[string]bool) []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []*request
	for key, r := range l.open[wire.FromAgent] {
		if !r.written || spared[key] {
			continue
		}
		l.remove(r)
		if !r.cancelled {
			lost = append(lost, r)
		}
	}
	for _, r := range l.open[wire.FromServer] {
		l.silence.over(r)
	}
	clear(l.open[wire.FromServer])
	l.changed.Broadcast()
	return lost
}

// settled waits until no request of side is owed an answer, for d at most.
func (l *ledger) settled(side wire.Side, d time.Duration) {
	waitWhile(&l.changed, d, func() bool { return l.owes(side) })
}

func (l *ledger) owes(side wire.Side) bool {
	for _, r := range l.open[side] {
		if !r.cancelled {
			return true
		}
	}
	return false
}
