package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Decision is a person's answer.
type Decision struct {
	ID      string
	Subject []byte // of the question that the person was shown
	Approve bool
	Note    string // told to the agent when it is a refusal, without secrets
	Decider string // who, as the kernel saw them
	Surface string // where, as they say
	// Who answers on a surface that several people use, as it says: a user's id on
	// Slack. Nobody answers there who is not named.
	Approver string
	Terms    *Terms      // of a grant that is given with a yes; nil for none
	Edit     []byte      // raw JSON of the arguments that are to be sent instead; nil for those that were asked about
	Proof    *gate.Proof // of presence; looked at for a yes to a question that needs it

	level gate.Level // what Proof has shown
}

// Decide answers a question and returns it as it ended, with the grant that
// was given. The first answer wins, but for a no, which makes one of a yes that no
// call has made use of yet, and ends the grant that came with it. gate.ErrInvalid means that what was to be granted
// can't be; then nothing is answered. When the grant alone fails the question is
// answered, and returned beside the error.
//
// Errors are gate.ErrNotFound; gate.ErrDecided, when the question has ended
// otherwise; gate.ErrChanged, when the subject is not that of the question;
// gate.ErrForbidden, when a yes may not come from that surface, or the approver is
// none of those that the workflow names; gate.ErrProofNeeded, when a yes needs a
// proof and came without, and those of the Prover; and that of the recorder, when
// the end could not be written down: then the call is refused, whatever was
// answered.
func (q *Queue) Decide(ctx context.Context, d Decision) (Question, error) {
	if q.o.Redact != nil {
		d.Note = q.o.Redact(d.Note) // it is kept, and told to the agent
	}
	d.level = gate.LevelWatch
	if err := q.prove(ctx, &d); err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Question{}, errStopping
	}
	q.expireDue()
	e, yes := q.open[d.ID], q.ready[d.ID]
	if asked := cmp.Or(e, yes); asked != nil && (d.Surface == surfaceSlack || d.Approver != "") {
		if err := q.named(ctx, &asked.q, &d); err != nil {
			return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
		}
	}
	switch {
	case e == nil && yes != nil && !d.Approve && yes.q.State == store.StateApproved:
		return q.overrule(ctx, yes, &d)
	case e == nil:
		return q.tooLate(ctx, d.ID)
	}
	// prove did not hold the queue up, and the question may be another one by now:
	// what it needs is looked at again.
	g, err := q.answerable(ctx, e, &d)
	if err == nil && needsProof(&e.q, &d) && d.level != gate.LevelPresence {
		err = gate.ErrProofNeeded
	}
	if err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	e.q.Edited, e.q.Edit = d.Edit != nil, d.Edit
	e.q.Note, e.q.Decider, e.q.Surface, e.q.Approver = d.Note, d.Decider, d.Surface, d.Approver
	state := store.StateRejected
	if d.Approve {
		state = store.StateApproved
	}
	if err := q.end(ctx, e, state); err != nil {
		return e.q, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	if g != nil {
		if err := q.grant(context.WithoutCancel(ctx), g, d.Terms.For); err != nil {
			return e.q, fmt.Errorf("decide %s: it is approved, once; the grant is not given: %w", d.ID, err)
		}
		e.q.Given = g
	}
	return e.q, nil
}

// answerable says why d can't be an answer to an open question, whatever it proves.
// It returns the grant that would be given, nil for none. q.mu is held.
func (q *Queue) answerable(ctx context.Context, e *entry, d *Decision) (*Grant, error) {
	switch {
	case !bytes.Equal(d.Subject, e.q.Subject[:]):
		return nil, gate.ErrChanged
	case d.Approve && len(e.q.Surfaces) > 0 && !slices.Contains(e.q.Surfaces, d.Surface):
		return nil, fmt.Errorf("a yes from %q is %w; the workflow asks for one from %q", d.Surface, gate.ErrForbidden, e.q.Surfaces)
	case d.Terms != nil && !d.Approve:
		return nil, fmt.Errorf("a no grants nothing: %w", gate.ErrInvalid)
	}
	if d.Edit != nil {
		asked, err := q.whole(ctx, e)
		if err == nil {
			err = editable(&asked, d)
		}
		if err != nil {
			return nil, err
		}
	}
	if d.Terms == nil {
		return nil, nil
	}
	return q.terms(&e.q, d.Terms, d)
}

// overrule makes a no of a yes that waits for a call.
func (q *Queue) overrule(ctx context.Context, e *entry, d *Decision) (Question, error) {
	if !bytes.Equal(d.Subject, e.q.Subject[:]) {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, gate.ErrChanged)
	}
	ctx = context.WithoutCancel(ctx)
	e.q.State, e.q.Decided = store.StateRejected, q.o.Now().UTC().Truncate(resolution)
	e.q.Note, e.q.Decider, e.q.Surface, e.q.Approver, e.q.Edited, e.q.Edit = d.Note, d.Decider, d.Surface, d.Approver, false, nil
	for _, v := range q.grants {
		if v.g.Approval == e.q.ID {
			q.endGrant(ctx, v, "revoked", "the yes that it came with was overruled by "+d.Decider)
		}
	}
	told := q.hand(e)
	err := errors.Join(q.writeEnds(), q.db.OverruleQuestion(ctx, &e.q, told...), q.o.Recorder.Record(ctx, endRecord(&e.q), nil, nil))
	if e.q.Spent {
		q.unready(e)
	}
	q.tell(e)
	if err != nil { // whoever asks this daemon is refused all the same
		return e.q, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	return e.q, nil
}

// editable says why the arguments of a call can't be sent otherwise than they were
// asked about; nil when they can.
func editable(q *Question, d *Decision) error {
	refuse := func(why string) error { return fmt.Errorf("change its arguments: %s: %w", why, gate.ErrInvalid) }
	switch {
	case !d.Approve:
		return refuse("they go with a yes")
	case d.Terms != nil:
		return refuse("a grant is for calls as they were asked about; give it apart")
	case q.Method != "tools/call" || q.Direction != gate.Direction(wire.FromAgent):
		return refuse("only a tool that the agent calls has any")
	case bytes.ContainsAny(d.Edit, "\r\n"):
		return refuse("a message is one line, and these hold a line end")
	}
	// Whoever was not shown all of them would send what stands in their place.
	if shown := argumentsIn(q.Params); shown == nil {
		return refuse("the call has none")
	} else if sum := sha256.Sum256(shown); !bytes.Equal(sum[:], ofArguments(q.Members)) {
		return refuse("some are not shown, as the workflow says")
	}
	return nil
}

// argumentsIn are the raw arguments in params as they are shown; nil for none.
func argumentsIn(params []byte) []byte {
	span, err := wire.Member(params, wire.Span{End: len(params)}, "arguments")
	if err != nil || string(span.Of(params)) == "null" {
		return nil
	}
	return span.Of(params)
}

// tooLate explains why a question can't be answered.
func (q *Queue) tooLate(ctx context.Context, id string) (Question, error) {
	ended, err := q.db.Question(ctx, id)
	if err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", id, err)
	}
	for _, u := range q.unwritten {
		if u.q.ID == id {
			ended = u.q
		}
	}
	return ended, fmt.Errorf("decide %s: %w: it was %s", id, gate.ErrDecided, ended.State)
}

func byNumber(a, b Question) int { return cmp.Compare(store.ParseID(a.ID), store.ParseID(b.ID)) }
