package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// pendingCalls holds the requests of a run that wait for their verdicts.
type pendingCalls struct {
	judge atomic.Pointer[gate.Attachment] // nil before the run has a session

	mu      sync.Mutex // guards the fields below
	last    uint64
	waiting map[uint64]chan gate.Verdict
}

// verdict hands a verdict to the request that waits for it. It does not block: a call gets at
// most three, one while extensions are asked, one while a person is asked, and the final one.
func (d *pendingCalls) verdict(v gate.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waiting := d.waiting[v.Seq]; waiting != nil {
		waiting <- v
	}
}

func (d *pendingCalls) enter() (uint64, chan gate.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	verdicts := make(chan gate.Verdict, 4)
	d.waiting[d.last] = verdicts
	return d.last, verdicts
}

func (d *pendingCalls) leave(seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, seq)
}

// errRefused reports that a request was denied; its text is for the agent's model.
type errRefused struct{ text string }

func (e *errRefused) Error() string { return e.text }

// errEarly refuses a request of the agent before the run has a session.
var errEarly = errors.New("requests are not allowed before the session is open")

// permitted is a request that was forwarded.
type permitted struct {
	seq       uint64
	arguments rawjson.Object // to be used: a person may have edited them
	edited    bool
	line      []byte // the call as it was approved
	inspect   bool   // extensions inspect its result before the agent reads it
}

// judged submits a request of the agent to the gate, as a call of the tool, and waits for the
// verdict, for which a person may be asked. A denial is an *errRefused.
func (o *run) judged(ctx context.Context, tool string, arguments []byte) (*permitted, error) {
	judge := o.desk.judge.Load()
	if judge == nil {
		return nil, errEarly
	}
	seq, verdicts := o.desk.enter()
	defer o.desk.leave(seq)
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":`, seq, tool)
	line = append(append(line, arguments...), "}}"...)
	judge.Submit(gate.Submission{Seq: seq, Side: wire.FromAgent, Line: line})
	v, err := o.final(ctx, judge, seq, verdicts, tool)
	if err != nil {
		return nil, err
	}
	return o.parsePermitted(judge, v)
}

// final waits for the verdict that forwards a submission. A denial is an *errRefused.
func (o *run) final(ctx context.Context, judge *gate.Attachment, seq uint64, verdicts <-chan gate.Verdict, tool string) (gate.Verdict, error) {
	for {
		select {
		case v := <-verdicts:
			switch v.Move {
			case gate.Ask:
				if v.Approval != "" { // otherwise extensions are asked, and nobody has to act
					o.sendEvent(Event{Kind: KindHeld, Tool: tool, Approval: v.Approval, Text: v.Reason})
				}
				continue
			case gate.Deny:
				o.sendEvent(Event{Kind: KindDenied, Tool: tool, Approval: v.Approval, Text: v.Reason})
				return v, &errRefused{said(v)}
			}
			return v, nil
		case <-ctx.Done():
			judge.Cancel(seq)
			return gate.Verdict{}, context.Cause(ctx)
		case <-o.agentNotified:
			judge.Cancel(seq)
			return gate.Verdict{}, o.why()
		}
	}
}

// parsePermitted parses the arguments of a call that was forwarded.
func (o *run) parsePermitted(judge *gate.Attachment, v gate.Verdict) (*permitted, error) {
	var e wire.Envelope
	err := wire.Read(v.Line, wire.FromAgent, &e)
	p := &permitted{seq: v.Seq, edited: v.Replaced, line: v.Line, inspect: v.Inspect}
	if err == nil {
		p.arguments = rawjson.Read(e.Arguments.Of(v.Line))
		err = invalid(p.arguments.Err())
	}
	if err != nil {
		judge.RecordOutcome(context.WithoutCancel(o.ctx), v.Seq, outcomeFailed)
		return nil, err
	}
	return p, nil
}

// Outcomes of a request that was forwarded.
const (
	outcomeOK     = "ok"
	outcomeFailed = "tool_error"
)

// recordOutcome records the outcome of a forwarded request and notes for the session what the agent is
// about to read. It returns that text: extensions may have rewritten or withheld it. A request
// that failed is not shown to extensions.
func (o *run) recordOutcome(ctx context.Context, p *permitted, text string, err error) (string, error) {
	outcome, heard := outcomeOK, text
	if err != nil {
		outcome, heard = outcomeFailed, err.Error()
	}
	judge := o.desk.judge.Load()
	inspect := err == nil && p.inspect
	if heard != "" && !inspect { // a submitted result is heard by the gate itself
		missing := max(0, len(heard)-mostHeard)
		judge.ObserveMessage(wire.FromServer, "tools/call", resultOf(p.seq, heard[:len(heard)-missing]), uint64(missing))
	}
	judge.RecordOutcome(context.WithoutCancel(ctx), p.seq, outcome)
	if !inspect {
		return text, err
	}
	return o.inspected(ctx, judge, p, text)
}

// inspected shows the result of a request to the extensions that want to see it and returns the
// result as they leave it. If they withhold it, the error is an *errRefused.
func (o *run) inspected(ctx context.Context, judge *gate.Attachment, p *permitted, text string) (string, error) {
	seq, verdicts := o.desk.enter()
	defer o.desk.leave(seq)
	judge.Submit(gate.Submission{
		Seq: seq, Side: wire.FromServer, Line: resultOf(p.seq, text), Answers: "tools/call", Call: p.seq, About: p.seq, Request: p.line,
	})
	v, err := o.final(ctx, judge, seq, verdicts, "result")
	if err != nil {
		return "", err
	}
	if !v.Replaced {
		return text, nil
	}
	var changed answer
	if err := json.Unmarshal(v.Line, &changed); err != nil {
		return "", fmt.Errorf("read the result as extensions changed it: %w", err)
	}
	all := ""
	for _, block := range changed.Result.Content {
		all += block.Text
	}
	return all, nil
}

// mostHeard is the maximum length of a text that is given to Hear, in bytes.
const mostHeard = 256 << 10

// resultOf returns text as the result of the tool call as which a request was judged.
func resultOf(call uint64, text string) []byte {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":`, call)
	return append(wire.AppendQuote(line, text), `}]}}`...)
}

// answer holds the fields of a response that are used here.
type answer struct {
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// said returns what a denial tells the agent's model.
func said(v gate.Verdict) string {
	var a answer
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

// fault returns err as the agent gets it.
func fault(err error) error {
	var refused *errRefused
	var already *rpc.Fault
	switch {
	case errors.As(err, &already):
		return err
	case errors.As(err, &refused):
		return &rpc.Fault{Code: mcp.CodeRule, Message: refused.text}
	}
	return &rpc.Fault{Code: codeInternal, Message: err.Error()}
}
