package child

import (
	"sync"
	"sync/atomic"
)

// family is shared by all children of this process, because the kernel has one list of children
// for the whole process: nothing in it says which child an adopted orphan belongs to.
var family childFamily

type childFamily struct {
	adopts  atomic.Bool   // this process adopts orphans
	living  atomic.Int32  // children between Start and the end of Stop
	first   atomic.Uint64 // start of the oldest child: what is older were children of this process before
	watched sync.Map      // pidfds of this package, as int, on processes that it does not wait for
}

// recordStart records when a child started.
func (f *childFamily) recordStart(start uint64) {
	for {
		first := f.first.Load()
		if first != 0 && first <= start || f.first.CompareAndSwap(first, start) {
			return
		}
	}
}

// alone reports whether no child but the caller's, which may have ended already, can own an
// orphan. It must be called after the process table was read: every child that forked something
// in that table was counted by then.
func (f *childFamily) alone(ended bool) bool {
	if ended {
		return f.living.Load() == 0
	}
	return f.living.Load() == 1
}
