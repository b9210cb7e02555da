package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Shim is what the daemon knows of one tg-shim process.
type Shim struct {
	Attachment string
	Session    string // only if tg-shim descends from that wrap
	Agent      string
	Project    string
	Cwd        string // folder in which tg-shim was started
	Server     string
	Launch     string
	Command    []string
	Patience   time.Duration // how long the agent waits for an answer; 0 if not known
	Limit      Profile       // loosest profile of the session; empty: that of the set in force
	Requested  Profile       // may only tighten; empty imposes nothing
	Calls      *atomic.Int64 `json:"-"`      // counts judged calls for all attachments that share it; nil: no count
	InMemory   bool          `json:"Shared"` // the daemon runs its server: a shared one, or the tools of an extension; or it connects to it
	Remote     bool          // its server is behind an address, which Command names
	Host       bool          // it is not tg-shim but a run, which submits the agent's requests to the daemon
	Claimed    bool          // it names its own session: grants given elsewhere do not apply
}

// Submission is one line that is to be judged.
type Submission struct {
	Seq  uint64
	Side wire.Side
	Line []byte // must not be changed any more
	// Envelope is what [wire.CountMessages] has read from Line; nil if Line has not been read yet.
	Envelope *wire.Envelope
	Answers  string // for a result, the method of the request it answers
	Call     uint64 // for a result, the seq of that request; 0 if it was not judged
	Modern   bool   // for messages that are not requests
	Request  []byte // for a result that hooks want to see, the line of its call
	About    uint64 // seq of that call

	Patience time.Duration // how long the agent waits for this answer; 0 if as long as for any other
	CanAsk   bool          // the agent can be told to ask its own user, and says that there is one
}

// remembered is the maximum number of calls with a verdict that an attachment keeps, for their
// outcomes.
const remembered = 4096

// Attachment judges the lines of one tg-shim, each under its own seq. Its methods are safe for
// concurrent use.
type Attachment struct {
	gate   *Gate
	shim   Shim
	meter  Meter
	ctx    context.Context // ends when the attachment does; the cause says how
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup // for the goroutines of held calls

	submitting sync.Mutex // held while a line is judged, one at a time; acquired before mu

	mu        sync.Mutex // guards the fields below
	sink      func(Verdict)
	underway  map[uint64]context.CancelCauseFunc // lines that a submitter waits for
	held      map[uint64]context.CancelCauseFunc
	done      map[uint64]settled
	order     []uint64 // keys of done, oldest first
	earlier   map[uint64]record.Record
	judged    uint64
	denied    uint64
	revisions []string // see Call

	unable    bool // the agent does not support sampling
	supplying int  // answers under way in place of the agent

	tasks tasks
	shown shown

	silence silence

	retries retries // has its own lock

	hooking, hookingBytes int // lines that hooks are being called for, and their bytes

	notes  allowance // limits records of messages that were not judged
	idle   allowance // limits records of verdicts that nobody waits for
	spoken allowance // limits the log lines about verdicts
}

// Attach starts an attachment. earlier holds the records of calls that a previous daemon
// judged for the same attachment; it may be nil. If ctx ends, held questions stay open, as a
// stopping daemon requires.
func (g *Gate) Attach(ctx context.Context, shim Shim, earlier map[uint64]record.Record) *Attachment {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Attachment{
		gate: g, shim: shim, meter: g.meter(shim.Server), ctx: ctx, cancel: cancel, earlier: earlier,
		underway: map[uint64]context.CancelCauseFunc{}, held: map[uint64]context.CancelCauseFunc{}, done: map[uint64]settled{},
	}
}

// Shim returns what is known of the attached tg-shim.
func (a *Attachment) Shim() Shim { return a.shim }

// Bind makes sink the receiver of verdicts. It must be called before the first line is
// submitted. sink must not block.
func (a *Attachment) Bind(sink func(Verdict)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sink = sink
}

// Close ends the attachment. If gone is true, the agent has left and its questions are
// withdrawn; otherwise they stay open for the next daemon. Close returns when no call is held
// any more.
func (a *Attachment) Close(gone bool) {
	cause := context.Canceled
	if gone {
		cause = ErrWithdrawn
	}
	a.cancel(cause)
	a.wait.Wait()
	a.gate.removeOpenCalls(&a.shim, func(*openCall) bool { return true })
	a.writeLeft(context.Background(), a.idle.rest(), idleLeft)
	a.recordUnanswered()
	if gone {
		a.overAll(OutcomeLost)
	} else {
		a.overAll(OutcomeInterrupted)
	}
	if gone && a.gate.Pins != nil {
		a.gate.Pins.Left(a.shim.Attachment)
	}
}

