package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// instance is one process, over all its lives, and its members.
type instance struct {
	pool    *Pool
	options Options
	log     *slog.Logger
	spec    Spec
	key     string
	id      string // tells processes of one server apart
	name    string // in errors and logs
	proc    process
	kick    chan struct{} // has an item when the housekeeper has something to do

	// mu guards what follows, and the members. It is never held while anything
	// waits, and the process is not called with it held.
	mu      sync.Mutex
	members []*Member // in the order in which they came
	gone    []departure
	idle    time.Time // since when there are no members
	began   time.Time // of the first life
	failed  error     // why it is not started again by itself

	talk  *talk  // of the present life, from its beginning; nil between lives
	ready bool   // requests may be sent
	first uint64 // the first member that asked for something in this life
	many  bool   // others have as well

	modern   bool // its clients speak the modern era
	greeting *greeting
	level    int    // that the server was told; 0 for none
	roots    string // that the server was told, to compare; empty when it has not asked

	open         map[int64]*request
	waiting      []*request // that are not sent yet, oldest first
	cancelled    []*request // sent and cancelled or left behind, oldest first
	busy         map[uint64]int
	turns        map[uint64]turn
	classes      map[string]class
	asks         map[string]*ask // by the server's id
	tokens       map[int64]*token
	tasks        map[string]*task
	clientTasks  map[string]*Member
	elicitations map[string]*Member
	topics       map[string]*topic // by URI
}

// departure is a client that is to be told that it was let go.
type departure struct {
	member *Member
	err    error
}

func newInstance(p *Pool, m *Member, number int) *instance {
	in := &instance{
		pool: p, options: p.options, spec: m.spec, key: m.key,
		id: strconv.Itoa(number), name: fmt.Sprintf("shared server %q", m.spec.Server),
		kick:         make(chan struct{}, 1),
		idle:         time.Now(),
		open:         map[int64]*request{},
		busy:         map[uint64]int{},
		turns:        map[uint64]turn{},
		classes:      map[string]class{},
		asks:         map[string]*ask{},
		tokens:       map[int64]*token{},
		tasks:        map[string]*task{},
		clientTasks:  map[string]*Member{},
		elicitations: map[string]*Member{},
		topics:       map[string]*topic{},
	}
	in.log = p.options.Logger.With("component", "backend", "server_id", m.spec.Server, "process", in.id)
	in.proc = p.make(supervise.Options[*talk]{
		Name:             in.name,
		Logger:           in.log,
		Spec:             in.childSpec,
		Open:             in.begin,
		Run:              func(ctx context.Context, t *talk) error { return t.run(ctx) },
		Handshake:        in.greet,
		HandshakeTimeout: p.options.Handshake,
		Policy:           p.options.Policy,
		Changed:          in.changed,
		Ended:            in.ended,
	})
	return in
}

func (in *instance) ended(how *child.State) {
	if tell := in.options.Ended; tell != nil {
		tell(in.spec.Server, how)
	}
}

// childSpec says what to start. A program that isn't there is not waited for.
func (in *instance) childSpec() (child.Spec, error) {
	s := child.Spec{Command: in.spec.Command[0], Args: in.spec.Command[1:], Env: in.spec.Env, Dir: in.spec.Cwd}
	if in.spec.Executable != "" {
		s.Command = in.spec.Executable
	}
	if in.spec.Cwd != "" {
		s.Env = append(slices.Clone(s.Env), "PWD="+in.spec.Cwd)
	}
	if _, err := child.Resolve(s.Command, s.Env, s.Dir); err != nil {
		return s, supervise.Permanent(err)
	}
	return s, nil
}

// begin makes the conversation of a life that begins.
func (in *instance) begin(stdin io.WriteCloser, stdout io.ReadCloser) *talk {
	t := newTalk(in, stdin, stdout)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.talk, in.ready, in.first, in.many = t, false, 0, false
	if in.began.IsZero() {
		in.began = time.Now()
	}
	return t
}

// changed is told of each status of the process, with the process's mutex held.
func (in *instance) changed(s supervise.Status) {
	in.mu.Lock()
	in.failed = nil
	if s.State == supervise.Failed {
		if in.failed = s.Err; s.Err == nil {
			in.failed = errors.New("it has failed")
		}
	}
	in.mu.Unlock()
	in.wake()
}

// run keeps the process until ctx ends or it has been idle for long enough.
func (in *instance) run(ctx context.Context) {
	life, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = in.proc.Run(life) }) // its status tells
	running.Go(func() {
		defer stop()
		in.keepHouse(ctx)
	})
	running.Wait()
	in.dismiss()
}

// room waits until the server has read enough.
func (in *instance) room(ctx context.Context) error {
	in.mu.Lock()
	t := in.talk
	in.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.room(ctx)
}

func (in *instance) wake() {
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

// enter makes m a member. mu and the pool's are held.
func (in *instance) enter(m *Member) {
	m.open, m.asks, m.uris = map[string]*request{}, map[int64]*ask{}, map[string]bool{}
	m.level, m.ready, m.tasks, m.waiting, m.cancelled = 0, false, nil, 0, 0
	m.hello, m.roots, m.held, m.moving, m.coming = "", "", false, false, false
	m.in.Store(in)
	in.members = append(in.members, m)
}

// dismiss lets go of every member: the process is not coming back. It is called
// when nothing of the instance runs.
func (in *instance) dismiss() {
	in.mu.Lock()
	for _, m := range slices.Clone(in.members) {
		in.letGo(m, ErrStopped)
	}
	in.mu.Unlock()
	in.bid()
}

// letGo ends the membership of m and has the client told. mu is held.
func (in *instance) letGo(m *Member, err error) {
	if m.gone {
		return
	}
	in.part(m, "the session was let go")
	m.gone = true
	in.gone = append(in.gone, departure{m, err})
	in.wake()
}

// bid tells the clients that were let go.
func (in *instance) bid() {
	in.mu.Lock()
	gone := in.gone
	in.gone = nil
	in.mu.Unlock()
	for _, d := range gone {
		d.member.client.Gone(d.err)
	}
}

// drop takes note of a message that goes nowhere.
func (in *instance) drop(why string) {
	in.log.Debug("a message of a shared server goes nowhere", "reason", why)
}

// deliver gives line to m. mu is held.
func (in *instance) deliver(m *Member, line []byte) {
	if m != nil && !m.gone && !m.client.Deliver(line) {
		in.letGo(m, ErrSlow)
	}
}
