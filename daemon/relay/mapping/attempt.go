package mapping

import "sync/atomic"

// mostAttempts is the highest number of attempts that is counted.
const mostAttempts = 3

// Attempt records that the data at an offset of a side's input is being handled, and returns
// how often that was begun, up to mostAttempts. A number above 1 means that the daemon ended
// during each earlier attempt.
func (m *Mapping) Attempt(side Side, offset uint64) int {
	word := &m.header().attempts[side]
	n := uint64(1)
	if old := atomic.LoadUint64(word); old>>2 == offset {
		n = min(old&mostAttempts+1, mostAttempts)
	}
	atomic.StoreUint64(word, offset<<2|n)
	return int(n)
}

// Excuse resets the count: the attempt under way ends for another reason.
func (m *Mapping) Excuse(side Side) { atomic.StoreUint64(&m.header().attempts[side], 0) }
