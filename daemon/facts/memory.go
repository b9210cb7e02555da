package facts

import (
	"hash/maphash"
	"sync"
)

// memory records what the servers and the agent of one session have named. It is safe for
// concurrent use and takes at most 2 MB.
type memory struct {
	mu      sync.Mutex // guards all that follows
	servers []string   // names by number; numbers start at 1
	read    bool       // a server has sent something other than an offer; see isOffer
	agents  ledger[struct{}]
	said    ledger[uint16] // places that a server named first, with its number
	named   ledger[naming] // tools that servers named
	used    ledger[struct{}]
	sent    ledger[struct{}]
	made    ledger[struct{}] // files that the agent made with its own tools, and where it moved others
	harms   ledger[struct{}] // tools whose definition declares them destructive

	places     *shadow // discarded from said; nil if nothing was
	orders     *shadow // discarded from named, of strength told
	flooder    uint16  // server that caused the last discard
	discarded  tally   // number of discarded entries
	unexamined tally   // bytes of messages that were not examined

	steered uint16 // the first server whose text was worded to steer a model
	steers  tally  // number of such messages
}

// tally is a number that is reported first when it is not zero, and then whenever it has doubled.
type tally struct{ n, told uint64 }

// due reports whether the number must be reported now.
func (t *tally) due() bool {
	if t.n == 0 || t.n < 2*t.told {
		return false
	}
	t.told = t.n
	return true
}

// Capacities of the memory of a session. Beyond them, the oldest entry is discarded.
const (
	mostSaid    = 16384 // places and tools that servers named
	mostClaimed = 4096  // places that the agent named, tools that it used, destinations, files that it made
	mostServers = 250
)

func newMemory() *memory {
	m := &memory{}
	m.said.maxEntries, m.named.maxEntries = mostSaid, mostSaid
	m.agents.maxEntries, m.used.maxEntries, m.sent.maxEntries, m.harms.maxEntries, m.made.maxEntries = mostClaimed, mostClaimed, mostClaimed, mostClaimed, mostClaimed
	return m
}

// naming records the first two servers that named a tool, and how.
type naming struct {
	by  [2]uint16
	how [2]strength
}

// number returns the number of a server. m.mu must be held.
func (m *memory) number(server string) uint16 {
	for i, s := range m.servers {
		if s == server {
			return uint16(i + 1)
		}
	}
	if len(m.servers) < mostServers {
		m.servers = append(m.servers, server)
		return uint16(len(m.servers))
	}
	return mostServers + 1
}

// server returns the name for a number. m.mu must be held.
func (m *memory) server(n uint16) string {
	if n == 0 || int(n) > len(m.servers) {
		return "one of many"
	}
	return m.servers[n-1]
}

// recordPlace records that a server named a place. m.mu must be held.
func (m *memory) recordPlace(key uint64, by uint16) {
	if _, ok := m.agents.get(key); ok {
		return
	}
	if _, ok := m.said.get(key); ok {
		return
	}
	if gone, _, full := m.said.put(key, by); full {
		m.discard(&m.places, gone, by)
	}
}

// recordNaming records that a server named a tool. m.mu must be held.
func (m *memory) recordNaming(key uint64, by uint16, how strength) {
	n, _ := m.named.get(key)
	switch {
	case n.by[0] == by, n.by[0] == 0:
		n.by[0], n.how[0] = by, max(n.how[0], how)
	case n.by[1] == by, n.by[1] == 0:
		n.by[1], n.how[1] = by, max(n.how[1], how)
	case how > n.how[1]:
		n.by[1], n.how[1] = by, how
	}
	if gone, old, full := m.named.put(key, n); full && max(old.how[0], old.how[1]) == told {
		m.discard(&m.orders, gone, by)
	}
}

// discard adds the key of an entry that by displaced to what remains of such entries. m.mu must be
// held.
func (m *memory) discard(remains **shadow, key uint64, by uint16) {
	if *remains == nil {
		*remains = &shadow{}
	}
	(*remains).add(key)
	m.flooder = by
	m.discarded.n++
}

// claim returns the server that was the first to name a place. If there is none it returns "" and
// records the place as named by the agent.
func (m *memory) claim(key uint64) (by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.agents.get(key); ok {
		return ""
	}
	if n, ok := m.said.get(key); ok {
		return m.server(n)
	}
	if m.places.has(key) {
		return m.server(m.flooder)
	}
	m.agents.put(key, struct{}{})
	return ""
}

// steeringServer returns the first server whose text was worded to steer a model, or "".
func (m *memory) steeringServer() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steered == 0 {
		return ""
	}
	return m.server(m.steered)
}

// firstServerToName returns the server that was the first to name a place, or "".
func (m *memory) firstServerToName(key uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.said.get(key); ok {
		return m.server(n)
	}
	return ""
}

// namer returns the server whose text named a tool of server. It may be another server or, unless
// the tool only reads, server itself. A tool that was named as a function in code counts only if
// another server did so and the tool has not been used.
func (m *memory) namer(keys [2]uint64, server string, reads, used bool) (by string, was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		n, ok := m.named.get(key)
		if !ok && m.orders.has(key) {
			return m.server(m.flooder), true
		}
		for j, number := range n.by {
			how := n.how[j]
			if number == 0 || i > 0 && how != told {
				continue
			}
			name := m.server(number)
			if name == server && (reads || how == inCode) || how == inCode && used {
				continue
			}
			return name, true
		}
	}
	return "", false
}

// hasRead reports whether the agent may have read more of a server than its description of
// itself.
func (m *memory) hasRead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read
}

func (m *memory) has(l *ledger[struct{}], key uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := l.get(key)
	return ok
}

func (m *memory) recordKey(l *ledger[struct{}], key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.put(key, struct{}{})
}

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

// sessions holds the memory of each session.
type sessions struct {
	mu   sync.Mutex // guards what follows
	each map[owner]*memory
}

// owner identifies a memory: that of a session with all its servers, or that of one shim without
// a session.
type owner struct{ session, shim string }

func ownerOf(session, attachment string) owner {
	if session != "" {
		return owner{session: session}
	}
	return owner{shim: attachment}
}

// of returns the memory of a session, and creates it if necessary.
func (s *sessions) of(session, attachment string) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ownerOf(session, attachment)
	m := s.each[key]
	if m == nil {
		m = newMemory()
		s.each[key] = m
	}
	return m
}

// Forget discards the memory of a session, or of a shim without one.
func (f *Finder) Forget(session, attachment string) {
	f.sessions.mu.Lock()
	defer f.sessions.mu.Unlock()
	delete(f.sessions.each, ownerOf(session, attachment))
}

// sight returns a sight from the pool. The caller must pass it to release.
func (f *Finder) sight() *sight {
	if s, ok := f.sights.Get().(*sight); ok {
		return s
	}
	return &sight{seed: f.seed}
}

// keptBuffer is the maximum size of a buffer that is reused.
const keptBuffer = 256 << 10

func (f *Finder) release(s *sight) {
	s.text, s.to = nil, nil
	s.steerer.name = nil
	if cap(s.steerer.joined)+cap(s.steerer.glued)+cap(s.steerer.rest)+cap(s.steerer.cleaner.out) <= keptBuffer && cap(s.cleaner.out) <= keptBuffer && cap(s.decoded) <= keptBuffer {
		f.sights.Put(s)
	}
}

// ownTool returns the key of a tool of a server.
func (f *Finder) ownTool(server, tool string) uint64 {
	var h maphash.Hash
	h.SetSeed(f.seed)
	_, _ = h.WriteString(server)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(tool)
	return h.Sum64()
}
