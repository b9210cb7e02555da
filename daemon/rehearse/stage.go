package rehearse

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Stage is a gate on which calls are rehearsed. It must not be used concurrently.
type Stage struct {
	// Redact replaces secrets in the arguments that are shown in an Answer. If it is nil, none are.
	Redact func([]byte) []byte

	fresh  func() *gate.Gate
	gate   *gate.Gate
	policy gate.Policy
	hooks  gate.Hooks // nil without extensions; named, never called
	shims  map[shimKey]*shim
	recent list.List      // shims, most recently used first
	shares map[string]int // number of shims by session
	played int            // number of shims so far
	seq    uint64

	line *Line // the line being judged

	mu   sync.Mutex // guards the fields below
	seen sighting
}

// sighting is what was observed while one line was judged.
type sighting struct {
	verdict  gate.Verdict
	record   *record.Record
	question *gate.Question
	judged   *judgement
	held     []string // names of definitions that wait for a person
}

// judgement is one call of the policy.
type judgement struct {
	policy gate.Policy
	call   gate.Call
	facts  []gate.Fact
	ruling gate.Ruling
	err    error
}

// New returns a stage on which calls are judged by the gate that fresh returns. Each gate must have
// its own pins and memory of facts. Nobody is asked and nothing is recorded; extensions are named
// but not called. Close must be called.
func New(fresh func() *gate.Gate) *Stage {
	g := fresh()
	s := &Stage{fresh: fresh, gate: g, policy: g.Policy(), hooks: g.Hooks, shims: map[shimKey]*shim{}, shares: map[string]int{}}
	g.Policy = func() gate.Policy { return &tap{s.policy, s} }
	if scope := g.Scope; scope != nil {
		g.Scope = func(project string) func(gate.Policy) gate.Policy {
			narrow := scope(project)
			return func(p gate.Policy) gate.Policy { return &tap{narrow(p.(*tap).Policy), s} }
		}
	}
	g.Facts = &assumed{g.Facts, s}
	if g.Pins != nil {
		g.Pins = &watched{g.Pins, s}
	}
	g.Hooks = nil
	g.Approver, g.Recorder = nobody{s}, blackboard{s}
	g.Logger = slog.New(slog.DiscardHandler)
	return s
}

// Close ends the stage.
func (s *Stage) Close() {
	for _, sh := range s.shims {
		sh.attachment.Close(true)
	}
}

// Judge returns what would become of l; why requests an explanation. What l contains is remembered
// in its session. An error means that l is invalid.
func (s *Stage) Judge(ctx context.Context, l Line, why bool) (*Answer, error) {
	if err := l.complete(); err != nil {
		return nil, err
	}
	sh := s.shim(&l)
	s.line = &l
	if l.Definition != nil && !bytes.Equal(l.Definition, sh.defined) {
		sh.defined = l.Definition
		// The server may list more than this.
		list := fmt.Appendf(nil, `{"tools":[%s],"nextCursor":"more"}`, l.Definition)
		s.submit(sh, gate.Submission{Side: wire.FromServer, Line: answer(s.seq+1, list), Answers: "tools/list"})
	}
	if l.Result != nil {
		return s.observe(ctx, sh, &l, why), nil
	}
	return s.call(ctx, sh, &l, why), nil
}

// call judges a call.
func (s *Stage) call(ctx context.Context, sh *shim, l *Line, why bool) *Answer {
	sh.last = l.params()
	e := wire.Envelope{Kind: wire.Request, Method: l.Method}
	if l.side() == wire.FromServer && !mcp.IsAsk(l.Method) {
		e.Kind = wire.Notification
	}
	var read wire.Envelope
	if wire.Read(l.request(s.seq+1), l.side(), &read) == nil {
		e.InputResponses = read.InputResponses
	}
	row := mcp.Lookup(l.side(), &e)
	if row.Treatment == mcp.Pass || row.Treatment == mcp.Filter || row.Treatment == mcp.Inspect {
		hear(ctx, sh, l.side(), l.Method, l.request(s.seq+1))
		return &Answer{Verdict: "forward", Reason: "messages of this kind are not judged"}
	}
	seen := s.submit(sh, gate.Submission{Side: l.side(), Line: l.request(s.seq + 1)})
	if sh.waits = nil; seen.judged != nil && seen.verdict.Move != gate.Forward {
		sh.waits = &seen.judged.call
	}
	return s.answer(ctx, l, seen, why)
}

