package relay

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// state is all that is known of a session. Only events change it.
type state struct {
	taken  [2]uint64 // of the input of each side
	framed [2][]byte // where the reader of each side stands within what is longer than a line
	seqs   [2]uint64 // the last number that a line of each side has

	initialized bool // the agent has asked for the legacy handshake
	modern      bool // the agent has made a request of the modern era

	open      [2]map[string]*request // by who asked, and by key
	cancelled [2][]string            // keys of open requests that were cancelled, oldest first
	waiting   map[uint64]*waiting    // held lines, by seq
	out       [2]queue               // what each side is owed
	outcomes  map[uint64]string      // of calls, that are to be put on record
	tasks     tasks
	agreed    agreements
}

// request is one request that was not answered yet.
type request struct {
	side   wire.Side // that asked
	key    string    // wire's canonical id
	id     []byte    // as written
	method string
	modern bool
	token  []byte // raw progress token; nil when it gave none, or does not ask the server
	task   string // the task that it asks about; empty for none

	number    uint64 // of its line
	sent      uint64 // when it went on its way to the other side, which may answer it, in microseconds of Unix time; 0: it is held
	cancelled bool
	seq       uint64 // it was judged under, which is its number; 0 when it passed unjudged
	notice    string // what the agent is told before the result's content
	inspect   bool   // extensions want to see its result
	sentLine  []byte // then, or where a server that comes later has to be told: as it was written
	ours      bool   // the session has made it, and takes the answer
}

// waiting is a line that is held.
type waiting struct {
	seq       uint64
	side      wire.Side // that wrote it
	line      []byte    // nobody changes it
	key       string    // of the request that it is, or answers; empty for a notification
	id        []byte    // of that request, as written
	result    bool      // it answers a request, which is closed
	answers   string    // then: the method of that request
	modern    bool
	call      uint64 // then: the seq of that request, 0 when it was not judged
	about     uint64 // the seq of the call that it came of, where extensions want to see that
	request   []byte // then: that call as it was written
	notice    string // what the agent is told before its content
	reminders uint64 // how often the agent was told that it is held

	envelope  *wire.Envelope // of line, where it was read from these very bytes; else nil
	withdrawn bool           // whoever asked has taken it back while it was judged, before it was held
}

const (
	// maxOpen bounds the requests without an answer that are kept for each side.
	maxOpen = 16384
	// maxCancelled bounds how many cancelled requests are remembered, so that an
	// answer that was on its way still passes.
	maxCancelled = 1024
	// maxHeld bounds the held lines. The gate's own limits are far below.
	maxHeld = 65536
)

func newState() *state {
	return &state{
		open:     [2]map[string]*request{{}, {}},
		waiting:  map[uint64]*waiting{},
		outcomes: map[uint64]string{},
		tasks:    tasks{by: map[string]*origin{}},
	}
}

// damaged is the error of an event that can't have happened.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", mapping.ErrDamaged, fmt.Sprintf(format, args...))
}

func (e *consumed) apply(s *state) error {
	if e.upTo < s.taken[e.side] {
		return damaged("input was taken up to %d, and then up to %d", s.taken[e.side], e.upTo)
	}
	s.taken[e.side] = e.upTo
	return nil
}

func (e *framed) apply(s *state) error {
	s.framed[e.side] = e.state
	return nil
}

func (e *numbered) apply(s *state) error {
	side := sideOf(e.seq)
	if e.seq <= s.seqs[side] {
		return damaged("line %d came after line %d", e.seq, s.seqs[side])
	}
	s.seqs[side] = e.seq
	return nil
}

// nextSeq is the number of the next line of a side that gets one: those that are
// judged, and requests. The two sides have numbers of their own, so that a daemon which
// judges a line again, since the one before it was killed, does so under the same.
func (s *state) nextSeq(side wire.Side) uint64 {
	if s.seqs[side] == 0 {
		return 2 + uint64(side)
	}
	return s.seqs[side] + 2
}

func sideOf(seq uint64) wire.Side { return wire.Side(seq % 2) }

func (e *opened) apply(s *state) error {
	r := e.request
	switch {
	case s.open[r.side][r.key] != nil:
		return damaged("a request was opened twice")
	case len(s.open[r.side]) >= maxOpen:
		return damaged("more than %d requests are open", maxOpen)
	}
	s.open[r.side][r.key] = &r
	if r.cancelled {
		s.cancelled[r.side] = append(s.cancelled[r.side], r.key)
	}
	return nil
}

