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
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// desk is where a run's requests wait for their verdicts.
type desk struct {
	judge atomic.Pointer[gate.Attachment] // nil before the run is a session

	mu      sync.Mutex // guards what follows
	last    uint64
	waiting map[uint64]chan gate.Verdict
}

// verdict hands a verdict to who waits for it. It does not block: a call has two
// at most.
func (d *desk) verdict(v gate.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waiting := d.waiting[v.Seq]; waiting != nil {
		waiting <- v
	}
}

func (d *desk) enter() (uint64, chan gate.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[uint64]chan gate.Verdict{}
	}
	d.last++
	verdicts := make(chan gate.Verdict, 4)
	d.waiting[d.last] = verdicts
	return d.last, verdicts
}

func (d *desk) leave(seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, seq)
}

// errRefused is a request that was denied; its text is for the agent's model.
type errRefused struct{ text string }

func (e *errRefused) Error() string { return e.text }

// errEarly refuses what an agent asks before it was told anything.
var errEarly = errors.New("nothing can be asked before the session is there")

// permitted is a request that was let through.
type permitted struct {
	seq       uint64
	arguments object // as they are to be used: a person may have changed them
	edited    bool
}

// judged puts a request of the agent to the gates, as the call of a tool, and waits
// for the verdict: a person may be asked. A denial is an *errRefused.
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
	for {
		select {
		case v := <-verdicts:
			switch v.Move {
			case gate.Ask:
				o.tell(Event{Kind: KindHeld, Tool: tool, Approval: v.Approval, Text: v.Reason})
				continue
			case gate.Deny:
				o.tell(Event{Kind: KindDenied, Tool: tool, Approval: v.Approval, Text: v.Reason})
				return nil, &errRefused{said(v)}
			}
			return o.let(judge, v)
		case <-ctx.Done():
			judge.Cancel(seq)
			return nil, context.Cause(ctx)
		case <-o.told:
			judge.Cancel(seq)
			return nil, context.Cause(o.ctx)
		}
	}
}

// let reads the arguments that a call was let through with.
func (o *run) let(judge *gate.Attachment, v gate.Verdict) (*permitted, error) {
	var e wire.Envelope
	err := wire.Read(v.Line, wire.FromAgent, &e)
	p := &permitted{seq: v.Seq, edited: v.Replaced}
	if err == nil {
		p.arguments, err = objectOf(e.Arguments.Of(v.Line))
	}
	if err != nil {
		judge.Outcome(context.WithoutCancel(o.ctx), v.Seq, outcomeFailed)
		return nil, err
	}
	return p, nil
}

// What becomes of a request that was let through.
const (
	outcomeOK     = "ok"
	outcomeFailed = "tool_error"
)

// done writes down what became of a request that was let through, and tells the
// memory of the session what the agent is about to read.
func (o *run) done(ctx context.Context, p *permitted, text string, err error) {
	outcome := outcomeOK
	if err != nil {
		outcome, text = outcomeFailed, err.Error()
	}
	judge := o.desk.judge.Load()
	if text != "" {
		o.hear(judge, text)
	}
	judge.Outcome(context.WithoutCancel(ctx), p.seq, outcome)
}

// mostHeard is how much of one text the memory is told, in bytes.
const mostHeard = 256 << 10

// hear tells the memory what the agent is about to read, as the result of a tool.
func (o *run) hear(judge *gate.Attachment, text string) {
	missing := 0
	if len(text) > mostHeard {
		text, missing = text[:mostHeard], len(text)-mostHeard
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return // a string always can be
	}
	line := append(append([]byte(`{"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":`), quoted...), `}]}}`...)
	judge.Hear(wire.FromServer, "tools/call", line, uint64(missing))
}

// said is what a denial tells the agent's model.
func said(v gate.Verdict) string {
	var answer struct {
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(v.Answer, &answer) == nil {
		if len(answer.Result.Content) > 0 {
			return answer.Result.Content[0].Text
		}
		if answer.Error.Message != "" {
			return answer.Error.Message
		}
	}
	return "Not executed. " + v.Reason
}

// fault is an error as the agent gets it.
func fault(err error) error {
	var refused *errRefused
	var already *wire.Fault
	switch {
	case errors.As(err, &already):
		return err
	case errors.As(err, &refused):
		return &wire.Fault{Code: mcp.CodeRule, Message: refused.text}
	}
	return &wire.Fault{Code: codeInternal, Message: err.Error()}
}