// Submit judges one line. The verdict goes to the sink, before Submit returns unless the line
// is held.
func (a *Attachment) Submit(s Submission) { a.SubmitFor(a.ctx, s) }

// SubmitFor is Submit for a caller that waits for the verdict until ctx ends. A line that is
// still being judged then gets no verdict.
func (a *Attachment) SubmitFor(ctx context.Context, s Submission) {
	digest := sha256.Sum256(s.Line)
	ctx, done := a.registerSubmission(ctx, s.Seq)
	defer done()
	a.submitting.Lock()
	defer a.submitting.Unlock()
	c, refusal := a.call(s)
	c.came = came{s.Line, digest}
	if a.gate.Arrived != nil && c.Side == wire.FromAgent && c.Method == "tools/call" {
		a.gate.Arrived(c)
	}
	if refusal != nil {
		ruling := accident(refusal)
		ruling.Code = mcp.CodeInvalid
		a.settle(c, a.gate.deny(a.ctx, c, c.record(a.gate.Policy(), nil, ruling), ruling))
		return
	}
	if member, _ := mcp.ListOf(c.Method); member != "" && c.Envelope.Kind == wire.Result && !mcp.Asks(c.Line, &c.Envelope) {
		if v := a.gate.result(ctx, a, c); v.Move != 0 {
			a.settle(c, v)
		}
		return
	}
	a.listening(c)
	a.runs(c)
	a.traced(c)
	v, known, final := a.judgedBefore(c)
	if final {
		a.settle(c, v)
		return
	}
	switch h, err := a.wanted(c, s); {
	case err != nil:
		c.hooks = &hooked{Hooked: Hooked{Move: Deny, Reason: err.Error()}}
	case h != nil:
		a.throughHooks(h, known)
		return
	}
	a.finishUnhookedTrace(s.About, c)
	if all, sure := a.mustWait(c); len(all) > 0 {
		a.judgeBehind(c, all, sure, known)
		return
	}
	if v, asked := a.judge(ctx, c, known); asked != nil {
		a.holdCall(c, v, nil, func(ctx context.Context) { a.await(ctx, asked) })
	}
}

// newCall returns a call with only the fields that the attachment determines.
func (a *Attachment) newCall(side wire.Side) *Call {
	s := &a.shim
	return &Call{
		Message: Message{Side: side},
		Case: Case{
			Attachment: s.Attachment, Session: s.Session, Agent: s.Agent, Project: s.Project, Cwd: s.Cwd, Server: s.Server, Launch: s.Launch, Command: s.Command, Remote: s.Remote,
			Limit: s.Limit, Profile: s.Requested, Patience: s.Patience, Claimed: s.Claimed, from: a,
		},
	}
}

// call parses a submitted line, with the same reader as the relay, so that both see the same
// message.
func (a *Attachment) call(s Submission) (*Call, error) {
	c := a.newCall(s.Side)
	c.Seq, c.ID, c.Received, c.Line, c.Modern, c.Answers = s.Seq, correlation(c.Attachment, s.Seq), time.Now(), s.Line, s.Modern, s.Call
	c.Patience, c.CanAsk = cmp.Or(s.Patience, c.Patience), s.CanAsk
	if s.Envelope != nil {
		c.Envelope = *s.Envelope
	} else if err := wire.Read(s.Line, s.Side, &c.Envelope); err != nil {
		return c, err
	}
	a.mu.Lock()
	c.Revisions, c.Method, c.unable = a.revisions, c.Envelope.Method, a.unable
	a.mu.Unlock()
	switch c.Envelope.Kind {
	case wire.Result, wire.Error:
		c.Method, c.Of = s.Answers, a.subjectOf(s.Call)
		return c, nil
	case wire.Request:
		c.Modern = c.Envelope.Modern
	}
	if refusal := mcp.Check(s.Side, &c.Envelope, s.Line); refusal != nil {
		return c, refusal
	}
	var err error
	c.Subject, err = mcp.SubjectOf(&c.Envelope, s.Line)
	if mcp.SubjectKind(c.Method) == mcp.Task {
		a.mu.Lock()
		defer a.mu.Unlock()
		c.Task = a.tasks.tools[c.Subject]
	}
	return c, err
}

// judge judges c and settles it. If a person is asked, c is not settled, and the second result
// is what to wait for.
func (a *Attachment) judge(ctx context.Context, c *Call, known *record.Record) (Verdict, *asked) {
	gates := c.Trace.Begin(StageGate)
	v, asked := a.gate.judge(ctx, c, known)
	c.Trace.Finish(gates)
	switch {
	case v.Move == 0:
		a.unheld(ctx, c)
	case asked == nil:
		a.settle(c, v)
	}
	return v, asked
}

