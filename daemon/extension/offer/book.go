package offer

import (
	"fmt"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Book keeps the servers of all extensions. Its methods are safe for concurrent
// use.
type Book struct {
	find func(name string) (Extension, bool)

	mu      sync.Mutex // guards what follows
	servers map[string]*Server
}

// NewBook returns a book for the extensions that find knows.
func NewBook(find func(name string) (Extension, bool)) *Book {
	return &Book{find: find, servers: map[string]*Server{}}
}

// Join adds an agent to those of an extension, see [Server.Join]. It fails with
// gate.ErrNotFound when there is no such extension.
func (b *Book) Join(name string, deliver func(line []byte)) (*Member, error) {
	extension, ok := b.find(name)
	if !ok {
		return nil, fmt.Errorf("the extension %q, whose tools these are, is not installed; see tgctl ext: %w", name, gate.ErrNotFound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.servers[name]
	if s == nil {
		s = NewServer(name, extension)
		b.servers[name] = s
	}
	return s.Join(deliver), nil
}

// Changed tells every agent that tools are others than they were.
func (b *Book) Changed() {
	b.mu.Lock()
	servers := make([]*Server, 0, len(b.servers))
	for _, s := range b.servers {
		servers = append(servers, s)
	}
	b.mu.Unlock()
	for _, s := range servers {
		s.Changed()
	}
}

// Members returns how many agents have joined the tools of an extension.
func (b *Book) Members(name string) int {
	b.mu.Lock()
	s := b.servers[name]
	b.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.Members()
}
