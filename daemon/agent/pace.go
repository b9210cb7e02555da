package agent

import (
	"context"
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

	latest int // bytes of the message decoded last, -1 when it is not counted; of the reading goroutine alone

	mu    sync.Mutex // guards what follows
	room  *sync.Cond // something was passed on, or nothing is waited for any more
	over  bool
	n     int
	bytes int
}

// newPaced returns a dialect that waits for nothing any more when ctx has ended.
func newPaced(ctx context.Context, d wire.Dialect, said func(*wire.Message) bool) *paced {
	p := &paced{Dialect: d, said: said}
	p.room = sync.NewCond(&p.mu)
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		p.room.Broadcast()
	})
	return p
}

// Decode implements wire.Dialect.
func (p *paced) Decode(frame []byte, m *wire.Message) error {
	p.latest = -1
	if err := p.Dialect.Decode(frame, m); err != nil || !p.said(m) {
		return err
	}
	p.latest = len(m.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && p.n > 0 && (p.n >= mostSaid || p.bytes+p.latest > mostSaidBytes) {
		p.room.Wait()
	}
	p.n, p.bytes = p.n+1, p.bytes+p.latest
	return nil
}

// passed makes room for what was passed on, body.
func (p *paced) passed(body []byte) { p.give(len(body)) }

func (p *paced) give(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.bytes = p.n-1, p.bytes-size
	p.room.Broadcast()
}

// dropped makes room for the message decoded last, which nobody waits for. It is
// called by the goroutine that reads.
func (p *paced) dropped() {
	if p.latest >= 0 {
		p.give(p.latest)
		p.latest = -1
	}
}
