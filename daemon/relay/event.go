package relay

import (
	"fmt"
	"math"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxField limits a field of an event, in bytes. No message is longer.
const maxField = 1 << 30

// event is something that happened to a session. The state of a session is the result of its
// events: a daemon that recovers it applies those in the journal.
type event interface {
	code(c *codec)
	// apply applies the event to s. If the event can't have happened to s, apply returns an
	// error and leaves s unchanged.
	apply(s *state) error
}

// kinds returns an empty event for each kind number. The numbers are not stored on disks, but
// in the memory of sessions that outlive a release, so a number must never be reused.
var kinds = map[byte]func() event{
	1:  func() event { return new(consumed) },
	2:  func() event { return new(framed) },
	3:  func() event { return new(numbered) },
	4:  func() event { return new(opened) },
	5:  func() event { return new(written) },
	6:  func() event { return new(closed) },
	7:  func() event { return new(cancelled) },
	8:  func() event { return new(held) },
	9:  func() event { return new(decided) },
	10: func() event { return new(queued) },
	11: func() event { return new(passed) },
	12: func() event { return new(ended) },
	13: func() event { return new(recorded) },
	14: func() event { return new(became) },
	15: func() event { return new(began) },
	16: func() event { return new(delivered) },
	17: func() event { return new(reminded) },
	18: func() event { return new(agreed) },
	19: func() event { return new(cleared) },
}

func kindOf(e event) byte {
	switch e.(type) {
	case *consumed:
		return 1
	case *framed:
		return 2
	case *numbered:
		return 3
	case *opened:
		return 4
	case *written:
		return 5
	case *closed:
		return 6
	case *cancelled:
		return 7
	case *held:
		return 8
	case *decided:
		return 9
	case *queued:
		return 10
	case *passed:
		return 11
	case *ended:
		return 12
	case *recorded:
		return 13
	case *became:
		return 14
	case *began:
		return 15
	case *delivered:
		return 16
	case *reminded:
		return 17
	case *agreed:
		return 18
	case *cleared:
		return 19
	}
	panic(fmt.Sprintf("relay: an event of type %T has no kind", e))
}

// encode returns e as a journal entry, which is valid until the next call.
func (c *codec) encode(e event) []byte {
	c.b = append(c.b[:0], kindOf(e))
	e.code(c)
	return c.b
}

// decode parses one event. The event retains nothing of b.
func decode(b []byte) (event, error) {
	if len(b) == 0 || kinds[b[0]] == nil {
		return nil, fmt.Errorf("%w: a journal entry has an unknown kind", mapping.ErrCorrupt)
	}
	c := codec{b: b[1:], reading: true}
	e := kinds[b[0]]()
	e.code(&c)
	if c.err == nil && len(c.b) > 0 {
		c.fail("extra bytes")
	}
	return e, c.err
}

// side codes a field that is one of the two sides.
func (c *codec) side(v *wire.Side) {
	n := uint64(*v)
	c.number(&n, 1)
	*v = wire.Side(n)
}

func (c *codec) offset(v *uint64) { c.number(v, math.MaxInt64) }

// consumed: a side's input was handled up to an offset.
type consumed struct {
	side wire.Side
	upTo uint64
}

func (e *consumed) code(c *codec) { c.side(&e.side); c.offset(&e.upTo) }

// framed: the reader of a side is inside something that is longer than a line.
type framed struct {
	side  wire.Side
	state []byte
}

func (e *framed) code(c *codec) { c.side(&e.side); c.bytes(&e.state) }

// numbered: a line of a side got the number seq.
type numbered struct {
	seq uint64
}

func (e *numbered) code(c *codec) { c.offset(&e.seq) }

// opened: a request waits for an answer.
type opened struct {
	request
}

func (e *opened) code(c *codec) {
	r := &e.request
	c.side(&r.side)
	c.text(&r.key)
	c.bytes(&r.id)
	c.text(&r.method)
	c.flag(&r.modern)
	c.bytes(&r.token)
	c.text(&r.task)
	c.offset(&r.number)
	c.offset(&r.sent)
	c.flag(&r.cancelled)
	c.offset(&r.seq)
	c.text(&r.notice)
	c.flag(&r.inspect)
	c.bytes(&r.sentLine)
	c.flag(&r.ours)
}

// which identifies an open request.
type which struct {
	side wire.Side // that sent it
	key  string
}

func (w *which) code(c *codec) { c.side(&w.side); c.text(&w.key) }

// written: a held request is forwarded to the other side.
type written struct {
	which
	sent     uint64
	notice   string
	inspect  bool
	sentLine []byte
}

func (e *written) code(c *codec) {
	e.which.code(c)
	c.offset(&e.sent)
	c.text(&e.notice)
	c.flag(&e.inspect)
	c.bytes(&e.sentLine)
}

// closed: a request no longer waits for an answer.
type closed struct{ which }

// cancelled: the requester no longer wants the answer to a request.
type cancelled struct{ which }

// held: a line waits for a verdict that comes later.
type held struct{ waiting }

func (e *held) code(c *codec) {
	w := &e.waiting
	c.offset(&w.seq)
	c.side(&w.side)
	c.bytes(&w.line)
	c.text(&w.key)
	c.bytes(&w.id)
	c.flag(&w.result)
	c.text(&w.answers)
	c.flag(&w.modern)
	c.offset(&w.call)
	c.offset(&w.about)
	c.bytes(&w.request)
	c.text(&w.notice)
	c.offset(&w.reminders)
}

// reminded: the agent was told again that a line is held.
type reminded struct{ seq uint64 }

func (e *reminded) code(c *codec) { c.offset(&e.seq) }

// decided: a held line has its final verdict or was cancelled.
type decided struct{ seq uint64 }

func (e *decided) code(c *codec) { c.offset(&e.seq) }

// queued: a line was added to a side's pending output.
type queued struct {
	to   wire.Side
	line []byte // with its line end
	seq  uint64 // it was judged under, unchanged but for a notice; 0 if it was not judged

	reply bool // a reply of the session to something that side wrote
}

func (e *queued) code(c *codec) { c.side(&e.to); c.bytes(&e.line); c.offset(&e.seq); c.flag(&e.reply) }

// passed: a line in the input of one side was added to the pending output of the other.
type passed struct {
	to     wire.Side
	offset uint64
	n      uint64
}

func (e *passed) code(c *codec) { c.side(&e.to); c.offset(&e.offset); c.number(&e.n, maxField) }

// ended: the outcome of a judged call is known and must be recorded.
type ended struct {
	seq     uint64
	outcome string
}

func (e *ended) code(c *codec) { c.offset(&e.seq); c.text(&e.outcome) }

// recorded: the outcome of a judged call has been recorded.
type recorded struct{ seq uint64 }

func (e *recorded) code(c *codec) { c.offset(&e.seq) }

// became: a call whose result extensions want to see continues as a task.
type became struct {
	task string
	call origin
	// lost: some such tasks have been forgotten.
	lost bool
}

func (e *became) code(c *codec) {
	c.text(&e.task)
	c.offset(&e.call.seq)
	c.bytes(&e.call.sentLine)
	c.flag(&e.lost)
}

// began: the agent has requested the legacy handshake, or made its first modern request.
type began struct{ initialized, modern bool }

func (e *began) code(c *codec) { c.flag(&e.initialized); c.flag(&e.modern) }

// delivered: a side's pending output starts at an offset. It is the first event of its kind in
// a rewritten journal.
type delivered struct {
	to     wire.Side
	offset uint64
}

func (e *delivered) code(c *codec) { c.side(&e.to); c.offset(&e.offset) }
