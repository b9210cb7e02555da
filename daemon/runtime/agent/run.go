package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// leaveGrace is how long an agent may take to exit after its input has ended, cancelGrace
	// how long it may take to answer after it was told to cancel.
	leaveGrace, cancelGrace = 5 * time.Second, 5 * time.Second
	// shortGracePeriod replaces both when the daemon ends or the caller has left.
	shortGracePeriod = 500 * time.Millisecond
	// lateEvent is how long an event waits for the caller once the run must end.
	lateEvent = time.Second
)

// run is one run of an agent.
type run struct {
	runs    *Runs
	request Request
	agent   *config.Agent
	id      string // set before the run is visible to others
	session string
	command []string // with the program resolved
	env     []string // of the process and of its terminals
	servers []server
	timeout time.Duration
	began   time.Time
	launch  string

	ctx             context.Context // ends when the run must end; the cause says why
	stop            context.CancelCauseFunc
	requests        context.Context // of the agent; ends when the run ends and the agent has been told so, if possible
	failRequests    context.CancelCauseFunc
	events          chan<- Event
	eventsAbandoned atomic.Bool // nobody reads events any more

	process *supervise.Process[*rpc.Conn]
	pace    *paced
	bad     atomic.Int64 // invalid messages received

	submitter *submit.Submitter // where the agent's requests are judged
	terminals terminals
}

// newRun checks the request and prepares a run. It starts nothing.
func newRun(r *Runs, c *config.Config, a *config.Agent, q Request, events chan<- Event) (*run, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	var id [16]byte
	rand.Read(id[:])
	o := &run{
		runs: r, request: q, agent: a, session: hex.EncodeToString(id[:]), events: events, began: time.Now(),
		timeout:   a.Timeout,
		submitter: submit.New(), terminals: terminals{open: map[string]*terminal{}},
	}
	if q.Timeout > 0 {
		o.timeout = q.Timeout
	}
	var err error
	if o.env, err = o.environment(); err != nil {
		return nil, err
	}
	o.command = c.Program(a.Command)
	if path, err := child.Resolve(o.command[0], o.env, q.Cwd); err == nil {
		o.command[0] = path // otherwise starting it reports the error
	}
	o.launch = gate.Launch(o.command)
	if o.servers, err = o.wrapped(c); err != nil {
		return nil, err
	}
	o.ctx, o.stop = context.WithCancelCause(context.Background())
	o.requests, o.failRequests = context.WithCancelCause(context.Background())
	o.process = supervise.New(o.supervised())
	return o, nil
}

func (q *Request) check() error {
	info, err := os.Stat(q.Cwd)
	switch {
	case !filepath.IsAbs(q.Cwd):
		return fmt.Errorf("the working folder %q is not absolute: %w", q.Cwd, gate.ErrInvalid)
	case err != nil:
		return fmt.Errorf("the working folder: %w: %w", err, gate.ErrInvalid)
	case !info.IsDir():
		return fmt.Errorf("the working folder %s is not a folder: %w", q.Cwd, gate.ErrInvalid)
	case q.Prompt == "":
		return fmt.Errorf("the prompt is empty: %w", gate.ErrInvalid)
	case len(q.Prompt) > MaxPrompt:
		return fmt.Errorf("the prompt has %d bytes; at most %d are allowed: %w", len(q.Prompt), MaxPrompt, gate.ErrTooLarge)
	case q.Timeout < 0 || q.Timeout > 7*24*time.Hour:
		return fmt.Errorf("the timeout is %s; a run may take at most 7 days: %w", q.Timeout, gate.ErrInvalid)
	}
	return nil
}

// supervised returns the options of the process, which is started once.
func (o *run) supervised() supervise.Options[*rpc.Conn] {
	return supervise.Options[*rpc.Conn]{
		Name:   fmt.Sprintf("agent %q", o.request.Name),
		Logger: o.runs.options.Logger,
		Spec: func() (child.Spec, error) {
			return child.Spec{Command: o.command[0], Args: o.command[1:], Env: o.env, Dir: o.request.Cwd}, nil
		},
		Open:  o.open,
		Run:   func(ctx context.Context, c *rpc.Conn) error { return c.Run(ctx) },
		Lost:  func(err error) bool { return errors.Is(err, rpc.ErrClosed) },
		Grace: child.Grace{Term: child.OurGrace.Term}, // leave closes its input before
	}
}

// open creates the connection to the agent.
func (o *run) open(stdin io.WriteCloser, stdout io.ReadCloser) *rpc.Conn {
	options := rpc.Options{Dropped: o.dropped}
	if o.agent.Protocol == config.ProtocolTyped {
		o.pace = newPaced(o.ctx, rpc.TypedJSON{}, func(m *rpc.Message) bool { return m.Kind == rpc.Part })
	} else {
		o.pace = newPaced(o.ctx, rpc.JSONRPC{CancelMethod: "$/cancel_request"}, func(m *rpc.Message) bool {
			return m.Kind == wire.Notification && m.Method == methodUpdate
		})
		options.Handler = rpc.HandlerFunc(o.handle)
	}
	options.Dialect = o.pace
	return rpc.NewConn(stdout, stdin, options)
}