// holdCall sends the verdict v, which says that c is held, and runs next in a goroutine that Close
// waits for. room, if not nil, is called with a.mu held. If it returns false, hold does
// nothing and returns false.
func (a *Attachment) holdCall(c *Call, v Verdict, room func() bool, next func(context.Context)) bool {
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if room != nil && !room() {
		cancel(nil)
		return false
	}
	a.held[c.Seq] = cancel
	a.sendVerdict(v)
	a.wait.Go(func() {
		defer cancel(nil)
		next(ctx)
	})
	return true
}

func (a *Attachment) sendVerdict(v Verdict) {
	if a.sink != nil {
		a.sink(v)
	}
}

// registerSubmission registers a line as being judged, or waiting to be, until done is called, while its
// submitter waits. If the line is cancelled, the context ends with the cause ErrWithdrawn.
func (a *Attachment) registerSubmission(ctx context.Context, seq uint64) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underway[seq] = cancel
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.underway, seq)
		cancel(nil)
	}
}

// Cancel cancels a submitted line that has no final verdict: judging stops, its question is
// withdrawn and no verdict follows. Cancel has no effect on other lines.
func (a *Attachment) Cancel(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, lines := range []map[uint64]context.CancelCauseFunc{a.underway, a.held} {
		if cancel := lines[seq]; cancel != nil {
			cancel(ErrWithdrawn)
		}
	}
}

// settled is what is kept of a call with a final verdict.
type settled struct {
	inspect bool     // hooks want its result
	native  bool     // its agent asks its own user, and has not said what came of it
	written [32]byte // if inspect: digest of the forwarded line
	at      time.Time
	id      string
	method  string
	subject string
	profile Profile
	trace   *Trace // until it ends
}

// settle sends a final verdict, and keeps what is needed when the call is answered.
func (a *Attachment) settle(c *Call, v Verdict) {
	if v.Move == Forward && c.answerer != "" {
		a.supply(c)
		return
	}
	kept := settled{inspect: v.Inspect, native: v.Move == Forward && c.native, at: time.Now(), id: c.ID, method: c.Method, subject: c.Subject, profile: c.Profile, trace: c.Trace}
	if v.Inspect {
		kept.written = sha256.Sum256(v.Line)
	}
	c.Trace.decided(v)
	if v.Move == Forward {
		c.Trace.Begin(StageServer)
	} else {
		a.notOpen(c.Seq)
		kept.trace = nil
		defer a.gate.finishTrace(c.Trace, v.outcome())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.held, v.Seq)
	a.judged++
	if v.Move == Deny && !v.supplied && !v.parked {
		a.denied++
	}
	if a.shim.Calls != nil && c.Envelope.Kind == wire.Request {
		a.shim.Calls.Add(1)
	}
	a.order = append(a.order, v.Seq)
	a.done[v.Seq] = kept
	if len(a.order) > remembered {
		a.gate.finishTrace(a.done[a.order[0]].trace, OutcomeForgotten)
		delete(a.done, a.order[0])
		a.order = a.order[1:]
	}
	a.sendVerdict(v)
}

// mostTasks is how many tasks of one attachment are remembered.
const mostTasks = 1024

// tasks maps tasks to the tools that they run, so that a message to a task is judged as a call
// of that tool. The attachment's mutex guards it.
type tasks struct {
	tools map[string]string // by the task's id
	order []string          // task ids, oldest first
}

// runs remembers the task if the result c says that its call continues as one.
func (a *Attachment) runs(c *Call) {
	if c.Envelope.Kind != wire.Result || !c.Envelope.CreatedTaskID.Present() {
		return
	}
	id, err := wire.Unquote(c.Envelope.CreatedTaskID, c.Line)
	a.mu.Lock()
	defer a.mu.Unlock()
	call, ok := a.done[c.Answers]
	if err != nil || !ok || call.method != "tools/call" {
		return
	}
	t := &a.tasks
	if t.tools == nil {
		t.tools = map[string]string{}
	}
	if _, ok := t.tools[id]; ok { // a server that reuses an id can't be followed
		delete(t.tools, id)
		return
	}
	t.tools[id] = call.subject
	if t.order = append(t.order, id); len(t.order) > mostTasks {
		delete(t.tools, t.order[0])
		t.order = slices.Delete(t.order, 0, 1)
	}
}

// subjectOf returns the Subject of a call that was judged here or by a previous daemon. It is
// empty if not known.
func (a *Attachment) subjectOf(seq uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, ok := a.done[seq]; ok {
		return d.subject
	}
	return a.earlier[seq].Tool
}
