package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// asker is one call that a question is about. The queue's mutex guards it.
type asker struct {
	call
	e        *entry
	since    time.Time        // when it came
	patience time.Duration    // after how long it is parked
	state    store.AskerState // waits, parked, gone or told
	claimed  bool             // it was submitted to this daemon
}

const (
	// unknownPatience is how long an agent is taken to wait of which nothing is
	// known.
	unknownPatience = time.Minute
	// parkMargin is how long before an agent's patience ends a call is parked at
	// the latest.
	parkMargin = 5 * time.Second
)

// parkAfter is how long a call of an agent may wait that gives up after
// patience, 0 where nobody knows: four fifths of it, or all but parkMargin.
func parkAfter(patience time.Duration) time.Duration {
	if patience <= 0 {
		patience = unknownPatience
	}
	return max(patience/5*4, patience-parkMargin)
}

func newAsker(c *gate.Call, now time.Time) *asker {
	since := c.Received
	if since.IsZero() || since.After(now) {
		since = now
	}
	return &asker{
		call: call{c.Attachment, c.Seq}, since: since, patience: parkAfter(c.Patience), state: store.AskerWaits, claimed: true,
	}
}

// waiting is how many calls wait for the answer.
func (e *entry) waiting() int {
	n := 0
	for _, a := range e.asks {
		if a.state == store.AskerWaits {
			n++
		}
	}
	return n
}

// shown is the question as people see it.
func (e *entry) shown() Question {
	q := e.q
	q.Waiting = e.waiting()
	return q
}

// first returns the oldest call that waits for the answer and was submitted to
// this daemon, nil when there is none.
func (e *entry) first() *asker {
	i := slices.IndexFunc(e.asks, func(a *asker) bool { return a.state == store.AskerWaits && a.claimed })
	if i < 0 {
		return nil
	}
	return e.asks[i]
}

// give lets a have the answer that waits at e, and nobody else. On disk it is
// spent before a learns of it.
func (q *Queue) give(ctx context.Context, e *entry, a *asker) error {
	if q.closed {
		return errStopping
	}
	if err := q.writeEnds(); err != nil { // the disk must know that there is an answer
		return err
	}
	if a.e != e {
		q.join(e, a)
	}
	if err := q.db.TakeAnswer(ctx, a.kept()); err != nil {
		return err
	}
	a.state, e.q.Spent = store.AskerTold, true
	q.unready(e)
	q.tell(e)
	return nil
}

// unready ends the time for which the answer of e waits.
func (q *Queue) unready(e *entry) {
	delete(q.ready, e.q.ID)
	for _, a := range e.asks {
		q.letGo(a.call)
	}
}

// letGo forgets a call in its turn.
func (q *Queue) letGo(c call) {
	q.past = append(q.past, c)
	if len(q.past) > remembered {
		delete(q.calls, q.past[0])
		q.past = q.past[1:]
	}
}

// answer is what a learns of its question, which has ended.
func (q *Queue) answer(ctx context.Context, a *asker) (gate.Answer, error) {
	e := a.e
	switch {
	case a.state == store.AskerParked:
		return gate.Answer{ID: e.q.ID, State: gate.StateParked}, nil
	case a == e.first() && e.q.State == store.StateApproved && q.ready[e.q.ID] == e:
		if err := q.give(ctx, e, a); err != nil {
			return gate.Answer{}, err
		}
	case a.state != store.AskerTold && e.q.State == store.StateApproved && !e.q.Spent && q.ready[e.q.ID] == nil:
		return gate.Answer{ID: e.q.ID, State: gate.StateLapsed, Decider: e.q.Decider}, nil
	case a.state != store.AskerTold && e.q.State == store.StateApproved:
		return gate.Answer{ID: e.q.ID, State: gate.StateSpent, Decider: e.q.Decider}, nil
	case e.q.Edited && e.q.Edit == nil: // erased when a daemon before this one handed them out
		return gate.Answer{}, fmt.Errorf("the arguments that %s was approved with are gone", e.q.ID)
	}
	answer := gate.Answer{
		ID: e.q.ID, Approved: e.q.State == store.StateApproved, State: string(e.q.State), Note: e.q.Note, Decider: e.q.Decider,
		Edit: e.q.Edit,
	}
	if answer.Approved {
		answer.Level = levelOf(e.q.Level)
	}
	return answer, nil
}

// park tells a to repeat itself, unless its question has ended meanwhile.
func (q *Queue) park(ctx context.Context, a *asker) (gate.Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	if a.e.q.State == store.StateOpen && a.state == store.AskerWaits && !q.closed {
		if err := q.db.ParkAsker(ctx, a.kept()); err != nil {
			return gate.Answer{}, err
		}
		a.state, a.e.q.Parked = store.AskerParked, true
		q.tell(a.e)
	}
	if q.closed {
		return gate.Answer{}, errStopping
	}
	return q.answer(ctx, a)
}

// held is a question as one call waits for it.
type held struct {
	q    *Queue
	a    *asker
	over <-chan struct{} // closed when there is an answer
	left time.Duration   // until the call is parked, when it was asked
}

// hold returns a's question as the gate waits for it.
func (q *Queue) hold(a *asker) *held {
	h := &held{q: q, a: a, over: a.e.done, left: min(a.patience, max(0, a.patience-q.o.Now().Sub(a.since)))}
	if a.state == store.AskerParked {
		h.over = closed
	}
	return h
}

// ID returns the name of the question.
func (h *held) ID() string { return h.a.e.q.ID }

// Wait returns how the question ended, also when ctx has, or that the call is
// parked, when its agent won't wait longer. When ctx ends first it returns its
// cause; if that is gate.ErrWithdrawn the call does not ask any more, and else the
// question stays as it is.
func (h *held) Wait(ctx context.Context) (gate.Answer, error) {
	select {
	case <-h.over:
		return h.answer(ctx)
	default:
	}
	patience := time.NewTimer(h.left)
	defer patience.Stop()
	select {
	case <-h.over:
		return h.answer(ctx)
	case <-h.q.stop:
		return gate.Answer{}, errStopping
	case <-patience.C:
		return h.q.park(context.WithoutCancel(ctx), h.a)
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, gate.ErrWithdrawn) {
			h.q.Withdraw(h.a.attachment, h.a.seq)
		}
		return gate.Answer{}, cause
	}
}

func (h *held) answer(ctx context.Context) (gate.Answer, error) {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return h.q.answer(context.WithoutCancel(ctx), h.a)
}

// closed is over from the start.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
