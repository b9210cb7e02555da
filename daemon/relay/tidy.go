package relay

import (
	"runtime/debug"
	"sync"
	"time"
)

// large is how many bytes are worth it to give memory back that they took.
const large = 256 << 10

// rest is how long after a long line the system gets back what was needed for it.
const rest = 100 * time.Millisecond

var heap struct {
	sync.Mutex
	tidy *time.Timer
}

// tidyHeap gives back to the system, a little later, what the heap does not need any
// more.
func tidyHeap() {
	heap.Lock()
	defer heap.Unlock()
	if heap.tidy == nil {
		heap.tidy = time.AfterFunc(rest, debug.FreeOSMemory)
		return
	}
	heap.tidy.Reset(rest)
}
