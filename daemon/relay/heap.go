package relay

import (
	"runtime/debug"
	"sync"
	"time"
)

// minRelease is the number of used bytes from which memory is worth releasing.
const minRelease = 256 << 10

// releaseDelay is how long after a long line its memory is returned to the system.
const releaseDelay = 100 * time.Millisecond

var heap struct {
	sync.Mutex
	timer *time.Timer
}

// releaseHeap returns unused heap memory to the system after releaseDelay.
func releaseHeap() {
	heap.Lock()
	defer heap.Unlock()
	if heap.timer == nil {
		heap.timer = time.AfterFunc(releaseDelay, debug.FreeOSMemory)
		return
	}
	heap.timer.Reset(releaseDelay)
}
