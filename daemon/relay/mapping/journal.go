package mapping

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Journal holds what happened to a session, as entries whose content belongs to the caller.
// Added entries take effect together, with [Journal.Commit].
//
// It is written to one half of its memory. When that half is full, the caller writes entries
// that lead to the same state to the other half, which is then the valid one. Only one
// goroutine at a time may use it.
type Journal struct {
	m     *Mapping
	half  uint64 // the valid half
	tail  int    // bytes committed in it
	added int    // bytes behind tail that are not committed yet
	limit int    // value of tail from which it is full
}

const (
	// usual is how many bytes the journal holds before it is rewritten, unless twice its size
	// after the last rewrite is more.
	usual = 64 << 10
	head  = 4 // bytes of an entry's length
)

// Journal returns the journal. If a previous daemon has written entries, they must be read
// first with [Journal.Entries].
func (m *Mapping) Journal() (*Journal, error) {
	live := atomic.LoadUint64(&m.header().live)
	j := &Journal{m: m, half: live & 1, limit: usual}
	if live>>1 > halfSpace {
		return nil, fmt.Errorf("%w: its journal ends at %d", ErrCorrupt, live>>1)
	}
	j.tail = int(live >> 1)
	j.limit = max(usual, 2*j.tail)
	return j, nil
}

// Entries calls each with the committed entries, oldest first, until it returns an error.
// entry is the memory itself, which other processes may modify: each must copy what it reads
// twice.
func (j *Journal) Entries(each func(entry []byte) error) error {
	rest := j.m.half(j.half)[:j.tail]
	for len(rest) > 0 {
		if len(rest) < head {
			return fmt.Errorf("%w: a journal entry is cut short", ErrCorrupt)
		}
		n := binary.LittleEndian.Uint32(rest)
		if uint64(n) > uint64(len(rest)-head) {
			return fmt.Errorf("%w: a journal entry claims %d of %d bytes", ErrCorrupt, n, len(rest)-head)
		}
		if err := each(rest[head : head+n : head+n]); err != nil {
			return err
		}
		rest = rest[head+n:]
	}
	return nil
}

// Add adds an entry, which takes effect when it is committed. It returns false if there is no
// room for it.
func (j *Journal) Add(parts ...[]byte) bool {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	at := j.tail + j.added
	if n > halfSpace-head-at {
		return false
	}
	to := j.m.half(j.half)[at:]
	binary.LittleEndian.PutUint32(to, uint32(n))
	to = to[head:]
	for _, part := range parts {
		to = to[copy(to, part):]
	}
	j.added += head + n
	return true
}

// Drop discards entries that were added and not committed.
func (j *Journal) Drop() { j.added = 0 }

// Commit makes all added entries take effect at once.
func (j *Journal) Commit() {
	j.tail, j.added = j.tail+j.added, 0
	j.store()
}

func (j *Journal) store() { atomic.StoreUint64(&j.m.header().live, uint64(j.tail)<<1|j.half) }

// Size returns how many bytes the committed entries take.
func (j *Journal) Size() int { return j.tail }

// Full reports whether the journal should be rewritten.
func (j *Journal) Full() bool { return j.tail >= j.limit }

// Rewrite replaces the journal by what write adds, which is committed if write returns true.
// If it returns false, the journal stays as it was. No added entry may be uncommitted when
// Rewrite is called.
func (j *Journal) Rewrite(write func() bool) bool {
	old := *j
	j.half, j.tail = 1-j.half, 0
	if !write() {
		*j = old
		return false
	}
	j.Commit()
	j.limit = max(usual, 2*j.tail)
	if old.tail > cheap {
		j.m.release(j.m.half(old.half)[:(old.tail+page-1)/page*page])
	}
	return true
}
