package mapping

import "sync/atomic"

// mostAttempts is how far attempts are counted.
const mostAttempts = 3

// Attempt notes that what stands at an offset of what was read from a side is dealt
// with now, and returns for how many times that was begun: more than once only when it
// has ended the daemon each time before.
func (m *Mapping) Attempt(side Side, offset uint64) int {
	word := &m.header().attempts[side]
	n := uint64(1)
	if old := atomic.LoadUint64(word); old>>2 == offset {
		n = min(old&mostAttempts+1, mostAttempts)
	}
	atomic.StoreUint64(word, offset<<2|n)
	return int(n)
}

// Excuse notes that the attempt under way ends for another reason.
func (m *Mapping) Excuse(side Side) { atomic.StoreUint64(&m.header().attempts[side], 0) }
