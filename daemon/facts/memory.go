package facts

import (
	"sync"
)

// memory is what one session's servers and its agent have said. It is safe for
// concurrent use, and holds two megabytes at most.
type memory struct {
	mu      sync.Mutex // guards what follows
	servers []string   // by number; the first is number 1
	read    bool       // a server has said more than what it offers
	agents  ledger[struct{}]
	said    ledger[uint16] // places that a server said first, and which
	named   ledger[naming] // tools that servers named
	used    ledger[struct{}]
	sent    ledger[struct{}]
	harms   ledger[struct{}] // tools whose definition says that they destroy

	places  *shadow // of said; nil while nothing had to go
	orders  *shadow // of what was told in named
	flooder uint16  // the server that made the newest of it go
	let     tally   // how much had to go
	unread  tally   // bytes of messages that were not looked at

	steered uint16 // the first server that said what is worded to steer a model
	steers  tally  // how many messages were
}

// tally is a number that is told of at first, and then each time it has doubled.
type tally struct{ n, told uint64 }

// due reports whether the number is to be told of now.
func (t *tally) due() bool {
	if t.n == 0 || t.n < 2*t.told {
		return false
	}
	t.told = t.n
	return true
}

// How much of what a session remembers. Beyond, the oldest goes.
const (
	mostSaid    = 16384 // places that servers said; tools that they named
	mostClaimed = 4096  // places that the agent said; tools it used; what was sent to
	mostServers = 250
)

func newMemory() *memory {
	m := &memory{}
	m.said.most, m.named.most = mostSaid, mostSaid
	m.agents.most, m.used.most, m.sent.most, m.harms.most = mostClaimed, mostClaimed, mostClaimed, mostClaimed
	return m
}

// naming is who named a tool, the first two of them, and how.
type naming struct {
	by  [2]uint16
	how [2]strength
}

// number returns the number of a server. m.mu is held.
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

// server is the name of a number. m.mu is held.
func (m *memory) server(n uint16) string {
	if n == 0 || int(n) > len(m.servers) {
		return "one of many"
	}
	return m.servers[n-1]
}

// heard notes that a server said a place. m.mu is held.
func (m *memory) heard(key uint64, by uint16) {
	if _, ok := m.agents.get(key); ok {
		return
	}
	if _, ok := m.said.get(key); ok {
		return
	}
	if gone, _, full := m.said.put(key, by); full {
		if m.places == nil {
			m.places = &shadow{}
		}
		m.places.add(gone)
		m.flooder = by
		m.let.n++
	}
}

// toldOf notes that a server named a tool. m.mu is held.
func (m *memory) toldOf(key uint64, by uint16, how strength) {
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
		if m.orders == nil {
			m.orders = &shadow{}
		}
		m.orders.add(gone)
		m.flooder = by
		m.let.n++
	}
}

// claim returns the server that said a place first, empty when it was the agent:
// then the place is the agent's from here on.
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

// steerer returns the first server that said what is worded to steer a model, empty
// for none.
func (m *memory) steerer() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steered == 0 {
		return ""
	}
	return m.server(m.steered)
}

// sayer returns the server that said a place first, empty for none.
func (m *memory) sayer(key uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.said.get(key); ok {
		return m.server(n)
	}
	return ""
}

// namer returns the server by whose text a tool of server was named: by that of
// another server, or, when the tool is no read, by its own. Named as code names
// functions, that counts only from another server and until the tool was used.
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

// hasRead reports whether the agent may have read something of a server's beyond
// what it offers.
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

func (m *memory) note(l *ledger[struct{}], key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.put(key, struct{}{})
}
