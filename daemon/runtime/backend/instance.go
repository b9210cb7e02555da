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

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// instance is one shared server with its members. Its process may be restarted.
type instance struct {
	pool    *Pool
	options Options
	log     *slog.Logger
	spec    Spec
	key     string
	id      string // distinguishes the processes of one server
	name    string // for errors and logs
	proc    process
	kick    chan struct{} // has an item when runTimers has work

	// mu guards the fields below, and the members. It is never held while blocking or while calling
	// the process.
	mu      sync.Mutex
	members []*Member // in the order in which they joined
	gone    []departure
	idle    time.Time // since when there are no members
	began   time.Time // when the first process started
	failed  error     // why it is not restarted automatically

	talk  *talk  // with the current process, from its start; nil between processes
	ready bool   // requests may be sent
	first uint64 // first member that sent a request to the current process
	many  bool   // other members have too

	modern   bool // its clients speak the modern era
	greeting *greeting
	level    int    // log level set at the server; 0 for none
	roots    string // roots that the server got, canonical; empty if it has not asked

	open         map[int64]*request
	waiting      []*request // not sent yet, oldest first
	cancelled    []*request // sent, then cancelled or abandoned, oldest first
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

// departure is a client to be notified that it was removed.
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

// childSpec returns what to start. If the program does not exist, the error is permanent.
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

// begin returns the talk with a new process.
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

// changed handles a new status of the process. It is called with the process's mutex held.
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

// run keeps the process running until ctx ends or it has been idle for long enough.
func (in *instance) run(ctx context.Context) {
	life, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = in.proc.Run(life) }) // the status has the error
	running.Go(func() {
		defer stop()
		in.runTimers(ctx)
	})
	running.Wait()
	in.dismiss()
}

// room blocks while the server has too much unread input.
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

// enter adds m to the members. mu and the pool's mu must be held.
func (in *instance) enter(m *Member) {
	m.open, m.asks, m.uris = map[string]*request{}, map[int64]*ask{}, map[string]bool{}
	m.level, m.ready, m.tasks, m.waiting, m.cancelled = 0, false, nil, 0, 0
	m.hello, m.roots, m.held, m.moving, m.coming = "", "", false, false, false
	m.in.Store(in)
	in.members = append(in.members, m)
}

// dismiss removes every member when the process will not run again. No goroutine of the instance
// may be running.
func (in *instance) dismiss() {
	in.mu.Lock()
	for _, m := range slices.Clone(in.members) {
		in.letGo(m, ErrStopped)
	}
	in.mu.Unlock()
	in.notifyDepartures()
}

// letGo removes m and queues the notification of its client. mu must be held.
func (in *instance) letGo(m *Member, err error) {
	if m.gone {
		return
	}
	in.part(m, "the session was removed from the shared server")
	m.gone = true
	in.gone = append(in.gone, departure{m, err})
	in.wake()
}

// notifyDepartures notifies the clients that were removed.
func (in *instance) notifyDepartures() {
	in.mu.Lock()
	gone := in.gone
	in.gone = nil
	in.mu.Unlock()
	for _, d := range gone {
		d.member.client.Gone(d.err)
	}
}

// drop logs that a message is dropped.
func (in *instance) drop(why string) {
	in.log.Debug("a message of a shared server is dropped", "reason", why)
}

// deliver sends line to m. mu must be held.
func (in *instance) deliver(m *Member, line []byte) {
	if m != nil && !m.gone && !m.client.Deliver(line) {
		in.letGo(m, ErrSlow)
	}
}
