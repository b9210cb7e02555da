package relay

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// state is everything that is known of a session. Only events change it.
type state struct {
	taken  [2]uint64 // of the input of each side
	framed [2][]byte // state of each side's reader inside something longer than a line
	seqs   [2]uint64 // last number of a line of each side

	initialized bool // the agent has requested the legacy handshake
	modern      bool // the agent has made a request of the modern era

	open      [2]map[string]*request // by requester and key
	cancelled [2][]string            // keys of cancelled open requests, oldest first
	waiting   map[uint64]*waiting    // held lines, by seq
	out       [2]queue               // pending output of each side
	outcomes  map[uint64]string      // of calls, still to be recorded
	tasks     tasks
	agreed    agreements
}

// request is a request without an answer.
type request struct {
	side   wire.Side // that sent it
	key    string    // wire's canonical id
	id     []byte    // as written
	method string
	modern bool
	token  []byte // raw progress token; nil if it has none, or if the server sent it
	task   string // the task that it is about; empty for none

	number    uint64 // of its line
	sent      uint64 // when it was forwarded, in microseconds of Unix time; 0: it is held
	cancelled bool
	seq       uint64 // it was judged under, equal to number; 0 if it passed without being judged
	notice    string // text for the agent, put before the result's content
	inspect   bool   // extensions want to see its result
	sentLine  []byte // the line as written; only with inspect, or if it may have to be repeated to the next server
	ours      bool   // the session made it and consumes the answer
}

// waiting is a line that is held.
type waiting struct {
	seq       uint64
	side      wire.Side // that wrote it
	line      []byte    // never changed
	key       string    // of the request that it is or answers; empty for a notification
	id        []byte    // of that request, as written
	result    bool      // it answers a request, which is closed
	answers   string    // for a result, the method of that request
	modern    bool
	call      uint64 // for a result, the seq of that request; 0 if it was not judged
	about     uint64 // seq of the call behind it, if extensions want to see that
	request   []byte // that call as it was written
	notice    string // text for the agent, put before its content
	reminders uint64 // how often the agent was told that it is held

	withdrawn bool // the requester cancelled it while it was judged, before it was held
}

const (
	// maxOpen limits the requests without an answer, per side.
	maxOpen = 16384
	// maxCancelled limits the cancelled requests that are remembered so that a late answer
	// still passes.
	maxCancelled = 1024
	// maxHeld limits the held lines. The gate's own limits are far lower.
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

// corruptError returns the error of an event that can't have happened.
func corruptError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", mapping.ErrCorrupt, fmt.Sprintf(format, args...))
}

func (e *consumed) apply(s *state) error {
	if e.upTo < s.taken[e.side] {
		return corruptError("input was consumed up to %d, and then up to %d", s.taken[e.side], e.upTo)
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
		return corruptError("line %d came after line %d", e.seq, s.seqs[side])
	}
	s.seqs[side] = e.seq
	return nil
}

// nextSeq returns the next number for a line of a side. Judged lines and requests get numbers.
// Each side has its own numbers, so that a daemon that judges a line again after the previous
// one was killed uses the same number.
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
		return corruptError("a request was opened twice")
	case len(s.open[r.side]) >= maxOpen:
		return corruptError("more than %d requests are open", maxOpen)
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
	return nil, corruptError("the request is not open")
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
	if r != nil && r.cancelled { // it may be removed already: see cancelled
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
		return corruptError("line %d was held twice, or too many lines are held", w.seq)
	}
	s.waiting[w.seq] = &w
	return nil
}

func (e *decided) apply(s *state) error {
	if s.waiting[e.seq] == nil {
		return corruptError("line %d was decided but not held", e.seq)
	}
	delete(s.waiting, e.seq)
	return nil
}

func (e *reminded) apply(s *state) error {
	w := s.waiting[e.seq]
	if w == nil {
		return corruptError("the agent was notified that line %d is held, but it is not", e.seq)
	}
	w.reminders++
	return nil
}

func (e *queued) apply(s *state) error {
	return s.out[e.to].add(item{line: e.line, n: uint64(len(e.line)), seq: e.seq, reply: e.reply})
}
func (e *passed) apply(s *state) error { return s.out[e.to].add(item{offset: e.offset, n: e.n}) }

func (e *ended) apply(s *state) error {
	if len(s.outcomes) >= 2*maxOpen {
		return corruptError("too many outcomes are not recorded")
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
		return corruptError("a delivery was recorded too late")
	}
	q.start, q.end = e.offset, e.offset
	return nil
}

// answering returns the held answer to a request of side, or nil.
func (s *state) answering(side wire.Side, key string) *waiting {
	for _, w := range s.waiting {
		if w.result && w.side == other(side) && w.key == key {
			return w
		}
	}
	return nil
}

// owes reports whether side waits for an answer to a request.
func (s *state) owes(side wire.Side) bool {
	for _, r := range s.open[side] {
		if !r.cancelled {
			return true
		}
	}
	return false
}

// size returns the approximate number of bytes of the encoded state.
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

// besideFields is the approximate size of an event without its longest fields.
const besideFields = 64
