package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// A person may have chosen that an agent asks its own user about calls of its own tools. Such a
// call is forwarded, and the agent is told what to ask. What came of it is the agent's claim: it is
// recorded as that, is neither an approval nor a grant, and no other call is judged by it.

// OutcomeUnknown is the outcome of a call about which the agent was told to ask its own user, and
// of which it has reported nothing.
const OutcomeUnknown = "unknown"

// maxQuestion limits what an agent shows its own user of each fact, in columns. The reason may be
// twice as long.
const maxQuestion = 400

// asksNatively reports whether the agent asks its own user about c. It must be able to, the
// configuration must allow it for the workflow, and nothing may depend on who approves c, or on
// what: the arguments must be what the agent knows.
func (c *Call) asksNatively(r *Ruling, facts []Fact) bool {
	return c.CanAsk && !c.spliced && r.MayAskNatively(c.Agent, facts)
}

// MayAskNatively reports whether the question may be left to an agent that can ask its own user.
// Its claim is no proof of presence, and it does not decide about what would turn ThoughtGate off.
func (r *Ruling) MayAskNatively(agent string, facts []Fact) bool {
	return slices.Contains(r.Natively, agent) && r.Level == LevelWatch && !slices.ContainsFunc(facts, func(f Fact) bool { return f.Name == FactOurs })
}

// askNatively forwards c with the question that the agent is to ask.
func (g *Gate) askNatively(ctx context.Context, c *Call, ruling *Ruling, facts []Fact, r *record.Record) Verdict {
	c.native = true
	r.Gate, r.Surface = "ask", record.SurfaceHost
	r.Reason = fmt.Sprintf("%s is told to ask its own user: %s", cmp.Or(c.Agent, "the agent"), ruling.Reason)
	v := g.forward(ctx, c, r, ruling.Redact)
	if v.Move == Forward {
		v.Question = nativeQuestion(ruling, facts)
	}
	return v
}

// nativeQuestion returns the question as a person reads it in the agent's own prompt: what asks,
// and what is true of the call, as far as the reason does not say it.
func nativeQuestion(r *Ruling, facts []Fact) string {
	text := "ThoughtGate asks: " + display.Clip(r.Reason, 2*maxQuestion, "")
	for _, f := range facts {
		if f.Detail != "" && !strings.Contains(r.Reason, f.Detail) {
			text += "\n" + display.Safe(f.Name) + ": " + display.Clip(f.Detail, maxQuestion, "")
		}
	}
	return string(text)
}

// nativeOutcome adds to the record of an outcome that the agent was told to ask its own user.
func nativeOutcome(r *record.Record) {
	who := cmp.Or(r.Agent, "the agent")
	r.Surface, r.Reason = record.SurfaceHost, who+" says that its user allowed it"
	if r.Verdict == OutcomeUnknown {
		r.Reason = "nothing is known of whether the user of " + who + " allowed it"
	}
}

// recordUnanswered records that nothing is known of the calls about which the agent was told to ask
// its own user, and of which it has reported nothing.
func (a *Attachment) recordUnanswered() {
	a.mu.Lock()
	var left []uint64
	for _, seq := range a.order {
		if a.done[seq].native {
			left = append(left, seq)
		}
	}
	a.mu.Unlock()
	for _, seq := range left {
		a.RecordOutcome(context.Background(), seq, OutcomeUnknown)
	}
}
