package relay

import (
	"runtime/debug"
	"sync"
	"time"
)

// minRelease is how many bytes are worth it to give memory back that they took.
const minRelease = 256 << 10

// releaseDelay is how long after a long line the system gets back what was needed for it.
const releaseDelay = 100 * time.Millisecond

var heap struct {
	sync.Mutex
	timer *time.Timer
}

// releaseHeap gives back to the system, a little later, what the heap does not need any
// more.
func releaseHeap() {
	heap.Lock()
	defer heap.Unlock()
	if heap.timer == nil {
		heap.timer = time.AfterFunc(releaseDelay, debug.FreeOSMemory)
		return
	}
	heap.timer.Reset(releaseDelay)
}
