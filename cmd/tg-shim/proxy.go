package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// proxy decides, for each line that one peer wrote, what the shim does with
// it: write it on, submit it, or refuse it. It holds no message; lines wait in
// lanes, open requests in the ledger, submissions in the link.
type proxy struct {
	server  string // id
	log     *slog.Logger
	link    *link
	ledger  *ledger
	lanes   [2]*lane // by who wrote what is in them: lanes[FromAgent] leads to the server
	profile pb.Profile
	longest int // bytes of one line; 0 for wire.MaxMessage

	running running // tasks whose results extensions want

	initialized atomic.Bool // the agent has asked for the legacy handshake
	modern      atomic.Bool // the agent has made a request of the modern era

	kept handshake // of a shared server

	toldOfHeaders atomic.Bool
	complaints    atomic.Int64 // about refused lines
}

func other(side wire.Side) wire.Side {
	if side == wire.FromAgent {
		return wire.FromServer
	}
	return wire.FromAgent
}

// onward is the lane that lines of side go into, back the one to side itself.
func (p *proxy) onward(side wire.Side) *lane { return p.lanes[side] }
func (p *proxy) back(side wire.Side) *lane   { return p.lanes[other(side)] }

// message handles one line of side. Lines of one side are handled by one
// goroutine, in order. Nothing of the line is kept when message returns: its memory
// is reused then, or is no memory of ours any more. An error means that the peer
// behind the lane is gone.
func (p *proxy) message(ctx context.Context, side wire.Side, l *wire.Line) error {
	line := l.Data
	var e wire.Envelope
	if err := l.Read(side, &e); err != nil {
		return p.unread(side, line, err)
	}
	if side == wire.FromServer && p.modern.Load() && !p.initialized.Load() {
		e.Modern = true // the lines of a server do not say so themselves
	}
	switch e.Kind {
	case wire.Request:
		return p.request(ctx, side, line, &e)
	case wire.Notification:
		return p.notification(ctx, side, line, &e)
	}
	return p.answer(ctx, side, line, &e)
}

func (p *proxy) request(ctx context.Context, side wire.Side, line []byte, e *wire.Envelope) error {
	id := e.ID.Of(line)
	key, err := wire.Key(id)
	if err != nil {
		return p.unread(side, line, err)
	}
	if refusal := mcp.Check(side, e, line); refusal != nil {
		p.refused(side, line, refusal.Reason)
		if refusal.Answer {
			p.tellOfRefusal(side, id, refusal, true)
		}
		return nil
	}
	p.link.count(side, e.Method)
	r := &request{key: key, id: append([]byte(nil), id...), method: e.Method, modern: e.Modern, side: side}
	rule := mcp.Lookup(side, e)
	if rule.Treatment != mcp.Refuse && !mcp.KnownRevision(e, line) {
		rule = mcp.Rule{Treatment: mcp.Judge, Unknown: true} // nobody here knows what it means
	}
	r.written = rule.Treatment != mcp.Judge
	switch p.ledger.add(r) {
	case alreadyOpen: // an error would be read as the answer to the first one
		p.refused(side, line, "a request with this id is open")
		return nil
	case tooLate:
		p.back(side).reply(mcp.RefuseUnread(id, mcp.CodeServerExit, "The MCP server has ended"))
		return nil
	case tooMany:
		p.refused(side, line, "too many open requests")
		p.back(side).reply(mcp.RefuseUnread(id, mcp.CodeGate, fmt.Sprintf("more than %d requests are open", maxOpen)))
		return nil
	}
	if side == wire.FromAgent {
		r.token, r.task = tokenOf(e, line), taskOf(e, line)
		if e.Method == "initialize" {
			p.initialized.Store(true)
		}
		if e.Modern {
			p.modern.Store(true)
		}
	}
	p.kept.asked(r, line)
	switch rule.Treatment {
	case mcp.Judge:
		return p.submit(ctx, &call{side: side, line: line, request: r})
	case mcp.Refuse:
		p.ledger.settle(side, key)
		p.refused(side, line, "a method that "+sideName(side)+" may not call: "+e.Method)
		if side == wire.FromAgent || !e.Modern { // in the modern era nobody answers a server
			p.back(side).reply(mcp.RefuseUnread(id, mcp.CodeUnknownMethod, "Method not found"))
		}
		return nil
	}
	return p.passes(side, line, e.Method, rule)
}

func (p *proxy) notification(ctx context.Context, side wire.Side, line []byte, e *wire.Envelope) error {
	if refusal := mcp.Check(side, e, line); refusal != nil {
		p.refused(side, line, refusal.Reason)
		return nil
	}
	p.link.count(side, e.Method)
	rule := mcp.Lookup(side, e)
	if rule.Treatment == mcp.Pass && side == wire.FromServer && mcp.Asks(line, e) {
		rule.Treatment = mcp.Inspect
	}
	switch rule.Treatment {
	case mcp.Judge, mcp.Inspect, mcp.Filter:
		came, known := p.toldOf(side, line, e)
		if !known {
			p.refused(side, line, unknownTask)
			return nil
		}
		return p.submit(ctx, &call{side: side, line: line, came: came})
	case mcp.Refuse:
		p.refused(side, line, "a notification that "+sideName(side)+" may not send: "+e.Method)
		return nil
	}
	if e.Method == "notifications/cancelled" && e.RequestID.Present() {
		if key, err := wire.Key(e.RequestID.Of(line)); err == nil {
			p.tell(line, &pb.Observe{Direction: direction(side), Method: e.Method, Unrecorded: !rule.Record})
			return p.cancel(side, key, append([]byte(nil), line...))
		}
	}
	return p.passes(side, line, e.Method, rule)
}

