package facts

import (
	"hash/maphash"
	"sync"
)

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
