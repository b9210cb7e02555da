package child

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// family is shared by all children of this process, because the kernel keeps
// one list of children for the whole of it: an orphan that comes to us doesn't
// say whose it was.
var family clan

type clan struct {
	mu        sync.Mutex
	subreaper bool
	living    int          // children between Start and the end of Stop
	first     uint64       // when the oldest child of all was started
	watched   map[int]bool // our pidfds on processes that we don't wait for
}

// begin says that a child is about to be forked.
func (f *clan) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living++
}

// began says when it was. The first one sets what counts as an orphan: what is
// older was a child of ours before we started anything.
func (f *clan) began(leader proc.Info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == 0 || leader.Start < f.first {
		f.first = leader.Start
	}
}

// end says that a child has gone, or was never forked, and reports whether it
// was the last.
func (f *clan) end() (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.living--
	return f.living == 0
}

// alone reports whether no child but the one that is asking, which may have
// ended already, can own an orphan. A process table that was read before is
// judged rightly: whoever forked something in it had begun by then.
func (f *clan) alone(ended bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ended {
		return f.living == 0
	}
	return f.living == 1
}

// origin returns whether orphans come to us, and when the first child started.
func (f *clan) origin() (subreaper bool, first uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.subreaper, f.first
}

func (f *clan) watch(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched == nil {
		f.watched = make(map[int]bool)
	}
	f.watched[fd] = true
}

func (f *clan) unwatch(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watched, fd)
}

func (f *clan) isWatched(fd int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watched[fd]
}
