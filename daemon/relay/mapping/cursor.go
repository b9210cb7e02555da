package mapping

import (
	"fmt"
	"sync/atomic"
)

// Cursor holds how much of a side's output was written, as offsets into all output that the
// side ever had. A piece is first intended, then staged in a pipe that nobody else reads, and
// delivered when that pipe is empty again. Only one goroutine at a time may use it.
type Cursor struct{ words *cursorWords }

type cursorWords struct{ intent, staged, delivered uint64 }

// Cursor returns the cursor of the output to a side.
func (m *Mapping) Cursor(to Side) (Cursor, error) {
	c := Cursor{&m.header().cursors[to]}
	if i, s, d := c.Intent(), c.Staged(), c.Delivered(); i < s || s < d {
		return c, fmt.Errorf("%w: %d bytes delivered, %d staged and %d intended", ErrCorrupt, d, s, i)
	}
	return c, nil
}

// Intent returns the offset up to which output is to be staged.
func (c Cursor) Intent() uint64 { return atomic.LoadUint64(&c.words.intent) }

// Staged returns the offset up to which output was staged.
func (c Cursor) Staged() uint64 { return atomic.LoadUint64(&c.words.staged) }

// Delivered returns the offset up to which output was written.
func (c Cursor) Delivered() uint64 { return atomic.LoadUint64(&c.words.delivered) }

// SetIntent stores the offset up to which output is to be staged.
func (c Cursor) SetIntent(offset uint64) { atomic.StoreUint64(&c.words.intent, offset) }

// SetStaged stores the offset up to which output was staged.
func (c Cursor) SetStaged(offset uint64) { atomic.StoreUint64(&c.words.staged, offset) }

// SetDelivered stores the offset up to which output was written.
func (c Cursor) SetDelivered(offset uint64) { atomic.StoreUint64(&c.words.delivered, offset) }
