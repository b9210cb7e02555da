// Package submit judges calls that reach the daemon as requests, not as lines of a relayed
// session: what a headless agent asks of its host, and what other agents ask before they use a
// tool of their own. Each becomes a line of tools/call, is submitted to the gate like any other,
// and waits for its verdict.
package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Outcomes of a call that was forwarded.
const (
	OutcomeOK     = "ok"
	OutcomeFailed = "tool_error"
)

// maxObserved is the maximum length of a result that the session's memory examines, in bytes.
const maxObserved = 256 << 10

// ErrNotOpen refuses a call that comes before the attachment.
var ErrNotOpen = errors.New("requests are not allowed before the session is open")

// DeniedError reports that a call was denied. Its text is for the agent's model.
type DeniedError struct {
	Text     string
	Reason   string // one sentence, for a person
	Approval string // the question behind it; may be empty
}

func (e *DeniedError) Error() string { return e.Text }

// Submitter submits calls to one attachment. Its methods are safe for concurrent use.
type Submitter struct {
	attachment atomic.Pointer[gate.Attachment] // nil before there is one

	mu      sync.Mutex // guards the fields below
	last    uint64
	waiting map[uint64]chan gate.Verdict
}

// New returns a Submitter without an attachment, which refuses all calls.
func New() *Submitter { return &Submitter{waiting: map[uint64]chan gate.Verdict{}} }

// Open sets the attachment. Its verdicts must go to [Submitter.Verdict].
func (s *Submitter) Open(a *gate.Attachment) { s.attachment.Store(a) }

// Verdict hands a verdict to the call that waits for it. It does not block: a call gets at
// most three, one while extensions are asked, one while a person is asked, and the final one.
func (s *Submitter) Verdict(v gate.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.waiting[v.Seq]; waiting != nil {
		waiting <- v
	}
}

func (s *Submitter) enter() (uint64, chan gate.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	verdicts := make(chan gate.Verdict, 4)
	s.waiting[s.last] = verdicts
	return s.last, verdicts
}

func (s *Submitter) leave(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, seq)
}

// Call is a call to be judged.
type Call struct {
	Tool      string
	Arguments []byte        // raw JSON object
	Patience  time.Duration // how long the agent waits; 0 if as the attachment has it
	CanAsk    bool          // the agent can be told to ask its own user
}

// Permitted is a call that was forwarded.
type Permitted struct {
	Arguments rawjson.Object // to be used: a person may have edited them
	Edited    bool
	Notice    string // for the agent's model; may be empty
	Question  string // the agent is to ask its own user this before the call; empty: nothing is left to ask

	seq     uint64
	line    []byte // the call as it was approved
	inspect bool   // extensions inspect its result before the agent reads it
}

// Judge submits a call of the tool and waits for its verdict, for which a person may be asked.
// held is called with each verdict that says that the call waits. A denial is a *DeniedError. If
// ctx ends first, the error is its cause, and the call and its question are withdrawn unless that
// is [gate.ErrNotRunning].
func (s *Submitter) Judge(ctx context.Context, call Call, held func(gate.Verdict)) (*Permitted, error) {
	attachment := s.attachment.Load()
	if attachment == nil {
		return nil, ErrNotOpen
	}
	seq, verdicts := s.enter()
	defer s.leave(seq)
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":`, seq, call.Tool)
	line = append(append(line, call.Arguments...), "}}"...)
	attachment.Submit(gate.Submission{Seq: seq, Side: wire.FromAgent, Line: line, Patience: call.Patience, CanAsk: call.CanAsk})
	v, err := final(ctx, attachment, seq, verdicts, held)
	if err != nil {
		return nil, err
	}
	return permitted(attachment, v)
}

// final waits for the verdict that forwards a submission.
func final(ctx context.Context, attachment *gate.Attachment, seq uint64, verdicts <-chan gate.Verdict, held func(gate.Verdict)) (gate.Verdict, error) {
	for {
		select {
		case v := <-verdicts:
			switch v.Move {
			case gate.Ask:
				held(v)
				continue
			case gate.Deny:
				return v, &DeniedError{textOf(v), v.Reason, v.Approval}
			}
			return v, nil
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), gate.ErrNotRunning) { // the next daemon still asks the question
				attachment.Cancel(seq)
			}
			return gate.Verdict{}, context.Cause(ctx)
		}
	}
}