// cancel sends a cancellation after the request it names, and nowhere when
// that was never sent: then it takes the question back (EC-STDIO-031).
func (p *proxy) cancel(side wire.Side, key string, line []byte) error {
	return p.onward(side).later(len(line), func() []byte {
		r := p.ledger.find(side, key)
		if r == nil {
			return p.cancelAnswered(side, key, line)
		}
		if c := p.ledger.judgement(r); c != nil && p.link.withdraw(c) {
			p.ledger.close(r)
			return nil
		}
		if p.ledger.cancel(r) {
			p.outcome(r, pb.Outcome_OUTCOME_CANCELLED)
		}
		return line
	})
}

// cancelAnswered is cancel for a request that is open no more. When the daemon
// has its answer still, that is dropped: the server has done its part, and the
// agent does not want it. What it returns is sent on.
func (p *proxy) cancelAnswered(side wire.Side, key string, line []byte) []byte {
	c := p.ledger.weighing(side, key)
	if c == nil || !p.link.withdraw(c) {
		return line
	}
	p.ledger.weighed(c)
	p.back(side).fill(c.place, nil)
	return nil
}

func (p *proxy) answer(ctx context.Context, side wire.Side, line []byte, e *wire.Envelope) error {
	if !e.ID.Present() { // only the server may complain without saying of what
		if side == wire.FromServer {
			p.link.count(side, "")
			return p.pass(side, line, &pb.Observe{Unrecorded: true})
		}
		p.refused(side, line, "an error that answers nothing")
		return nil
	}
	key, err := wire.Key(e.ID.Of(line))
	if err != nil {
		return p.unread(side, line, err)
	}
	r, ok := p.ledger.settle(other(side), key)
	if !ok {
		p.refused(side, line, "an answer to nothing that was asked")
		return nil
	}
	p.link.count(side, r.method)
	p.kept.answered(r, e)
	if r.ours {
		p.outcome(r, outcomeOf(e))
		return nil
	}
	rule := mcp.LookupResult(side, r.method, r.modern)
	if rule.Treatment == mcp.Refuse {
		p.outcome(r, outcomeOf(e))
		p.refused(side, line, "an answer that "+sideName(side)+" of the modern era does not write")
		return nil
	}
	came, known := p.cameOf(r, line, e)
	if !known {
		return p.withhold(side, line, r)
	}
	if came != nil || p.wanted(rule, r, line, e) {
		p.outcome(r, outcomeOf(e))
		return p.submit(ctx, &call{side: side, line: line, request: r, result: true, came: came})
	}
	return p.answered(side, p.announced(r, line, e), r, e, rule)
}

// answered writes an answer on that passes, and tells the daemon what it is to a
// judged request and what it says.
func (p *proxy) answered(side wire.Side, line []byte, r *request, e *wire.Envelope, rule mcp.Rule) error {
	if !rule.Record && !rule.Observe && e.Kind != wire.Error {
		p.outcome(r, outcomeOf(e))
		return p.onward(side).push(line)
	}
	o := &pb.Observe{Method: r.method, Unrecorded: !rule.Record}
	if c := p.ledger.judgement(r); c != nil {
		o.Call, o.Outcome = c.seq, outcomeOf(e)
	}
	return p.pass(side, line, o)
}

// submit asks the daemon about the line of c, which is copied.
func (p *proxy) submit(ctx context.Context, c *call) error {
	c.line, c.place = append([]byte(nil), c.line...), p.onward(c.side).take()
	if c.result {
		p.ledger.weigh(c)
		if j := p.ledger.judgement(c.request); j != nil {
			c.about = j.seq
		}
	} else if c.request != nil {
		p.ledger.attach(c.request, c)
	}
	if err := p.link.submit(ctx, c, p.onward(c.side).more.Load()); err != nil {
		p.refuse(c, nil, err.Error())
	}
	return nil
}

// passes writes a message on that is not judged, and tells the daemon of it if it
// is one of those that are looked at or written down.
func (p *proxy) passes(side wire.Side, line []byte, method string, rule mcp.Rule) error {
	if rule.Record || rule.Observe {
		return p.pass(side, line, &pb.Observe{Method: method, Unrecorded: !rule.Record})
	}
	return p.onward(side).push(line)
}

// outcome tells the daemon what became of a judged request.
func (p *proxy) outcome(r *request, outcome pb.Outcome) {
	if c := p.ledger.judgement(r); c != nil {
		p.link.later(&pb.Observe{Call: c.seq, Outcome: outcome})
	}
}

func outcomeOf(e *wire.Envelope) pb.Outcome {
	switch {
	case e.Kind == wire.Error:
		return pb.Outcome_OUTCOME_PROTOCOL_ERROR
	case e.IsError:
		return pb.Outcome_OUTCOME_TOOL_ERROR
	}
	return pb.Outcome_OUTCOME_OK
}
