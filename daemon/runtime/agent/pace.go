package agent

import (
	"context"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// Limits of an agent's messages that were not passed on yet. Past either, its output is not
// read, so that its pipe fills and it blocks.
const (
	maxPendingUpdates = 64
	mostSaidBytes     = 1 << 20
)

// paced is a dialect that stops decoding while too many messages wait to be passed on. It slows
// an agent down that writes faster than the caller reads, and loses nothing. It belongs to one
// connection.
type paced struct {
	rpc.Dialect
	said func(*rpc.Message) bool // reports whether a message is passed on

	latest int // bytes of the last decoded message, -1 if not counted; used only by the reading goroutine

	mu    sync.Mutex // guards the fields below
	room  *sync.Cond // signalled when a message was passed on or over is set
	over  bool
	n     int
	bytes int
}

// newPaced returns a dialect that no longer waits once ctx has ended.
func newPaced(ctx context.Context, d rpc.Dialect, said func(*rpc.Message) bool) *paced {
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

// Decode implements rpc.Dialect.
func (p *paced) Decode(frame []byte, m *rpc.Message) error {
	p.latest = -1
	if err := p.Dialect.Decode(frame, m); err != nil || !p.said(m) {
		return err
	}
	p.latest = len(m.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.over && p.n > 0 && (p.n >= maxPendingUpdates || p.bytes+p.latest > mostSaidBytes) {
		p.room.Wait()
	}
	p.n, p.bytes = p.n+1, p.bytes+p.latest
	return nil
}

// passed reports that body was passed on.
func (p *paced) passed(body []byte) { p.give(len(body)) }

func (p *paced) give(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.bytes = p.n-1, p.bytes-size
	p.room.Broadcast()
}

// dropped reports that the last decoded message is not passed on. It must be called by the
// goroutine that reads.
func (p *paced) dropped() {
	if p.latest >= 0 {
		p.give(p.latest)
		p.latest = -1
	}
}
