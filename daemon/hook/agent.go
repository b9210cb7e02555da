package hook

import (
	"context"
	"crypto/sha256"
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
	// maxFlights is the maximum number of calls of an agent that are judged at the same time.
	maxFlights = 64
	// flightLasts is how long the answer to a call is kept for another hook that reports the
	// same call.
	flightLasts = 5 * time.Second
)

// agent is one agent that reports to hooks.
type agent struct {
	registry  *Registry
	contract  *agenthook.Contract
	handle    *proc.Handle
	joined    *session.Joined
	submitter *submit.Submitter
	ledger    *ledger
	settling  atomic.Bool     // a conversation has ended, and its transcript will be compared
	life      context.Context // ends when the agent, its session or the daemon does
	end       context.CancelCauseFunc

	mu      sync.Mutex                   // guards the fields below
	open    map[string]*submit.Permitted // forwarded calls whose results have not been reported, by the agent's id
	order   []string                     // keys of open, oldest first
	flights map[[32]byte]*flight
	judging int // flights without an answer
}

// flight is a call that is being judged, or was a moment ago.
type flight struct {
	id     string        // the agent's id of the call; may be empty
	names  []string      // of the events that were about it
	done   chan struct{} // closed when the fields below are set
	output agenthook.Output
	err    error
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
	if call.Tool == agenthook.MCP && a.registry.governed(a.joined.Shim.Session, call.Server) {
		return a.contract.Pass(e, ""), nil // it is judged when it comes to the server
	}
	f, first, err := a.fly(call, e)
	if err != nil {
		return agenthook.Output{}, err
	}
	if !first {
		select {
		case <-f.done:
			return f.output, f.err
		case <-ctx.Done():
			return agenthook.Output{}, context.Cause(ctx)
		}
	}
	defer close(f.done)
	f.output, f.err = a.judge(ctx, e, call, patience)
	return f.output, f.err
}

// fly returns the flight of a call. The second result says that the caller has to judge it. The
// same call under another id is another call, and so is one without an id that the same event
// reports again.
func (a *agent) fly(call *agenthook.Call, e *agenthook.Event) (*flight, bool, error) {
	digest := sha256.Sum256(append([]byte(call.Tool+"\x00"), call.Arguments...))
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.flights[digest]; f != nil {
		isSame := f.id == e.ID
		if f.id == "" || e.ID == "" {
			isSame = !slices.Contains(f.names, e.Name)
		}
		if isSame {
			f.names = append(f.names, e.Name)
			return f, false, nil
		}
	}
	if a.judging >= maxFlights {
		return nil, false, fmt.Errorf("%d calls of the agent are being judged, the maximum: %w", a.judging, gate.ErrFull)
	}
	a.judging++
	f := &flight{id: e.ID, names: []string{e.Name}, done: make(chan struct{})}
	a.flights[digest] = f
	a.registry.wait.Go(func() { a.land(digest, f) })
	return f, true, nil
}

// land removes a flight a while after it was answered.
func (a *agent) land(digest [32]byte, f *flight) {
	select {
	case <-f.done:
		a.mu.Lock()
		a.judging--
		a.mu.Unlock()
		late := time.NewTimer(flightLasts)
		defer late.Stop()
		select {
		case <-late.C:
		case <-a.life.Done():
		}
	case <-a.life.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flights[digest] == f {
		delete(a.flights, digest)
	}
}

// judge submits a call to the gate and returns the agent's answer.
func (a *agent) judge(ctx context.Context, e *agenthook.Event, call *agenthook.Call, patience time.Duration) (agenthook.Output, error) {
	ctx, done := a.waiting(ctx)
	defer done()
	p, err := a.submitter.Judge(ctx, call.Tool, call.Arguments, patience, func(gate.Verdict) {})
	var denied *submit.DeniedError
	switch {
	case errors.As(err, &denied):
		return a.contract.Deny(e, denied.Text), nil
	case err != nil:
		return agenthook.Output{}, err
	}
	if !p.Edited {
		a.remember(e.ID, p)
		return a.contract.Pass(e, p.Notice), nil
	}
	input, err := call.Input(p.Arguments.Raw)
	if err == nil {
		if output, ok := a.contract.Change(e, input); ok {
			a.remember(e.ID, p)
			return output, nil
		}
		err = fmt.Errorf("%s can't be told to use other arguments", a.contract.Agent)
	}
	_, _ = a.submitter.Finish(ctx, p, "", err) // it returns err
	return a.contract.Deny(e, fmt.Sprintf("Not executed. It was approved with changes, and %v.", err)), nil
}

// remember keeps a forwarded call until its result is reported.
func (a *agent) remember(id string, p *submit.Permitted) {
	if id == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[id] == nil {
		a.order = append(a.order, id)
	}
	a.open[id] = p
	if len(a.order) > maxOpen {
		delete(a.open, a.order[0])
		a.order = a.order[1:]
	}
}

// after records the result of a call, and has the session remember what the agent has read.
func (a *agent) after(ctx context.Context, e *agenthook.Event) {
	a.mu.Lock()
	call := a.open[e.ID]
	delete(a.open, e.ID)
	a.order = slices.DeleteFunc(a.order, func(id string) bool { return id == e.ID })
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
