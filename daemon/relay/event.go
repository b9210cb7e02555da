package relay

import (
	"fmt"
	"math"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxField bounds a field of an event, in bytes: more is in no message.
const maxField = 1 << 30

// event is something that happened to a session. All that a session knows comes of
// its events: a daemon that takes it over applies those that the journal holds.
type event interface {
	code(c *codec)
	// apply makes of s what the event makes of it. It fails, without having changed
	// anything, where the event can't have happened to s.
	apply(s *state) error
}

// kinds makes an empty event of each kind. The numbers are on disks of nobody, but
// in the memory of sessions that outlive a release: they are never given again.
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
	10: func() event { return new(owed) },
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
	case *owed:
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

// encode appends e to b.
func encode(b []byte, e event) []byte {
	c := codec{b: append(b, kindOf(e))}
	e.code(&c)
	return c.b
}

// decode reads one event, which keeps nothing of b.
func decode(b []byte) (event, error) {
	if len(b) == 0 || kinds[b[0]] == nil {
		return nil, fmt.Errorf("%w: an entry of its journal is of no kind that there is", mapping.ErrDamaged)
	}
	c := codec{b: b[1:], reading: true}
	e := kinds[b[0]]()
	e.code(&c)
	if c.err == nil && len(c.b) > 0 {
		c.fail("more than its kind has")
	}
	return e, c.err
}

// side is a field that is one of the two sides.
func (c *codec) side(v *wire.Side) {
	n := uint64(*v)
	c.number(&n, 1)
	*v = wire.Side(n)
}

func (c *codec) offset(v *uint64) { c.number(v, math.MaxInt64) }

// consumed: a side's input was taken up to an offset.
type consumed struct {
	side wire.Side
	upTo uint64
}

func (e *consumed) code(c *codec) { c.side(&e.side); c.offset(&e.upTo) }

// framed: the reader of a side stands within something that is longer than a line.
type framed struct {
	side  wire.Side
	state []byte
}

func (e *framed) code(c *codec) { c.side(&e.side); c.bytes(&e.state) }

// numbered: a line of a side has the number seq.
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

// which names an open request.
type which struct {
	side wire.Side // that asked
	key  string
}

func (w *which) code(c *codec) { c.side(&w.side); c.text(&w.key) }

// written: a request that was held goes on to the other side.
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

// closed: a request waits for an answer no more.
type closed struct{ which }

// cancelled: whoever has asked does not want the answer to a request any more.
type cancelled struct{ which }

// held: a line waits for a verdict that somebody else gives.
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

// reminded: the agent was told once more that a line is held.
type reminded struct{ seq uint64 }

func (e *reminded) code(c *codec) { c.offset(&e.seq) }

// decided: what becomes of a held line is known.
type decided struct{ seq uint64 }

func (e *decided) code(c *codec) { c.offset(&e.seq) }

// owed: a side is to be written a line.
type owed struct {
	to   wire.Side
	line []byte // with its line end
	seq  uint64 // it was judged under, as it is but for a notice; 0 when it was not

	reply bool // it is ours, to what that side has written itself
}

func (e *owed) code(c *codec) { c.side(&e.to); c.bytes(&e.line); c.offset(&e.seq); c.flag(&e.reply) }

// passed: a side is to be written what stands in the input of the other one.
type passed struct {
	to     wire.Side
	offset uint64
	n      uint64
}

func (e *passed) code(c *codec) { c.side(&e.to); c.offset(&e.offset); c.number(&e.n, maxField) }

// ended: it is known what came of a judged call, and is to be put on record.
type ended struct {
	seq     uint64
	outcome string
}

func (e *ended) code(c *codec) { c.offset(&e.seq); c.text(&e.outcome) }

// recorded: what came of a judged call is on record.
type recorded struct{ seq uint64 }

func (e *recorded) code(c *codec) { c.offset(&e.seq) }

// became: a call, whose result extensions want to see, goes on as a task.
type became struct {
	task string
	call origin
	// lost: not all such tasks are known any more.
	lost bool
}

func (e *became) code(c *codec) {
	c.text(&e.task)
	c.offset(&e.call.seq)
	c.bytes(&e.call.sentLine)
	c.flag(&e.lost)
}

// began: the agent has begun to speak, in the old way or the new one.
type began struct{ initialized, modern bool }

func (e *began) code(c *codec) { c.flag(&e.initialized); c.flag(&e.modern) }

// delivered: what is owed to a side next stands at an offset. It is the first of
// its kind in a journal that was written anew.
type delivered struct {
	to     wire.Side
	offset uint64
}

func (e *delivered) code(c *codec) { c.side(&e.to); c.offset(&e.offset) }
