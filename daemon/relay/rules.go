package relay

import (
	"bytes"
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// turn handles one line of side. Its events are committed together when the line has been
// handled; then the functions in after are called. A turn must not retain the line: its memory
// is reused.
type turn struct {
	*Session
	ctx       context.Context
	side      wire.Side
	events    []event
	after     []func()
	envelope  wire.Envelope // of the line
	judged    bool          // settled must be called
	answers   *which        // the request that the line answers; nil for none
	abandoned bool          // the session ended while the line was judged: nothing is committed
}

func (t *turn) add(e event) { t.events = append(t.events, e) }

// release drops what the turn refers to and keeps its buffers.
func (t *turn) release() {
	clear(t.events)
	clear(t.after)
	*t = turn{events: t.events[:0], after: t.after[:0]}
}

// queue adds a line of the session's own to the output of a side. The session owns line
// afterwards.
func (t *turn) queue(to wire.Side, line []byte) {
	t.add(&queued{to: to, line: append(line, '\n'), reply: to == t.side})
}

// queueJudged adds what the verdict on w forwards to the output of the other side.
func (t *turn) queueJudged(w *waiting, v gate.Verdict) { t.add(w.through(v)) }

// keep returns line in memory that outlasts the turn.
func (t *turn) keep(line []byte) []byte {
	if t.side == fromAgent { // message has copied it
		return line
	}
	return withRoom(line)
}

// withRoom returns a copy of line with capacity for a line end.
func withRoom(line []byte) []byte { return append(make([]byte, 0, len(line)+1), line...) }

// forward writes the line to the other side, directly from the input if possible.
func (t *turn) forward(line []byte) {
	if e := t.inputs[t.side].inPlace(line, other(t.side)); e != nil {
		t.add(e)
		return
	}
	t.queue(other(t.side), t.keep(line))
}

// message handles one line that its reader has accepted. An agent's line is copied once,
// before it is read: a process that can reach the input's memory could otherwise change it
// after it was judged.
func (t *turn) message(l *wire.Line) {
	line, e := l.Data, &t.envelope
	var err error
	if t.side == fromAgent {
		line = withRoom(line)
		err = wire.Read(line, t.side, e)
	} else {
		err = l.Read(t.side, e)
	}
	if err != nil {
		t.unread(line, err)
		return
	}
	if t.side == fromServer && t.state.modern && !t.state.initialized {
		e.Modern = true // a server's lines do not say so themselves
	}
	switch e.Kind {
	case wire.Request:
		t.request(line, e)
	case wire.Notification:
		t.notification(line, e)
	default:
		t.answer(line, e)
	}
}

func (t *turn) request(line []byte, e *wire.Envelope) {
	id := e.ID.Of(line)
	key, err := wire.Key(id)
	if err != nil {
		t.unread(line, err)
		return
	}
	if refusal := mcp.Check(t.side, e, line); refusal != nil {
		t.refused(line, refusal.Reason)
		if refusal.Answer {
			t.answerRefused(id, refusal, true)
		}
		return
	}
	t.gate.CountMessages(t.side, e.Method, 1)
	rule := mcp.Lookup(t.side, e)
	if rule.Treatment != mcp.Refuse && !mcp.KnownRevision(e, line) {
		rule = mcp.Rule{Treatment: mcp.Judge, Unknown: true} // its meaning is not known
	}
	switch {
	case t.state.open[t.side][key] != nil || t.state.answering(t.side, key) != nil: // an error would be taken for the answer to the first one
		t.refused(line, "a request with this id is already open")
		return
	case t.noServer != nil && t.side == fromAgent:
		t.queue(t.side, mcp.RefuseUnread(id, t.noServer.Code, t.noServer.Text))
		return
	case len(t.state.open[t.side]) >= maxOpen:
		t.refused(line, "too many open requests")
		t.queue(t.side, mcp.RefuseUnread(id, mcp.CodeGate, fmt.Sprintf("more than %d requests are open", maxOpen)))
		return
	}
	r := request{side: t.side, key: key, id: bytes.Clone(id), method: e.Method, modern: e.Modern, number: t.state.nextSeq(t.side)}
	if t.side == fromAgent {
		r.token, r.task = tokenOf(e, line), taskOf(e, line)
		if asks := e.Method == "initialize"; asks && !t.state.initialized || e.Modern && !t.state.modern {
			t.add(&began{asks, e.Modern})
		}
	}
	if t.ends.Server.endsWithDaemon() && t.side == fromAgent && binds(r.method) {
		r.sentLine = line
	}
	switch rule.Treatment {
	case mcp.Judge:
		t.judgeRequest(&r, line)
	case mcp.Refuse:
		t.refused(line, "a method that "+sideName(t.side)+" may not call: "+e.Method)
		if t.side == fromAgent || !e.Modern { // in the modern era nobody answers a server
			t.queue(t.side, mcp.RefuseUnread(id, mcp.CodeUnknownMethod, "Method not found"))
		}
	default:
		r.sent = now()
		t.add(&numbered{r.number})
		t.add(&opened{r})
		t.pass(line, e.Method, rule.Record, rule.Record || rule.Observe)
	}
}

// judgeRequest judges a request and applies the verdict.
func (t *turn) judgeRequest(r *request, line []byte) {
	r.seq = r.number
	w := &waiting{seq: r.seq, side: t.side, line: t.keep(line), key: r.key, id: r.id, modern: r.modern}
	v := t.judgeLine(w)
	switch v.Move {
	case gate.Forward:
		r.sent, r.notice = now(), v.Notice
		if v.Inspect {
			r.inspect, r.sentLine = true, v.Line
		}
		t.add(&opened{*r})
		t.queueJudged(w, v)
	case gate.Ask:
		t.add(&opened{*r})
		t.hold(w, v)
	case gate.Deny:
		t.queue(t.side, refusal(v, r.id))
	default: // it was cancelled: it stays open until the cancellation's turn, and is never forwarded
		r.cancelled = true
		t.add(&opened{*r})
	}
}

// refusal returns the requester's answer for a verdict that denies.
func refusal(v gate.Verdict, id []byte) []byte {
	if v.Answer != nil {
		return v.Answer
	}
	return mcp.RefuseUnread(id, mcp.CodeGate, "Not executed: "+v.Reason)
}

// judgeLine judges a line. The verdict has no move if nothing more is to be done with the
// line.
func (t *turn) judgeLine(w *waiting) gate.Verdict {
	t.add(&numbered{w.seq})
	t.judged = true
	t.beingJudged[t.side] = w
	t.lookLater(t.side)
	s := w.submission()
	if t.side == fromAgent { // otherwise it was not read from the copy that is judged
		s.Envelope = &t.envelope
	}
	var v gate.Verdict
	t.unlocked(func() { v = t.judge(t.ctx, s) })
	t.beingJudged[t.side] = nil
	switch {
	case v.Move == 0 && (!w.withdrawn || t.ctx.Err() != nil):
		t.abandoned = true
	case w.withdrawn:
		if v.Move == gate.Forward {
			t.add(&ended{w.seq, "not_written"})
		}
		t.after = append(t.after, func() { t.gate.Cancel(w.seq) }) // the first Cancel may have come too early
		v.Move = 0
	}
	return v
}

func (t *turn) hold(w *waiting, v gate.Verdict) {
	t.add(&held{*w})
	t.after = append(t.after, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.state.waiting[w.seq] != nil {
			t.startReminder(w, v.Approval)
		}
	})
}

