package relay

import (
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func (t *turn) answer(line []byte, e *wire.Envelope) {
	if !e.ID.Present() { // only the server may send an error without an id
		if t.side == fromServer {
			t.gate.CountMessages(t.side, "", 1)
			t.pass(line, "", false, true)
			return
		}
		t.refused(line, "an error without an id")
		return
	}
	key, err := wire.Key(e.ID.Of(line))
	if err != nil {
		t.unread(line, err)
		return
	}
	r := t.state.open[other(t.side)][key]
	if r == nil || r.sent == 0 {
		t.refused(line, "an answer without a request")
		return
	}
	t.answers = &which{r.side, key}
	t.add(&closed{*t.answers})
	t.gate.CountMessages(t.side, r.method, 1)
	if t.ends.Server.endsWithDaemon() && e.Kind == wire.Result && r.side == fromAgent && binds(r.method) && !r.ours && r.sentLine != nil {
		t.add(&agreed{r.method, r.sentLine})
	}
	if r.ours {
		t.outcome(r, outcomeOf(e))
		return
	}
	rule := mcp.LookupResult(t.side, r.method, r.modern)
	if rule.Treatment == mcp.Refuse {
		t.outcome(r, outcomeOf(e))
		t.refused(line, "an answer that "+sideName(t.side)+" of the modern era may not send")
		return
	}
	call, known := t.callOf(r, line, e)
	switch {
	case !known:
		t.refused(line, unknownTask)
		t.outcome(r, "lost")
		t.queue(other(t.side), mcp.RefuseUnread(r.id, mcp.CodeExtension, "The result is withheld: "+unknownTask))
	case (call != nil || isJudged(rule, r, line, e)) && r.cancelled: // nobody wants it, so nobody is asked about it
		t.add(&numbered{t.state.nextSeq(t.side)}) // a previous daemon may have recorded it under that number
		t.outcome(r, outcomeOf(e))
	case call != nil || isJudged(rule, r, line, e):
		t.outcome(r, outcomeOf(e))
		t.judgeAnswer(r, line, call)
	default:
		t.passAnswer(r, line, e, rule)
	}
}

// passAnswer forwards an answer without judging it.
func (t *turn) passAnswer(r *request, line []byte, e *wire.Envelope, rule mcp.Rule) {
	t.outcome(r, outcomeOf(e))
	announced := line
	if r.notice != "" && e.Kind == wire.Result {
		announced = mcp.Announce(line, e, r.notice)
	}
	if rule.Record || rule.Observe || e.Kind == wire.Error {
		t.observeAndRecord(line, r.method, rule.Record)
	}
	if len(announced) == len(line) && &announced[0] == &line[0] {
		t.forward(line)
		return
	}
	t.queue(other(t.side), announced)
}

// judgeAnswer judges the answer to r. call is the call behind it, if extensions want to see
// that.
func (t *turn) judgeAnswer(r *request, line []byte, call *origin) {
	w := &waiting{
		seq: t.state.nextSeq(t.side), side: t.side, line: t.keep(line), result: true,
		answers: r.method, key: r.key, id: r.id, modern: r.modern, call: r.seq, notice: r.notice,
	}
	w.setOrigin(call)
	switch v := t.judgeLine(w); v.Move {
	case gate.Forward:
		t.queueJudged(w, v)
	case gate.Ask:
		t.hold(w, v)
	case gate.Deny:
		t.queue(other(t.side), w.refused(v))
	}
}
