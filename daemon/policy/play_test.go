package policy

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// play makes some calls, each through an attachment of its agent, and counts their outcomes.
func (c *randomCase) play(moves map[string]int) {
	agent, requested := c.one("claude-code", "cursor", ""), c.one("", "", "production", "development")
	attachments := map[string]*gate.Attachment{}
	for seq := uint64(1); seq <= 6; seq++ {
		call, side, line := c.drawRefCall()
		call.agent, call.requested, call.calls = agent, requested, int(seq-1)
		c.mu.Lock()
		for _, f := range call.facts {
			c.facts[seq] = append(c.facts[seq], gate.Fact{Name: f})
		}
		c.mu.Unlock()
		a := attachments[call.server]
		if a == nil {
			a = c.gate.Attach(context.Background(), gate.Shim{
				Attachment: "attachment-of-" + call.server, Agent: agent, Server: call.server, Launch: "l", Requested: gate.Profile(requested), Calls: &c.calls,
			}, nil)
			a.Bind(func(v gate.Verdict) { c.verdicts <- v })
			defer a.Close(true)
			attachments[call.server] = a
		}
		s := gate.Submission{Seq: seq, Side: side, Line: []byte(line)}
		a.Submit(s)
		c.check(call, s, moves)
		if c.maybe() { // a reload
			c.now = 1 - c.now
		}
	}
}

// check compares the outcome of a call with the reference.
func (c *randomCase) check(call *refCall, s gate.Submission, moves map[string]int) {
	v := <-c.verdicts
	cfg := c.configs[c.now]
	want := reference(cfg, call)
	got := refOutcome{move: v.Move.String(), by: want.by}
	r := c.last()
	got.gate = r.Gate
	if v.Move == gate.Ask {
		got.workflow = c.asked
	}
	moves[want.move+" "+want.gate]++
	if cfg.profileOf(call) == "development" {
		c.checkWould(want, got, r, call, s, moves)
		return
	}
	if got != want || r.Set != cfg.digest || r.Would != "" {
		c.t.Errorf("%s on %s, facts %v: got %+v (%s), want %+v; the record is %+v", s.Line, call.server, call.facts, got, v.Reason, want, r)
	}
	if v.Move != gate.Ask {
		return
	}
	if c.maybe() { // a reload while it is held
		c.now = 1 - c.now
	}
	approved := !c.maybe()
	answer := gate.Answer{ID: "A-1", Approved: approved, State: "rejected"}
	c.answers <- answer
	v = <-c.verdicts
	final := afterAnswer(want, approved, c.configs[c.now], call)
	if v.Move.String() != final || c.last().Set != c.configs[c.now].digest {
		c.t.Errorf("%s on %s, facts %v, held for %q, approved %v: got %v (%s), want %s", s.Line, call.server, call.facts, want.workflow, approved, v.Move, v.Reason, final)
	}
	moves[fmt.Sprintf("%s %s", map[bool]string{true: "approved", false: "refused"}[approved], final)]++
}

// checkWould is check for verdicts that are only recorded.
func (c *randomCase) checkWould(want, got refOutcome, r *record.Record, call *refCall, s gate.Submission, moves map[string]int) {
	would := map[string]string{"forward": "", "deny": "WOULD_BLOCK", "ask": "WOULD_ASK"}[want.move]
	if want.gate == "visible" {
		would = "WOULD_HIDE"
	}
	if got.move != "forward" || r.Would != would || r.Gate != want.gate || r.Forwarded != (would != "") {
		c.t.Errorf("%s on %s in development: got %+v, %s by %s, want %s by %s", s.Line, call.server, got, r.Would, r.Gate, would, want.gate)
	}
	if would != "" {
		moves["would"]++
	}
}

func (c *randomCase) last() *record.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[len(c.records)-1]
}
