package facts

// ledger keeps the newest entries, up to a maximum, and discards the oldest first. It holds
// hashes instead of text, so that the memory reveals nothing of what servers sent.
type ledger[V any] struct {
	maxEntries int
	entries    map[uint64]V
	order      []uint64 // a ring when it is full
	next       int      // index of the oldest entry when it is full
}

func (l *ledger[V]) get(key uint64) (V, bool) {
	v, ok := l.entries[key]
	return v, ok
}

// put stores v under key and returns the entry that was discarded for it. An existing entry is
// replaced but keeps its age.
func (l *ledger[V]) put(key uint64, v V) (gone uint64, old V, full bool) {
	if l.entries == nil {
		l.entries = map[uint64]V{}
	}
	_, known := l.entries[key]
	switch {
	case known:
	case len(l.order) < l.maxEntries:
		l.order = append(l.order, key)
	default:
		gone, full = l.order[l.next], true
		old = l.entries[gone]
		delete(l.entries, gone)
		l.order[l.next] = key
		l.next = (l.next + 1) % len(l.order)
	}
	l.entries[key] = v
	return gone, old, full
}

// shadow is what remains of the discarded entries of a ledger, a Bloom filter: it can tell for
// certain only that a key was never added. So a server that sends a great many names makes the
// gate ask more, and cannot make it forget.
type shadow struct {
	bits [shadowBits / 64]uint64
}

// shadowBits suffices for 100,000 keys with one false positive in fifty.
const shadowBits = 1 << 20

func (s *shadow) add(key uint64) {
	for range 4 {
		s.bits[key>>6%(shadowBits/64)] |= 1 << (key & 63)
		key = key>>17 | key<<47
	}
}

func (s *shadow) has(key uint64) bool {
	if s == nil {
		return false
	}
	for range 4 {
		if s.bits[key>>6%(shadowBits/64)]&(1<<(key&63)) == 0 {
			return false
		}
		key = key>>17 | key<<47
	}
	return true
}