// observe passes an answer as a shim would: lists and results that ask for something are judged,
// other answers are only observed. The call of the answer is judged first, unless it was the last
// one judged. Since it was answered, it counts as forwarded, whatever its verdict: a person has
// approved it.
func (s *Stage) observe(ctx context.Context, sh *shim, l *Line, why bool) *Answer {
	if l.isCall() && !bytes.Equal(sh.last, l.params()) {
		s.call(ctx, sh, l, false)
	}
	if sh.waits != nil && sh.waits.Side == wire.FromAgent && bytes.Equal(sh.last, l.params()) {
		s.gate.Facts.Forwarded(sh.waits)
		sh.waits = nil
	}
	from := wire.FromServer
	if l.side() == wire.FromServer {
		from = wire.FromAgent
	}
	line := answer(s.seq+1, l.Result)
	if submitted(from, l.Method, line) {
		return s.answer(ctx, l, s.submit(sh, gate.Submission{Side: from, Line: line, Answers: l.Method}), why)
	}
	hear(ctx, sh, from, l.Method, line)
	return &Answer{Verdict: "forward", Observed: true}
}

// hear passes an unjudged message to the gate, as a shim does.
func hear(ctx context.Context, sh *shim, from wire.Side, method string, line []byte) {
	sh.attachment.ObserveMessage(from, method, line, 0)
	sh.attachment.RecordMessage(ctx, from, method, line)
}

// submitted reports whether a shim submits an answer for judgement.
func submitted(from wire.Side, method string, line []byte) bool {
	switch mcp.LookupResult(from, method, false).Treatment {
	case mcp.Filter:
		return true
	case mcp.Inspect:
		var e wire.Envelope
		if wire.Read(line, from, &e) != nil {
			return true
		}
		return mcp.Asks(line, &e) || mcp.AsksWithin(line, &e, method)
	}
	return false
}

// submit submits one message and returns what was observed.
func (s *Stage) submit(sh *shim, m gate.Submission) sighting {
	s.seq++
	m.Seq = s.seq
	s.mu.Lock()
	s.seen = sighting{}
	s.mu.Unlock()
	sh.attachment.Submit(m)
	sh.attachment.Cancel(m.Seq) // no question is left open
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *Stage) note(f func(*sighting)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.seen)
}

// tap is a policy whose rulings are recorded in the sighting.
type tap struct {
	gate.Policy
	stage *Stage
}

func (t *tap) Rule(ctx context.Context, c *gate.Call, facts []gate.Fact) (gate.Ruling, error) {
	r, err := t.Policy.Rule(ctx, c, facts)
	t.stage.note(func(seen *sighting) {
		if seen.judged == nil || err != nil || r.Move != gate.Forward { // of several asks in one result, keep the one that counts
			seen.judged = &judgement{t.Policy, *c, facts, r, err}
		}
	})
	return r, err
}

// assumed adds the assumed facts of the line to those found.
type assumed struct {
	gate.Facts
	stage *Stage
}

func (a *assumed) Of(ctx context.Context, c *gate.Call) []gate.Fact {
	facts := a.Facts.Of(ctx, c)
	for _, name := range a.stage.line.Assume {
		if !slices.ContainsFunc(facts, func(f gate.Fact) bool { return f.Name == name }) {
			facts = append(facts, gate.Fact{Name: name, Detail: "assumed"})
		}
	}
	return facts
}

// watched are pins whose results are recorded in the sighting.
type watched struct {
	gate.Pins
	stage *Stage
}

func (w *watched) Listed(ctx context.Context, c *gate.Call, offered []gate.Offered) ([]gate.Pinned, error) {
	pinned, err := w.Pins.Listed(ctx, c, offered)
	w.stage.note(func(seen *sighting) {
		for i, p := range pinned {
			if p.Held != "" {
				seen.held = append(seen.held, offered[i].Name)
			}
		}
	})
	return pinned, err
}

// nobody is the approver of a stage. It answers no question.
type nobody struct{ stage *Stage }

func (n nobody) Ask(_ context.Context, q *gate.Question) (gate.Held, error) {
	n.stage.note(func(seen *sighting) { seen.question = q })
	return unheard{}, nil
}

type unheard struct{}

func (unheard) ID() string { return "" }

func (unheard) Wait(ctx context.Context) (gate.Answer, error) {
	<-ctx.Done()
	return gate.Answer{}, errors.New("a rehearsal asks nobody")
}

// blackboard is the recorder of a stage.
type blackboard struct{ stage *Stage }

func (b blackboard) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	if r.Kind == record.KindCall {
		kept := *r // the gate reuses r for other calls
		b.stage.note(func(seen *sighting) { seen.record = &kept })
	}
	return nil
}
