package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
)

// Pool is the shared servers of a daemon. Its methods are safe for concurrent use.
type Pool struct {
	options Options
	last    atomic.Int64 // id of ours; no two processes get the same
	make    func(supervise.Options[*talk]) process

	// mu guards what follows, and which member is in which instance. It is locked
	// before the mutex of an instance.
	mu        sync.Mutex
	instances []*instance // in the order of their making
	fresh     []*instance // that Run has not taken up yet
	wake      chan struct{}
	made      int    // instances so far
	joined    uint64 // members so far
	stopped   bool
}

// New returns a pool, whose servers run while Run does.
func New(o Options) *Pool {
	return &Pool{
		options: o.withDefaults(),
		make:    func(o supervise.Options[*talk]) process { return supervise.New(o) },
		wake:    make(chan struct{}, 1),
	}
}

// Run keeps the servers until ctx ends. It returns when every process and goroutine
// of the pool has ended and every client knows. It may be called once.
func (p *Pool) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for ctx.Err() == nil {
		p.mu.Lock()
		fresh := p.fresh
		p.fresh = nil
		p.mu.Unlock()
		for _, in := range fresh {
			running.Go(func() { in.run(ctx) })
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	p.stopped = true
	never := p.fresh
	p.mu.Unlock()
	for _, in := range never {
		in.dismiss()
	}
	running.Wait()
	return nil
}

// Join makes c a client of the server, which is started if it is not running. The
// server's lines go to c from then on, until c leaves.
func (p *Pool) Join(ctx context.Context, s Spec, c Client) (*Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("join server %q: %w", s.Server, context.Cause(ctx))
	}
	if len(s.Command) == 0 {
		return nil, fmt.Errorf("join server %q: %w", s.Server, errors.New("there is no command"))
	}
	s.Env = Shared(s.Env)
	m := &Member{pool: p, spec: s, key: s.key(), client: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, fmt.Errorf("join server %q: %w", s.Server, ErrStopped)
	}
	p.joined++
	m.number = p.joined
	in := p.find(m, func(*instance) bool { return true })
	in.mu.Lock()
	in.enter(m)
	in.mu.Unlock()
	return m, nil
}

// find returns the first instance for m that will do, or a new one. p.mu is held.
// will is called with the instance's mutex held.
func (p *Pool) find(m *Member, will func(*instance) bool) *instance {
	for _, in := range p.instances {
		if in.key != m.key {
			continue
		}
		in.mu.Lock()
		ok := will(in)
		in.mu.Unlock()
		if ok {
			return in
		}
	}
	p.made++
	in := newInstance(p, m, p.made)
	p.instances = append(p.instances, in)
	p.fresh = append(p.fresh, in)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return in
}

// retire takes in out of the pool if it has no members any more, and reports
// whether it had none.
func (p *Pool) retire(in *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.members) > 0 {
		return false
	}
	p.instances = slices.DeleteFunc(p.instances, func(other *instance) bool { return other == in })
	return true
}

// move takes m from where it is to the instance to. p.mu is held.
func (p *Pool) move(m *Member, to *instance) {
	from := m.in.Load()
	if from == to {
		return
	}
	from.mu.Lock()
	for _, r := range m.open {
		from.deliver(m, mcp.RefuseUnread(r.id, mcp.CodeServerExit, "The session has changed to another process of the shared MCP server"))
	}
	from.part(m, "the session has changed to another process")
	from.mu.Unlock()
	to.mu.Lock()
	to.enter(m)
	to.mu.Unlock()
}