func (t *turn) notification(line []byte, e *wire.Envelope) {
	if refusal := mcp.Check(t.side, e, line); refusal != nil {
		t.refused(line, refusal.Reason)
		return
	}
	t.gate.CountMessages(t.side, e.Method, 1)
	rule := mcp.Lookup(t.side, e)
	if rule.Treatment == mcp.Pass && t.side == fromServer && mcp.Asks(line, e) {
		rule.Treatment = mcp.Inspect
	}
	switch rule.Treatment {
	case mcp.Judge, mcp.Inspect, mcp.Filter:
		t.judgeNotification(line, e)
	case mcp.Refuse:
		t.refused(line, "a notification that "+sideName(t.side)+" may not send: "+e.Method)
	default:
		if key := keyCancelled(e, line); key != "" {
			t.observeAndRecord(line, e.Method, rule.Record)
			t.cancel(key, line)
			return
		}
		t.pass(line, e.Method, rule.Record, rule.Record || rule.Observe)
	}
}

func (t *turn) judgeNotification(line []byte, e *wire.Envelope) {
	w := &waiting{seq: t.state.nextSeq(t.side), side: t.side, line: t.keep(line)}
	if id := taskOf(e, line); t.side == fromServer && id != "" {
		call, known := t.state.tasks.of(id)
		if !known {
			t.refused(line, unknownTask)
			return
		}
		w.setOrigin(call)
	}
	switch v := t.judgeLine(w); v.Move {
	case gate.Forward:
		t.queueJudged(w, v)
	case gate.Ask:
		t.hold(w, v)
	}
}

// cancel withdraws a held request, which is then never sent (EC-STDIO-031), and forwards the
// cancellation of any other.
func (t *turn) cancel(key string, line []byte) {
	r := t.state.open[t.side][key]
	if w := t.beingJudged[other(t.side)]; w != nil && w.result && w.key == key { // its answer is being judged
		w.withdrawn = true
		if r != nil { // the next daemon may have to handle the answer again
			t.add(&cancelled{which{t.side, key}})
		}
		t.after = append(t.after, func() { t.gate.Cancel(w.seq) })
		return
	}
	if r == nil {
		t.cancelAnswer(key, line)
		return
	}
	if r.sent == 0 {
		t.add(&closed{which{t.side, key}})
		if t.state.waiting[r.seq] != nil {
			t.add(&decided{r.seq})
			t.endReminder(r.seq)
			t.after = append(t.after, func() { t.gate.Cancel(r.seq) })
		}
		return
	}
	if !r.cancelled {
		t.add(&cancelled{which{t.side, key}})
		t.outcome(r, "cancelled")
	}
	t.forward(line)
}

// cancelAnswer is cancel for a request that is no longer open. If its answer is still held,
// the answer is dropped: the server is done, and the agent does not want it.
func (t *turn) cancelAnswer(key string, line []byte) {
	if w := t.state.answering(t.side, key); w != nil {
		t.add(&decided{w.seq})
		t.after = append(t.after, func() { t.gate.Cancel(w.seq) })
		return
	}
	t.forward(line)
}
