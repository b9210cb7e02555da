package mapping

import (
	"fmt"
	"sync/atomic"
)

// Cursor says how much of what is owed to a side was written to it, as offsets
// into all that was ever owed to it. A piece is first intended, then staged in a
// pipe that nobody else reads, and delivered once that pipe is empty again. Its
// methods are called by one goroutine at a time.
type Cursor struct{ words *cursorWords }

type cursorWords struct{ intent, staged, delivered uint64 }

// Cursor returns the cursor for what goes to a side.
func (m *Mapping) Cursor(to Side) (Cursor, error) {
	c := Cursor{&m.header().cursors[to]}
	if i, s, d := c.Intent(), c.Staged(), c.Delivered(); i < s || s < d {
		return c, fmt.Errorf("%w: it has delivered %d bytes, staged %d and intended %d", ErrDamaged, d, s, i)
	}
	return c, nil
}

// Intent is up to where a piece is to be staged.
func (c Cursor) Intent() uint64 { return atomic.LoadUint64(&c.words.intent) }

// Staged is up to where all was staged.
func (c Cursor) Staged() uint64 { return atomic.LoadUint64(&c.words.staged) }

// Delivered is up to where all was written.
func (c Cursor) Delivered() uint64 { return atomic.LoadUint64(&c.words.delivered) }

// SetIntent notes up to where the next piece is to be staged.
func (c Cursor) SetIntent(offset uint64) { atomic.StoreUint64(&c.words.intent, offset) }

// SetStaged notes up to where all was staged.
func (c Cursor) SetStaged(offset uint64) { atomic.StoreUint64(&c.words.staged, offset) }

// SetDelivered notes up to where all was written.
func (c Cursor) SetDelivered(offset uint64) { atomic.StoreUint64(&c.words.delivered, offset) }