// dropped counts messages of the agent that are invalid or unexpected, and reports the first.
func (o *run) dropped(reason string, frame []byte) {
	o.pace.dropped()
	if o.ctx.Err() != nil || o.bad.Add(1) > 1 { // requests that were cancelled may still be answered
		return
	}
	o.runs.options.Logger.Warn("an agent wrote an invalid message", "agent", o.request.Name, "run", o.id, "reason", reason, "bytes", len(frame))
	o.sendEvent(Event{Kind: KindNote, Text: fmt.Sprintf("it wrote an invalid line (%s); such lines are dropped", reason)})
}

// sendEvent sends an event. It blocks until the caller reads it, but not much longer than the run
// lasts.
func (o *run) sendEvent(e Event) {
	if o.eventsAbandoned.Load() {
		return
	}
	select {
	case o.events <- e:
		return
	case <-o.ctx.Done():
	}
	late := time.NewTimer(lateEvent)
	defer late.Stop()
	select {
	case o.events <- e:
	case <-late.C:
		o.eventsAbandoned.Store(true)
	}
}

// run carries out the run. When it returns, all processes of the run have ended.
func (o *run) run(ctx context.Context) Result {
	defer o.stop(nil)
	defer context.AfterFunc(ctx, func() { o.stop(context.Cause(ctx)) })()
	defer time.AfterFunc(o.timeout, func() { o.stop(errTimeout) }).Stop()

	life, kill := context.WithCancel(context.Background()) // of the process; cancelled in leave
	defer kill()
	quiet, hush := context.WithCancel(context.Background())
	defer hush()
	ended := make(chan error, 1)
	var work sync.WaitGroup
	work.Go(func() { ended <- o.process.Run(life) })
	work.Go(func() { o.passStderr(quiet) })

	conn, err := o.process.Conn(o.ctx)
	var answer Result
	var session Session
	if err == nil {
		if session, err = o.begin(); err == nil {
			answer, err = o.converse(ctx, conn)
		}
	}
	started := conn != nil
	end := o.leave(ctx, conn, kill, ended)
	o.terminals.close()
	if session != nil {
		session.Close(context.WithoutCancel(ctx))
	}
	hush()
	work.Wait()
	if n := o.bad.Load(); n > 1 {
		o.sendEvent(Event{Kind: KindNote, Text: fmt.Sprintf("%d invalid lines were dropped", n)})
	}
	return o.conclude(answer, err, end, started)
}

// begin opens the run's session, in which its requests are judged.
func (o *run) begin() (Session, error) {
	pid := o.process.Status().PID
	s, err := o.runs.options.Open(o.ctx, Started{
		Session: o.session, Agent: o.request.Name, Launch: o.launch, Command: o.command, Cwd: o.request.Cwd, PID: pid,
		Verdict: o.submitter.Verdict, Leave: func(string) { o.stop(errClosed) },
	})
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	o.submitter.Open(s.Judge())
	o.sendEvent(Event{Kind: KindStarted, ID: o.id, Session: o.session, PID: pid})
	return s, nil
}

func (o *run) converse(caller context.Context, conn *rpc.Conn) (Result, error) {
	if o.agent.Protocol == config.ProtocolTyped {
		return o.typed(conn)
	}
	return o.acp(caller, conn)
}

// leave ends the process: it closes the input and, after a grace period, kills the process. The
// error is that of a process that ended by itself.
func (o *run) leave(caller context.Context, conn *rpc.Conn, kill func(), ended <-chan error) error {
	o.failPendingRequests()
	if conn != nil {
		conn.Close()
		timer := time.NewTimer(o.gracePeriod(caller, leaveGrace))
		defer timer.Stop()
		select {
		case err := <-ended:
			return err
		case <-timer.C:
		case <-o.callerLeft(caller):
		}
	}
	kill()
	return <-ended
}

// failPendingRequests lets the agent's pending requests fail. They must not fail earlier: an agent that
// learned of them before it was told to stop would continue its turn.
func (o *run) failPendingRequests() { o.failRequests(o.why()) }

// why returns the reason for failing the agent's pending requests. An agent that answered
// the prompt with requests pending has ended its turn itself.
func (o *run) why() error {
	if cause := context.Cause(o.ctx); cause != nil {
		return cause
	}
	return errOver
}

// gracePeriod returns d, or less if nobody waits for the run.
func (o *run) gracePeriod(caller context.Context, d time.Duration) time.Duration {
	if caller.Err() != nil || errors.Is(context.Cause(o.ctx), gate.ErrNotRunning) {
		return shortGracePeriod
	}
	return d
}

// callerLeft returns a channel that is closed when the caller leaves while its run is being ended.
func (o *run) callerLeft(caller context.Context) <-chan struct{} {
	if caller.Err() != nil {
		return nil // patience has taken this into account
	}
	return caller.Done()
}

// passStderr sends the agent's standard error as events until quiet ends, and then what is left
// of it.
func (o *run) passStderr(quiet context.Context) {
	last := uint64(0)
	for _, ctx := range []context.Context{quiet, quiet} { // in the second pass quiet has ended
		for line := range o.process.Tail().Follow(ctx, last) {
			if missed := line.Number - last - 1; missed > 0 {
				o.sendEvent(Event{Kind: KindNote, Text: fmt.Sprintf("%d lines of its standard error came too fast and were dropped", missed)})
			}
			last = line.Number
			o.sendEvent(Event{Kind: KindStderr, Text: line.Text})
		}
	}
}