// permitted parses the arguments of a call that was forwarded.
func permitted(attachment *gate.Attachment, v gate.Verdict) (*Permitted, error) {
	var e wire.Envelope
	err := wire.Read(v.Line, wire.FromAgent, &e)
	p := &Permitted{seq: v.Seq, Edited: v.Replaced, Notice: v.Notice, Question: v.Question, line: v.Line, inspect: v.Inspect}
	if err == nil {
		p.Arguments = rawjson.Read(e.Arguments.Of(v.Line))
		err = p.Arguments.Err()
	}
	if err != nil {
		attachment.RecordOutcome(context.Background(), v.Seq, OutcomeFailed)
		return nil, fmt.Errorf("read the approved arguments: %w", err)
	}
	return p, nil
}

// Finish records the outcome of a forwarded call, and what the agent is about to read of it, for
// the session's memory. err is why the call failed; nil if it succeeded. Finish returns the text
// that the agent may read: extensions may have rewritten it, or withheld it, which is a
// *DeniedError. A call that failed is not shown to extensions, and err is returned.
func (s *Submitter) Finish(ctx context.Context, p *Permitted, text string, err error) (string, error) {
	outcome, observed := OutcomeOK, text
	if err != nil {
		outcome, observed = OutcomeFailed, err.Error()
	}
	attachment := s.attachment.Load()
	inspect := err == nil && p.inspect
	if !inspect { // a submitted result is observed by the gate itself
		observe(attachment, p.seq, observed)
	}
	attachment.RecordOutcome(context.WithoutCancel(ctx), p.seq, outcome)
	if !inspect {
		return text, err
	}
	return s.inspected(ctx, attachment, p, text)
}

// Observe has the session remember text that the agent has read as the result of a call that is
// not known.
func (s *Submitter) Observe(text string) {
	if attachment := s.attachment.Load(); attachment != nil {
		observe(attachment, 0, text)
	}
}

func observe(attachment *gate.Attachment, seq uint64, text string) {
	if text == "" {
		return
	}
	missing := max(0, len(text)-maxObserved)
	attachment.ObserveMessage(wire.FromServer, "tools/call", resultOf(seq, text[:len(text)-missing]), uint64(missing))
}

// inspected shows the result of a call to the extensions that want to see it, and returns the
// result as they leave it.
func (s *Submitter) inspected(ctx context.Context, attachment *gate.Attachment, p *Permitted, text string) (string, error) {
	seq, verdicts := s.enter()
	defer s.leave(seq)
	attachment.Submit(gate.Submission{
		Seq: seq, Side: wire.FromServer, Line: resultOf(p.seq, text), Answers: "tools/call", Call: p.seq, About: p.seq, Request: p.line,
	})
	v, err := final(ctx, attachment, seq, verdicts, func(gate.Verdict) {})
	if err != nil {
		return "", err
	}
	if !v.Replaced {
		return text, nil
	}
	var changed response
	if err := json.Unmarshal(v.Line, &changed); err != nil {
		return "", fmt.Errorf("read the result as extensions changed it: %w", err)
	}
	all := ""
	for _, block := range changed.Result.Content {
		all += block.Text
	}
	return all, nil
}

// resultOf returns text as the result of a call.
func resultOf(call uint64, text string) []byte {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":`, call)
	return append(wire.AppendQuote(line, text), `}]}}`...)
}

// response holds the fields of a response that are used here.
type response struct {
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// textOf returns what a denial tells the agent's model.
func textOf(v gate.Verdict) string {
	var a response
	if json.Unmarshal(v.Answer, &a) == nil {
		if len(a.Result.Content) > 0 {
			return a.Result.Content[0].Text
		}
		if a.Error.Message != "" {
			return a.Error.Message
		}
	}
	return "Not executed. " + v.Reason
}
