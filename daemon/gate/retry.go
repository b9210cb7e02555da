package gate

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// In the modern era a server that needs something of the agent's user answers
// input_required, and the agent makes the same call again, with the answers in it
// and with the requestState that the server gave. That is one call to the person
// who approved it, so they are not asked a second time; the other gates judge
// each round by itself, answers and all.
//
// Nothing the agent says is believed here. A round is carried on only when the
// server has asked for it: in answer to the round before, with the very
// requestState, and once for each such answer. What is remembered is lost with
// the daemon, and then the person is asked again.

const (
	mostYeses  = 64 // of one attachment; the oldest are forgotten
	mostRounds = 8  // that one yes carries
)

// retries are the approved calls of one attachment that may be carried on. It is safe
// for concurrent use.
type retries struct {
	mu    sync.Mutex // guards what follows
	yeses []*yes     // oldest first
}

// yes is a person's yes to a call.
type yes struct {
	approval string
	call     [32]byte // see roundOf
	asked    Ruling   // what the person was asked by
	facts    []Fact   // what they were shown with it
	until    time.Time
	left     int      // rounds
	last     uint64   // seq of the round that was let through last
	waits    bool     // the server has answered that one, and waits for the next
	state    [32]byte // digest of the requestState in that answer, of nothing where it has none
}

// approved remembers that a person has said yes to c.
func (r *retries) approved(c *Call, asked Ruling, facts []Fact, approval string) {
	if c.Envelope.Kind != wire.Request || c.Side != wire.FromAgent || !c.Modern {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.yeses = append(r.yeses, &yes{
		approval: approval, call: c.round(), asked: asked, facts: facts, until: time.Now().Add(asked.Validity), left: mostRounds, last: c.Seq,
	})
	if len(r.yeses) > mostYeses {
		r.yeses = slices.Delete(r.yeses, 0, 1)
	}
}

// answered remembers the answer that c is, when it asks for another round.
func (r *retries) answered(c *Call) {
	if c.Envelope.Kind != wire.Result || c.Answers == 0 {
		return
	}
	if kind, err := wire.Unquote(c.Envelope.ResultType, c.Line); err != nil || kind != inputRequired {
		return
	}
	state, err := wire.Member(c.Line, c.Envelope.Result, "requestState")
	if err != nil {
		return // nobody knows which of them the agent gives back
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, y := range r.yeses {
		if y.last == c.Answers {
			y.waits, y.state = true, sha256.Sum256(state.Of(c.Line))
		}
	}
}

// carriesOn returns the approval that c carries on, and uses it up for this
// round; it is empty when a person has to be asked, as ruling says.
func (r *retries) carriesOn(c *Call, ruling Ruling, facts []Fact) string {
	e := &c.Envelope
	if c.Side != wire.FromAgent || !(e.RequestState.Present() || e.InputResponses.Present()) {
		return ""
	}
	call, state, now := c.round(), sha256.Sum256(e.RequestState.Of(c.Line)), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, y := range r.yeses {
		if y.waits && y.left > 0 && y.call == call && y.state == state && now.Before(y.until) && y.covers(ruling, facts) {
			y.waits, y.last = false, c.Seq
			y.left--
			return y.approval
		}
	}
	return ""
}

// covers reports whether the person would be asked for the reason that they have
// said yes to, with no more true of the call. An answer that brings a secret along
// is another question.
func (y *yes) covers(r Ruling, facts []Fact) bool {
	a := &y.asked
	return shownWith(y.facts, facts) && a.Workflow == r.Workflow && a.Basis == r.Basis && a.Rule == r.Rule && slices.Equal(a.Policies, r.Policies) && slices.Equal(a.Surfaces, r.Surfaces) && !r.Level.Stricter(a.Level)
}

// round is what the rounds of one call have in common, to the byte: all of it but
// the answers and the state.
func (c *Call) round() [32]byte {
	return digestOf([]byte(c.Method), c.Definition[:], c.same("requestState", "inputResponses"))
}
