package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

const (
	// maxOpen is how many forwarded calls of an agent may wait for the report of their results.
	// The result of an older call is remembered, but not on record as the outcome of its call.
	maxOpen = 256
	// maxOpenBytes is how long the arguments of these calls may be together. The latest is kept
	// whatever its length.
	maxOpenBytes = 64 << 20
)

// agent is one agent that reports to hooks.
type agent struct {
	registry  *Registry
	contract  *agenthook.Contract
	process   proc.Process
	handle    *proc.Handle
	joined    *session.Joined
	submitter *submit.Submitter
	ledger    *ledger
	settling  atomic.Bool     // a conversation has ended, and its transcript will be compared
	life      context.Context // ends when the agent, its session or the daemon does
	end       context.CancelCauseFunc

	mu    sync.Mutex                   // guards the fields below
	open  map[string]*submit.Permitted // forwarded calls whose results have not been reported, by the agent's id
	order []string                     // keys of open, oldest first
	size  int                          // length in bytes of the arguments of the calls in open
}

// close ends the attachment, unless the daemon is stopping: the sessions then end as a whole.
func (a *agent) close() {
	a.end(errLeft)
	if a.registry.ctx.Err() == nil {
		a.registry.Sessions.End(a.joined, "left", "")
	}
	_ = a.handle.Close() // nothing was written
}

// waiting returns a context for a call that somebody waits for. It ends when the caller has left,
// when the agent has left, or when the daemon stops, and in this case with [gate.ErrNotRunning].
func (a *agent) waiting(ctx context.Context) (_ context.Context, done func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ofCaller := context.AfterFunc(ctx, func() {
		if stopping := context.Cause(a.registry.ctx); stopping != nil {
			cancel(stopping)
		}
		cancel(context.Cause(ctx))
	})
	ofAgent := context.AfterFunc(a.life, func() { cancel(context.Cause(a.life)) })
	return own, func() {
		ofCaller()
		ofAgent()
		cancel(nil)
	}
}

// before judges a call that the agent is about to make. It waits for the answer as long as patience.
func (a *agent) before(ctx context.Context, e *agenthook.Event, patience time.Duration) (agenthook.Output, error) {
	call, err := a.contract.Call(e)
	if err != nil {
		return agenthook.Output{}, fmt.Errorf("%w: %w", err, gate.ErrInvalid)
	}
	p, err := a.verdict(ctx, e, call, patience)
	denied, isDenied := errors.AsType[*submit.DeniedError](err)
	switch {
	case isDenied:
		return a.contract.Deny(e, denied.Text), nil
	case err != nil:
		return agenthook.Output{}, err
	case p.Question != "" && !a.canAsk(e): // the question is for another hook that has reported the call
		return a.contract.Deny(e, "Not executed. Another hook was told to have the user asked about it."), nil
	case p.Question != "":
		return a.contract.Ask(e, p.Question), nil
	case !p.Edited:
		return a.contract.Pass(e, p.Notice), nil
	}
	output, err := a.change(e, call, p)
	if err != nil {
		return a.contract.Deny(e, unchanged(err)), nil
	}
	return output, nil
}

// canAsk reports whether the agent can be told to ask its own user about the call in e, as far as it
// says. The session must be one of its own: a setting for another agent does not count for it.
func (a *agent) canAsk(e *agenthook.Event) bool {
	return a.contract.Asks(e) && a.joined.Shim.Agent == a.contract.Agent && a.registry.attended(a.contract, a.process)
}

// isAttended reports whether an agent runs at a terminal, and not only to print what comes of one
// prompt: otherwise there is nobody whom it could ask, or a program would answer. A program that gives
// itself a title overwrites its arguments, of which nothing but empty ones may be left.
func isAttended(c *agenthook.Contract, p proc.Process) bool {
	info, err := proc.Look(p.PID)
	if err != nil || info.Process != p || info.TTY == "" {
		return false
	}
	args, err := proc.Args(p.PID)
	return err == nil && len(args) > 0 && !slices.Contains(args, "") && !slices.ContainsFunc(args, c.Headless)
}

// change returns the agent's answer to a call that was approved with other arguments.
func (a *agent) change(e *agenthook.Event, call *agenthook.Call, p *submit.Permitted) (agenthook.Output, error) {
	input, err := call.Input(p.Arguments.Raw)
	if err == nil {
		if output, ok := a.contract.Change(e, input); ok {
			return output, nil
		}
		err = fmt.Errorf("%s can't be told to use other arguments", a.contract.Agent)
	}
	return agenthook.Output{}, err
}

// unchanged tells the agent's model why a call that was approved with other arguments is denied.
func unchanged(err error) string {
	return fmt.Sprintf("Not executed. It was approved with changes, and %v.", err)
}

// judge submits a call to the gate, unless it is judged when it comes to its server.
func (a *agent) judge(ctx context.Context, e *agenthook.Event, call *agenthook.Call, patience time.Duration) (*submit.Permitted, error) {
	if call.Tool == agenthook.MCP && a.registry.governed(a.joined.Shim.Session, call.Server) && a.awaits(e, call) {
		return &submit.Permitted{}, nil
	}
	ctx, done := a.waiting(ctx)
	defer done()
	p, err := a.submitter.Judge(ctx, submit.Call{
		Tool: call.Tool, Arguments: call.Arguments, Patience: patience, CanAsk: a.canAsk(e),
	}, func(gate.Verdict) {})
	if err != nil {
		return nil, err
	}
	if p.Edited {
		if _, err := a.change(e, call, p); err != nil {
			_, _ = a.submitter.Finish(ctx, p, "", err) // it returns err
			return nil, &submit.DeniedError{Text: unchanged(err)}
		}
	}
	a.remember(e.ID, p)
	return p, nil
}

// remember keeps a forwarded call until its result is reported.
func (a *agent) remember(id string, p *submit.Permitted) {
	if id == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(id)
	a.open[id], a.order, a.size = p, append(a.order, id), a.size+len(p.Arguments.Raw)
	for len(a.order) > maxOpen || len(a.order) > 1 && a.size > maxOpenBytes {
		a.forget(a.order[0])
	}
}

// forget removes a call from open, if it is there. a.mu must be held.
func (a *agent) forget(id string) {
	if p := a.open[id]; p != nil {
		a.size -= len(p.Arguments.Raw)
		delete(a.open, id)
		a.order = slices.DeleteFunc(a.order, func(other string) bool { return other == id })
	}
}

// after records the result of a call, and has the session remember what the agent has read.
func (a *agent) after(ctx context.Context, e *agenthook.Event) {
	a.ran(e)
	a.mu.Lock()
	call := a.open[e.ID]
	a.forget(e.ID)
	a.mu.Unlock()
	var failed error
	if e.Failed {
		failed = errors.New(string(e.Result))
	}
	if call == nil {
		a.submitter.Observe(string(e.Result))
		return
	}
	_, _ = a.submitter.Finish(ctx, call, string(e.Result), failed) // the agent has read it already
}
