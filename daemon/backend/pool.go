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
	"strings"
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

var _ supervise.Fleet = (*Pool)(nil)

// List implements supervise.Fleet. A server with clients that do not agree has
// several processes, told apart by their ids.
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

// Restart implements supervise.Fleet. What the process had not answered is answered
// with an error; its clients stay.
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

// ofSession are names of the environment that differ from session to session, or
// from terminal to terminal, and say nothing to a server behind pipes. Names of ours
// belong to them.
var ofSession = []string{
	"_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES",
	"TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID",
	"TMUX", "TMUX_PANE", "STY", "WINDOW", "GPG_TTY",
	"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID",
	"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
	"CLAUDE_CODE_SSE_PORT",
}

const ours = "THOUGHTGATE_"

// Shared returns the entries of env that a shared server is started with, in order
// of their names: all but those that begin with THOUGHTGATE_ and those that tell one
// session or terminal from another (PWD, TERM, TMUX, SSH_TTY, ...). An entry
// without a name, or the second of a name, is left out.
func Shared(env []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if !strings.HasPrefix(name, ours) && !slices.Contains(ofSession, name) {
			kept = append(kept, entry)
		}
	}
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
