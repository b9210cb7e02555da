package mapping

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Journal holds what happened to a session, as entries whose content is the
// caller's. Entries that are added take effect together, with [Journal.Commit].
//
// It is written into one half of its memory. When that is full, the caller writes
// entries that lead to the same state into the other one, which counts from then on.
// Its methods are called by one goroutine at a time.
type Journal struct {
	m     *Mapping
	half  uint64 // that counts
	tail  int    // of what is committed in it
	added int    // behind tail: entries that are not committed yet
	limit int    // of tail, past which it is full
}

const (
	// usual is how long the journal gets before it is written anew, in bytes, or
	// twice as long as it then was where that is more.
	usual = 64 << 10
	head  = 4 // bytes of an entry's length
)

// Journal returns the journal. Its entries are read with [Journal.Entries] first
// where another daemon has written them.
func (m *Mapping) Journal() (*Journal, error) {
	live := atomic.LoadUint64(&m.header().live)
	j := &Journal{m: m, half: live & 1, limit: usual}
	if live>>1 > halfSpace {
		return nil, fmt.Errorf("%w: its journal ends at %d", ErrDamaged, live>>1)
	}
	j.tail = int(live >> 1)
	j.limit = max(usual, 2*j.tail)
	return j, nil
}

// Entries calls each with what was committed, oldest first, until that fails. What
// it gets is the memory itself, which others can change meanwhile: each copies what
// it looks at twice.
func (j *Journal) Entries(each func(entry []byte) error) error {
	rest := j.m.half(j.half)[:j.tail]
	for len(rest) > 0 {
		if len(rest) < head {
			return fmt.Errorf("%w: an entry of its journal is cut", ErrDamaged)
		}
		n := binary.LittleEndian.Uint32(rest)
		if uint64(n) > uint64(len(rest)-head) {
			return fmt.Errorf("%w: an entry of its journal has %d bytes of %d", ErrDamaged, n, len(rest)-head)
		}
		if err := each(rest[head : head+n : head+n]); err != nil {
			return err
		}
		rest = rest[head+n:]
	}
	return nil
}

// Add adds an entry, which counts once it is committed. It is false where the
// memory has no room for it.
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

// Drop takes back what was added and not committed.
func (j *Journal) Drop() { j.added = 0 }

// Commit makes what was added count, all of it at once.
func (j *Journal) Commit() {
	j.tail, j.added = j.tail+j.added, 0
	j.store()
}

func (j *Journal) store() { atomic.StoreUint64(&j.m.header().live, uint64(j.tail)<<1|j.half) }

// Size is how many bytes of memory the entries take.
func (j *Journal) Size() int { return j.tail }

// Full reports whether it is time to write the journal anew.
func (j *Journal) Full() bool { return j.tail >= j.limit }

// Rewrite writes the journal anew: with what write adds, all of which is committed
// when it returns true. When it returns false the journal stays as it was. Nothing
// may wait to be committed when Rewrite is called.
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