func (w which) of(s *state) (*request, error) {
	if r := s.open[w.side][w.key]; r != nil {
		return r, nil
	}
	return nil, damaged("a request that is not open")
}

func (e *written) apply(s *state) error {
	r, err := e.of(s)
	if err != nil {
		return err
	}
	r.sent, r.notice, r.inspect = e.sent, e.notice, e.inspect
	if e.sentLine != nil {
		r.sentLine = e.sentLine
	}
	return nil
}

func (e *closed) apply(s *state) error {
	r := s.open[e.side][e.key]
	if r != nil && r.cancelled { // it may be gone: see cancelled
		s.cancelled[e.side] = slices.DeleteFunc(s.cancelled[e.side], func(key string) bool { return key == e.key })
	}
	delete(s.open[e.side], e.key)
	return nil
}

func (e *cancelled) apply(s *state) error {
	r, err := e.of(s)
	if err != nil {
		return err
	}
	if r.cancelled {
		return nil
	}
	r.cancelled = true
	keys := append(s.cancelled[r.side], r.key)
	if len(keys) > maxCancelled {
		if old := s.open[r.side][keys[0]]; old != nil && old.cancelled {
			delete(s.open[r.side], keys[0])
		}
		keys = keys[1:]
	}
	s.cancelled[r.side] = keys
	return nil
}

func (e *held) apply(s *state) error {
	w := e.waiting
	if s.waiting[w.seq] != nil || len(s.waiting) >= maxHeld {
		return damaged("line %d was held twice, or too many are", w.seq)
	}
	s.waiting[w.seq] = &w
	return nil
}

func (e *decided) apply(s *state) error {
	if s.waiting[e.seq] == nil {
		return damaged("line %d was decided that was not held", e.seq)
	}
	delete(s.waiting, e.seq)
	return nil
}

func (e *reminded) apply(s *state) error {
	w := s.waiting[e.seq]
	if w == nil {
		return damaged("the agent was told that line %d is held, which it was not", e.seq)
	}
	w.reminders++
	return nil
}

func (e *owed) apply(s *state) error {
	return s.out[e.to].add(item{line: e.line, n: uint64(len(e.line)), seq: e.seq, reply: e.reply})
}
func (e *passed) apply(s *state) error { return s.out[e.to].add(item{offset: e.offset, n: e.n}) }

func (e *ended) apply(s *state) error {
	if len(s.outcomes) >= 2*maxOpen {
		return damaged("too many outcomes are not on record")
	}
	s.outcomes[e.seq] = e.outcome
	return nil
}

func (e *recorded) apply(s *state) error {
	delete(s.outcomes, e.seq)
	return nil
}

func (e *became) apply(s *state) error {
	s.tasks.lost = s.tasks.lost || e.lost
	if e.task != "" {
		call := e.call
		s.tasks.add(e.task, &call)
	}
	return nil
}

func (e *began) apply(s *state) error {
	s.initialized, s.modern = s.initialized || e.initialized, s.modern || e.modern
	return nil
}

func (e *delivered) apply(s *state) error {
	q := &s.out[e.to]
	if len(q.items) > 0 || q.end > 0 {
		return damaged("what was delivered is said too late")
	}
	q.start, q.end = e.offset, e.offset
	return nil
}

// answering returns the held answer to a request of side, nil for none.
func (s *state) answering(side wire.Side, key string) *waiting {
	for _, w := range s.waiting {
		if w.result && w.side == other(side) && w.key == key {
			return w
		}
	}
	return nil
}

// owes reports whether a request of side is owed an answer.
func (s *state) owes(side wire.Side) bool {
	for _, r := range s.open[side] {
		if !r.cancelled {
			return true
		}
	}
	return false
}

// size is about how many bytes it takes to write down what is known.
func (s *state) size() int {
	n := 0
	for side := range s.out {
		for _, i := range s.out[side].items {
			n += len(i.line) + besideFields
		}
		for _, r := range s.open[side] {
			n += len(r.sentLine) + len(r.id) + len(r.key) + len(r.notice) + besideFields
		}
	}
	for _, w := range s.waiting {
		n += len(w.line) + len(w.request) + besideFields
	}
	return n + s.tasks.bytes + besideFields*(len(s.outcomes)+len(s.tasks.order))
}

// besideFields is about how many bytes an event takes beside its longest fields.
const besideFields = 64
