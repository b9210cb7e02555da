package gate

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// In the modern era a server that needs input from the agent's user answers input_required.
// The agent then repeats the call, with the input and with the server's requestState. For the
// person who approved it that is one call, so they are not asked again. The other gates judge
// each round separately, including the input.
//
// The agent is not trusted here. A round continues a call only if the server has asked for it,
// in its answer to the previous round, with exactly that requestState, and once for each such
// answer. The state is lost with the daemon, and the person is then asked again.

const (
	mostYeses  = 64 // per attachment; the oldest are dropped
	mostRounds = 8  // rounds that one approval covers
)

// retries are the approved calls of one attachment that may be continued. It is safe for
// concurrent use.
type retries struct {
	mu    sync.Mutex       // guards the fields below
	yeses []*retryApproval // oldest first
}

// retryApproval is a person's approval of a call.
type retryApproval struct {
	approval string
	call     [32]byte // see Call.round
	asked    Ruling   // the ruling that asked the person
	facts    []Fact   // the facts that the person was shown
	until    time.Time
	left     int      // rounds left
	last     uint64   // seq of the last forwarded round
	waits    bool     // the server has answered that round and waits for the next
	state    [32]byte // digest of that answer's requestState, or of nothing if it has none
}

// approved remembers that a person has approved c.
func (r *retries) approved(c *Call, asked Ruling, facts []Fact, approval string) {
	if c.Envelope.Kind != wire.Request || c.Side != wire.FromAgent || !c.Modern {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.yeses = append(r.yeses, &retryApproval{
		approval: approval, call: c.round(), asked: asked, facts: facts, until: time.Now().Add(asked.Validity), left: mostRounds, last: c.Seq,
	})
	if len(r.yeses) > mostYeses {
		r.yeses = slices.Delete(r.yeses, 0, 1)
	}
}

// answered updates the approval of the call that c answers, if c requests another round.
func (r *retries) answered(c *Call) {
	if c.Envelope.Kind != wire.Result || c.Answers == 0 {
		return
	}
	if kind, err := wire.Unquote(c.Envelope.ResultType, c.Line); err != nil || kind != inputRequired {
		return
	}
	state, err := wire.Member(c.Line, c.Envelope.Result, "requestState")
	if err != nil {
		return // it is not clear which one the agent will return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, y := range r.yeses {
		if y.last == c.Answers {
			y.waits, y.state = true, sha256.Sum256(state.Of(c.Line))
		}
	}
}

// carriesOn returns the approval of the call that c continues, and uses it up for this round.
// It is empty if a person must be asked, as ruling requires.
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

// covers reports whether the person would be asked for the same reason, with no further facts.
// A round that brings in a secret, for example, is another question.
func (y *retryApproval) covers(r Ruling, facts []Fact) bool {
	a := &y.asked
	return shownWith(y.facts, facts) && a.Workflow == r.Workflow && a.Basis == r.Basis && a.Rule == r.Rule && slices.Equal(a.Policies, r.Policies) && slices.Equal(a.Surfaces, r.Surfaces) && !r.Level.Stricter(a.Level)
}

// round returns a digest of what the rounds of one call have in common, to the byte:
// everything except the input and the state.
func (c *Call) round() [32]byte {
	return digestOf([]byte(c.Method), c.Definition[:], c.same("requestState", "inputResponses"))
}
