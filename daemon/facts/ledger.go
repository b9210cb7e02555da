package facts

// ledger keeps the newest of what is put into it, so many at most. The oldest
// goes first. It holds hashes, never what was said, so that the memory of what
// people's servers said tells nobody anything.
type ledger[V any] struct {
	most  int
	held  map[uint64]V
	order []uint64 // a ring once it is full
	next  int      // where the oldest stands then
}

func (l *ledger[V]) get(key uint64) (V, bool) {
	v, ok := l.held[key]
	return v, ok
}

// put keeps v under key, and returns what had to go for it. What is there
// already is replaced, and grows no younger.
func (l *ledger[V]) put(key uint64, v V) (gone uint64, old V, full bool) {
	if l.held == nil {
		l.held = map[uint64]V{}
	}
	if _, ok := l.held[key]; ok {
		l.held[key] = v
		return 0, old, false
	}
	if len(l.order) < l.most {
		l.order = append(l.order, key)
		l.held[key] = v
		return 0, old, false
	}
	gone = l.order[l.next]
	old = l.held[gone]
	delete(l.held, gone)
	l.order[l.next] = key
	l.next = (l.next + 1) % len(l.order)
	l.held[key] = v
	return gone, old, true
}

// shadow is what is left of what a ledger had to let go: it can tell surely
// that something was never in it, and else only that it may have been (a filter
// after Bloom). So a server that says very much makes the gate ask more, and can't
// make it forget.
type shadow struct {
	bits [shadowBits / 64]uint64
}

// shadowBits is enough for a hundred thousand keys with one mistake in fifty.
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
