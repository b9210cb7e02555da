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
	"github.com/thoughtgate/thoughtgated/internal/record"
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

// Prover checks what somebody gives as a proof that they are a person.
type Prover interface {
	// Prove checks a proof that was given for what, as "an answer to A-17", by who,
	// as the kernel saw them. It may take a moment. Its error says that the proof
	// is none, or none now.
	Prove(ctx context.Context, proof *gate.Proof, what, who string) error
}

// levelOf is what a yes to a question has to show, watch where nothing was kept.
func levelOf(level string) gate.Level {
	if level == string(gate.LevelPresence) {
		return gate.LevelPresence
	}
	return gate.LevelWatch
}

// needsProof reports whether d can be an answer to q only with a proof. A no never
// needs one: whoever is in doubt refuses.
func needsProof(q *Question, d *Decision) bool {
	return d.Approve && levelOf(q.Level) == gate.LevelPresence
}

// prove has the proof of d checked, when the question needs one and d could be an
// answer to it otherwise: a code that was given is spent by looking at it. The
// queue is not held up meanwhile, and Decide looks at the question again.
func (q *Queue) prove(ctx context.Context, d *Decision) error {
	q.mu.Lock()
	needs := false
	if e := q.open[d.ID]; e != nil && !q.closed {
		_, err := q.answerable(ctx, e, d)
		needs = err == nil && needsProof(&e.q, d)
	}
	q.mu.Unlock()
	switch {
	case !needs:
		return nil
	case d.Proof == nil:
		return gate.ErrProofNeeded
	case q.o.Prover == nil:
		return fmt.Errorf("nobody can check it: %w", gate.ErrNotEnrolled)
	}
	if err := q.o.Prover.Prove(ctx, d.Proof, "an answer to "+d.ID, d.Decider); err != nil {
		return err
	}
	d.level = gate.LevelPresence
	return nil
}

// Void takes back what rests on a secret that is gone; why says what became of it,
// by whom. Open questions that need presence are withdrawn, and a yes to one that
// no call has made use of yet is a no. With grants, all grants end as well.
func (q *Queue) Void(ctx context.Context, by, why string, grants bool) error {
	of := func(old *Question) bool { return levelOf(old.Level) == gate.LevelPresence }
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errStopping
	}
	q.expireDue()
	var failed error
	for _, e := range q.ready {
		if !of(&e.q) || e.q.State != store.StateApproved {
			continue
		}
		if _, err := q.overrule(ctx, e, &Decision{Subject: e.q.Subject[:], Decider: by, Note: why}); err != nil {
			failed = err
		}
	}
	q.withdrawLocked(why, func(*asker) bool { return false }, func(old *Question) bool { return old.State == store.StateOpen && of(old) })
	if grants {
		for _, v := range q.grants {
			q.endGrant(ctx, v, "void", why)
		}
	}
	return failed
}

// surfaceSlack is where everybody who reads a channel can press a button.
const surfaceSlack = "slack"

// approverLongest is how long the id of an approver may be, in bytes.
const approverLongest = 64

// named checks that the approver of d is one of those who answer what asked asks,
// by the configuration that is in force now: who was taken out of it no longer
// answers. Yes or no, a refusal is written down.
func (q *Queue) named(ctx context.Context, asked *Question, d *Decision) error {
	if d.Surface != surfaceSlack {
		return fmt.Errorf("an approver named on %q: only Slack has any: %w", d.Surface, gate.ErrInvalid)
	}
	if len(d.Approver) > approverLongest {
		return fmt.Errorf("the approver's id has %d bytes, and %d are the most: %w", len(d.Approver), approverLongest, gate.ErrInvalid)
	}
	if d.Approver != "" && q.o.Approves != nil && q.o.Approves(asked.Workflow, d.Approver) {
		return nil
	}
	why := fmt.Sprintf("%q is none of those who answer on Slack what %s asks", d.Approver, asked.Workflow)
	rec := recordOf(asked, record.KindDenied)
	rec.Verdict, rec.Reason = "deny", "an answer to "+asked.ID+": "+why
	rec.Decider, rec.Surface, rec.Approver = d.Decider, d.Surface, d.Approver
	if err := q.o.Recorder.Record(ctx, rec, nil, nil); err != nil {
		q.o.Logger.Error("record a refused answer", "component", "approval", "approval", asked.ID, "err", err)
	}
	return fmt.Errorf("%s: %w", why, gate.ErrForbidden)
}
