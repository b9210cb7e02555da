package pipe

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Go's runtime has a thread that watches over the others (sysmon). When nothing runs it goes to
// sleep. The next system call wakes it, and it then looks around every 20 µs, for a millisecond
// at least. Where one message comes at a time, that happened twice for each: a quarter of what a
// call took. A goroutine in a short system call counts as running, so one that makes such calls
// all the time keeps the thread from falling asleep, and it looks around every 10 ms.

const (
	// awakeMillis is how long each of the system calls takes.
	awakeMillis = 2
	// awakeCalls is how many of them are made after the last message.
	awakeCalls = 25
)

var (
	messages atomic.Bool // some came during the current system call
	awake    atomic.Bool // makeSystemCalls runs
)

// keepMonitorAwake must be called whenever a message may have come.
func keepMonitorAwake() {
	if !messages.Load() {
		messages.Store(true)
	}
	if !awake.Load() && awake.CompareAndSwap(false, true) {
		go makeSystemCalls()
	}
}

// makeSystemCalls makes system calls, until about 50 ms after the last message.
func makeSystemCalls() {
	defer awake.Store(false)
	for left := awakeCalls; left > 0; left-- {
		if messages.Swap(false) {
			left = awakeCalls
		}
		_, _ = unix.Poll(nil, awakeMillis) // waits for nothing but the time; a signal may end it
		runtime.Gosched()                  // a goroutine that never yields counts as stuck after 10 ms
	}
}
