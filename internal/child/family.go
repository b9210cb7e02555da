package child

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// family is shared by all children of this process, because the kernel has one list of children
// for the whole process: nothing in it says which child an adopted orphan belongs to.
var family childFamily

type childFamily struct {
	mu        sync.Mutex // guards the next three
	subreaper bool
	living    int    // children between Start and the end of Stop
	first     uint64 // start of the oldest child

	watched sync.Map // pidfds of this package, as int, on processes that it does not wait for
}

// begin records that a child is about to be forked.
func (f *childFamily) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living++
}

// began records a child's start. The first child determines what counts as an orphan: older
// processes were children of this process before.
func (f *childFamily) began(leader proc.Info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == 0 || leader.Start < f.first {
		f.first = leader.Start
	}
}

// end records that a child has ended or was not forked, and reports whether it was the last.
func (f *childFamily) end() (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living--
	return f.living == 0
}

// alone reports whether no child but the caller's, which may have ended already, can own an
// orphan. It must be called after the process table was read: every child that forked something
// in that table had begun by then.
func (f *childFamily) alone(ended bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ended {
		return f.living == 0
	}
	return f.living == 1
}

// origin returns whether this process adopts orphans, and when the first child started.
func (f *childFamily) origin() (subreaper bool, first uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.subreaper, f.first
}
