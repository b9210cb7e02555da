package agent

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What an agent may have said that nobody has passed on yet. Past either, it is
// not read on, until its pipe is full and it waits.
const (
	mostSaid      = 64
	mostSaidBytes = 1 << 20
)

// paced is a dialect that reads no further while much of what was said is still to
// be passed on: an agent that talks faster than whoever listens is slowed down, and
// nothing it says is lost. It belongs to one connection.
type paced struct {
	wire.Dialect
	said func(*wire.Message) bool // reports what is passed on
	over <-chan struct{}          // closed when nothing is waited for any more

	latest int // bytes of the message decoded last, -1 when it is not counted; of the reading goroutine alone

	mu    sync.Mutex // guards what follows
	n     int
	bytes int
	room  chan struct{} // closed, and made anew, when something was passed on
}

func newPaced(d wire.Dialect, said func(*wire.Message) bool, over <-chan struct{}) *paced {
	return &paced{Dialect: d, said: said, over: over, room: make(chan struct{})}
}

// Decode implements wire.Dialect.
func (p *paced) Decode(frame []byte, m *wire.Message) error {
	p.latest = -1
	if err := p.Dialect.Decode(frame, m); err != nil || !p.said(m) {
		return err
	}
	p.latest = len(m.Body)
	p.take(p.latest)
	return nil
}

func (p *paced) take(size int) {
	for {
		p.mu.Lock()
		if p.n == 0 || p.n < mostSaid && p.bytes+size <= mostSaidBytes {
			p.n, p.bytes = p.n+1, p.bytes+size
			p.mu.Unlock()
			return
		}
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-p.over:
			p.mu.Lock()
			p.n, p.bytes = p.n+1, p.bytes+size
			p.mu.Unlock()
			return
		}
	}
}

// passed makes room for what was passed on, body.
func (p *paced) passed(body []byte) { p.give(len(body)) }

func (p *paced) give(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.bytes = p.n-1, p.bytes-size
	close(p.room)
	p.room = make(chan struct{})
}

// dropped makes room for the message decoded last, which nobody waits for. It is
// called by the goroutine that reads.
func (p *paced) dropped() {
	if p.latest >= 0 {
		p.give(p.latest)
		p.latest = -1
	}
}
