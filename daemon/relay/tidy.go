package relay

import (
	"runtime/debug"
	"sync"
	"time"
)

// worthTidying is how many bytes are worth it to give memory back that they took.
const worthTidying = 256 << 10

// tidyAfter is how long after a long line the system gets back what was needed for it.
const tidyAfter = 100 * time.Millisecond

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
		heap.tidy = time.AfterFunc(tidyAfter, debug.FreeOSMemory)
		return
	}
	heap.tidy.Reset(tidyAfter)
}
