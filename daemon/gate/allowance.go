package gate

import (
	"sync"
	"time"
)

// What passes or is refused unjudged is written down as it comes, and verdicts
// are told in the daemon's log, but neither without end: a peer that writes nonsense
// as fast as it can must not fill the disk with it.
const (
	notesInARow = 200
	notesRefill = time.Minute
)

// allowance is how much one attachment may have written in a time.
type allowance struct {
	mu    sync.Mutex // guards what follows
	taken int
	since time.Time
	left  uint64 // was not written
}

// rest returns how many were not written since the last that was, and forgets them.
func (a *allowance) rest() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.left
	a.left = 0
	return left
}

// take reports whether one more may be written now, and how many were not since
// the last that was.
func (a *allowance) take(now time.Time) (may bool, left uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) > notesRefill {
		a.since, a.taken = now, 0
	}
	a.taken++
	if a.taken > notesInARow {
		a.left++
		return false, 0
	}
	left, a.left = a.left, 0
	return true, left
}
