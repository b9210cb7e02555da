package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
)

// Pool is the set of a daemon's shared servers. Its methods are safe for concurrent use.
type Pool struct {
	options Options
	last    atomic.Int64 // last id given to a request
	make    func(supervise.Options[*talk]) process

	// mu guards the fields below, and which member is in which instance. It must be locked before
	// the mutex of an instance.
	mu        sync.Mutex
	instances []*instance // in the order of creation
	fresh     []*instance // not started by Run yet
	wake      chan struct{}
	made      int    // instances so far
	joined    uint64 // members so far
	stopped   bool
}

// New returns a pool. Its servers run while Run does.
func New(o Options) *Pool {
	return &Pool{
		options: o.withDefaults(),
		make:    func(o supervise.Options[*talk]) process { return supervise.New(o) },
		wake:    make(chan struct{}, 1),
	}
}

// Run runs the servers until ctx ends. It returns when every process and goroutine of the pool has
// ended and every client has been notified. It may be called once.
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

// Join adds c to the clients of the server, and starts the server if it is not running. The
// server's lines are delivered to c until it leaves.
func (p *Pool) Join(ctx context.Context, s Spec, c Client) (*Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to server %q: %w", s.Server, context.Cause(ctx))
	}
	if len(s.Command) == 0 {
		return nil, fmt.Errorf("connect to server %q: %w", s.Server, errors.New("the command is empty"))
	}
	s.Env = Shared(s.Env)
	m := &Member{pool: p, spec: s, key: s.key(), client: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, fmt.Errorf("connect to server %q: %w", s.Server, ErrStopped)
	}
	p.joined++
	m.number = p.joined
	in := p.find(m, func(*instance) bool { return true })
	in.mu.Lock()
	in.enter(m)
	in.mu.Unlock()
	return m, nil
}

// find returns the first instance for m for which will returns true, or a new one. will is called
// with the instance's mutex held. p.mu must be held.
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

// retire removes in from the pool if it has no members, and reports whether it did.
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

// move moves m to another instance. p.mu must be held.
func (p *Pool) move(m *Member, to *instance) {
	from := m.in.Load()
	if from == to {
		return
	}
	from.mu.Lock()
	for _, r := range m.open {
		from.deliver(m, mcp.RefuseUnread(r.id, mcp.CodeServerExit, "The session moved to another process of the shared MCP server"))
	}
	from.part(m, "the session moved to another process")
	from.mu.Unlock()
	to.mu.Lock()
	to.enter(m)
	to.mu.Unlock()
}

var _ supervise.Fleet = (*Pool)(nil)

// List implements supervise.Fleet. A server whose clients do not agree has several processes with
// different ids.
func (p *Pool) List() []supervise.Info {
	var list []supervise.Info
	for _, in := range p.all() {
		in.mu.Lock()
		info := supervise.Info{
			Kind: supervise.KindBackend, Name: in.spec.Server, ID: in.id,
			Command: slices.Clone(in.spec.Command), Began: in.began, Clients: len(in.members),
		}
		in.mu.Unlock()
		info.Status = in.proc.Status()
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b supervise.Info) int {
		na, _ := strconv.Atoi(a.ID)
		nb, _ := strconv.Atoi(b.ID)
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(na, nb))
	})
	return list
}

func (p *Pool) all() []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.instances)
}

// Tail implements supervise.Fleet.
func (p *Pool) Tail(kind, name, id string) (*supervise.Tail, bool) {
	if in := p.named(kind, name, id); in != nil {
		return in.proc.Tail(), true
	}
	return nil, false
}

// Restart implements supervise.Fleet. Requests that the process has not answered are answered with
// an error. Its clients stay.
func (p *Pool) Restart(ctx context.Context, kind, name, id string) (bool, error) {
	in := p.named(kind, name, id)
	if in == nil {
		return false, nil
	}
	return true, in.proc.Restart(ctx)
}

func (p *Pool) named(kind, name, id string) *instance {
	for _, in := range p.all() {
		if kind == supervise.KindBackend && in.spec.Server == name && (id == "" || in.id == id) {
			return in
		}
	}
	return nil
}

// ofSession are environment variables that differ between sessions or terminals, and mean nothing
// to a server on pipes, and all of ours; see [child.ComposeEnv].
var ofSession = []string{
	"_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES",
	"TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID",
	"TMUX", "TMUX_PANE", "STY", "WINDOW", "GPG_TTY",
	"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID",
	"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
	"CLAUDE_CODE_SSE_PORT", "THOUGHTGATE_*",
}

// Shared returns the entries of env that a shared server is started with, sorted by name. It leaves
// out those that begin with THOUGHTGATE_ and those that differ between sessions or terminals (PWD,
// TERM, TMUX, SSH_TTY, ...). It also leaves out entries without a name and repeated names.
func Shared(env []string) []string {
	kept := child.ComposeEnv(env, nil, ofSession)
	slices.Sort(kept)
	return kept
}

// key is equal for specs whose clients may share a process.
func (s *Spec) key() string {
	h := sha256.New()
	part := func(text string) {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	for _, text := range []string{s.Server, s.Launch, s.Executable, s.Cwd} {
		part(text)
	}
	for _, list := range [][]string{s.Command, s.Env} {
		for _, text := range list {
			part(text)
		}
		part("")
	}
	return hex.EncodeToString(h.Sum(nil))
}
