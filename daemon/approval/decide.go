package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
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
	Note    string // if it is a denial, sent to the agent without secrets
	Decider string // who decided, as the kernel showed it
	Surface string // where, as the caller reported it
	// Approver is who answers on a surface that several people use, where it is required: a
	// user id on Slack. The surface reports it.
	Approver string
	Terms    *Terms      // of a grant given with an approval; nil for none
	Edit     []byte      // raw JSON of the arguments to send instead; nil for the original ones
	Proof    *gate.Proof // of presence; checked for an approval that needs it

	level  gate.Level   // what Proof has proved
	signed *gate.Signed // a colleague's decision; nil for an answer on this machine
}

// Decide answers a question and returns it in its final state, with the grant if one was
// given. The first answer wins, with one exception: a denial overrules an approval that
// no call has taken yet, and ends the grant given with it. gate.ErrInvalid means that the
// grant or the changed arguments are not possible; the question is not answered then. If
// only the grant fails, the question is answered, and returned together with the error.
//
// The errors are gate.ErrNotFound; gate.ErrDecided, if the question has ended already;
// gate.ErrChanged, if the subject is not that of the question; gate.ErrForbidden, if an
// approval may not come from that surface or the workflow does not name the approver;
// gate.ErrProofNeeded, if an approval needs a proof and has none; the errors of the
// Prover; and the error of the recorder, if the end could not be recorded: then the call
// is denied, whatever the answer was.
func (q *Queue) Decide(ctx context.Context, d Decision) (Question, error) {
	if q.o.Redact != nil {
		d.Note = q.o.Redact(d.Note) // it is stored and sent to the agent
	}
	d.level = gate.LevelWatch
	if err := q.prove(ctx, &d); err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.Surface == gate.SurfaceColleague {
		return Question{}, fmt.Errorf("decide %s: %q is the surface of colleagues alone: %w", d.ID, d.Surface, gate.ErrForbidden)
	}
	return q.decide(ctx, d)
}

// decide is Decide after the proof was checked. q.mu must be held.
func (q *Queue) decide(ctx context.Context, d Decision) (Question, error) {
	if q.closed {
		return Question{}, errStopping
	}
	q.expireDue()
	e, yes := q.open[d.ID], q.ready[d.ID]
	if asked := cmp.Or(e, yes); asked != nil && d.signed == nil && (config.Surface(d.Surface).HasApprovers() || d.Approver != "") {
		if err := q.checkApprover(ctx, &asked.q, &d); err != nil {
			return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
		}
	}
	switch {
	case e == nil && yes != nil && !d.Approve && yes.q.State == store.StateApproved:
		return q.overrule(ctx, yes, &d)
	case e == nil:
		return q.tooLate(ctx, d.ID)
	}
	// prove did not hold q.mu, so the question may be a different one now. Check its
	// requirements again.
	g, err := q.answerable(ctx, e, &d)
	if err == nil && needsProof(&e.q, &d) && d.level != gate.LevelPresence {
		if err = gate.ErrProofNeeded; d.signed != nil {
			err = fmt.Errorf("an approval of it needs a security key that was touched: %w", gate.ErrForbidden)
		}
	}
	if err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	e.q.Edited, e.q.Edit = d.Edit != nil, d.Edit
	e.q.Note, e.q.Decider, e.q.Surface, e.q.Approver, e.q.Proved = d.Note, d.Decider, d.Surface, d.Approver, proved(d.signed)
	state := store.StateRejected
	if d.Approve {
		state = store.StateApproved
		if d.level == gate.LevelPresence {
			e.q.Level = string(d.level) // also where the question asked for less: it depends on the secret now
		}
	}
	if err := q.endQuestion(ctx, e, state); err != nil {
		return e.q, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	if g != nil {
		if err := q.grant(context.WithoutCancel(ctx), g, d.Terms.For); err != nil {
			return e.q, fmt.Errorf("decide %s: approved once, without the grant: %w", d.ID, err)
		}
		e.q.Given = g
	}
	return e.q, nil
}

// LoggedIn answers a question whether a person logs in, once they have. It does nothing if the question has
// ended meanwhile.
func (q *Queue) LoggedIn(ctx context.Context, id, decider, surface string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.open[id]
	if e == nil || e.q.Method != gate.MethodLogin || q.closed {
		return nil
	}
	e.q.Decider, e.q.Surface = decider, surface
	return q.endQuestion(ctx, e, store.StateApproved)
}

// answerable returns why d can't answer a waiting question, apart from its proof. It also
// returns the grant that d would give; nil if none. q.mu must be held.
func (q *Queue) answerable(ctx context.Context, e *entry, d *Decision) (*Grant, error) {
	switch {
	case !bytes.Equal(d.Subject, e.q.Subject[:]):
		return nil, gate.ErrChanged
	case d.Approve && e.q.Method == gate.MethodLogin:
		return nil, fmt.Errorf("a login can't be approved: %w; log in with: tgctl login %s", gate.ErrInvalid, gate.ShellWord(e.q.Server))
	case d.Approve && !acceptsFrom(&e.q, d.Surface):
		return nil, fmt.Errorf("an approval from %q is %w; the workflow accepts approvals from %q", d.Surface, gate.ErrForbidden, e.q.Surfaces)
	case d.Terms != nil && !d.Approve:
		return nil, fmt.Errorf("a denial can't give a grant: %w", gate.ErrInvalid)
	case e.q.Device != "" && (d.Terms != nil || d.Edit != nil):
		return nil, fmt.Errorf("a call of another machine can only be approved as it is, once: %w", gate.ErrInvalid)
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

// acceptsFrom reports whether the workflow of q accepts approvals from a surface. A page that it does not list
// stands for a terminal that it does, with a secret; see needsProof.
func acceptsFrom(q *Question, surface string) bool {
	if surface == gate.SurfaceColleague { // never without being named
		return slices.Contains(q.Surfaces, surface)
	}
	return len(q.Surfaces) == 0 || slices.Contains(q.Surfaces, surface) ||
		surface == string(config.SurfacePage) && slices.Contains(q.Surfaces, string(config.SurfaceTerminal))
}

// overrule turns an approval that waits for a call into a denial.
func (q *Queue) overrule(ctx context.Context, e *entry, d *Decision) (Question, error) {
	if !bytes.Equal(d.Subject, e.q.Subject[:]) {
		return Question{}, fmt.Errorf("decide %s: %w", d.ID, gate.ErrChanged)
	}
	ctx = context.WithoutCancel(ctx)
	e.q.State, e.q.Decided = store.StateRejected, q.o.Now().UTC().Truncate(resolution)
	e.q.Note, e.q.Decider, e.q.Surface, e.q.Approver, e.q.Edited, e.q.Edit = d.Note, d.Decider, d.Surface, d.Approver, false, nil
	e.q.Proved = proved(d.signed)
	for _, v := range q.grants {
		if v.g.Approval == e.q.ID {
			q.endGrant(ctx, v, "revoked", "the approval that gave it was overruled by "+d.Decider)
		}
	}
	told := q.assignAnswer(e)
	err := errors.Join(q.writeEnds(), q.db.OverruleQuestion(ctx, &e.q, told...), q.o.Recorder.Record(ctx, endRecord(&e.q), nil, nil))
	if e.q.Spent {
		q.dropReadyAnswer(e)
	}
	q.notifyWatchers(e)
	if err != nil { // this daemon denies the call anyway
		return e.q, fmt.Errorf("decide %s: %w", d.ID, err)
	}
	return e.q, nil
}

// editable returns why the arguments of a call can't be replaced; nil if they can.
func editable(q *Question, d *Decision) error {
	refuse := func(why string) error { return fmt.Errorf("change its arguments: %s: %w", why, gate.ErrInvalid) }
	switch {
	case !d.Approve:
		return refuse("only an approval can change them")
	case d.Terms != nil:
		return refuse("a grant covers only unchanged calls; give it separately")
	case q.Method != "tools/call" || q.Direction != gate.Direction(wire.FromAgent):
		return refuse("only a tool call of the agent has arguments")
	case bytes.ContainsAny(d.Edit, "\r\n"):
		return refuse("the arguments contain a line break, and a message is one line")
	}
	// A person who was not shown all of them would send the placeholders.
	if shown := argumentsIn(q.Params); shown == nil {
		return refuse("the call has no arguments")
	} else if sum := sha256.Sum256(shown); !bytes.Equal(sum[:], ofArguments(q.Members)) {
		return refuse("some are not shown because the workflow redacts them")
	}
	return nil
}

// argumentsIn returns the raw arguments in the shown params; nil if there are none.
func argumentsIn(params []byte) []byte {
	span, err := wire.Member(params, wire.Span{End: len(params)}, "arguments")
	if err != nil || string(span.Of(params)) == "null" {
		return nil
	}
	return span.Of(params)
}

// tooLate returns why a question can't be answered any more.
func (q *Queue) tooLate(ctx context.Context, id string) (Question, error) {
	ended, err := q.endedQuestion(ctx, id)
	if err != nil {
		return Question{}, fmt.Errorf("decide %s: %w", id, err)
	}
	return ended, fmt.Errorf("decide %s: %w: it was %s", id, gate.ErrDecided, ended.State)
}

func byNumber(a, b Question) int { return cmp.Compare(store.ParseID(a.ID), store.ParseID(b.ID)) }

// Prover checks proofs of presence.
type Prover interface {
	// Prove checks a proof given by who, as the kernel showed it, for what, such as "an
	// answer to A-17". It may take a moment. It fails if the proof is invalid or can't be
	// checked now.
	Prove(ctx context.Context, proof *gate.Proof, what, who string) error
}

// levelOf returns the level that an approval has to prove; watch if none was stored.
func levelOf(level string) gate.Level {
	if level == string(gate.LevelPresence) {
		return gate.LevelPresence
	}
	return gate.LevelWatch
}

// needsProof reports whether d can answer q only with a proof. A denial never needs one,
// so that anyone in doubt can deny. An approval on a page that the workflow does not list always
// needs one: any program of the user can press the page's buttons.
func needsProof(q *Question, d *Decision) bool {
	unlisted := d.Surface == string(config.SurfacePage) && !slices.Contains(q.Surfaces, d.Surface)
	return d.Approve && (levelOf(q.Level) == gate.LevelPresence || unlisted)
}

// prove checks the proof of d if the question needs one and d could otherwise answer it,
// since checking a code uses it up. It does not hold q.mu during the check, and Decide
// checks the question again.
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
		return fmt.Errorf("the proof can't be checked: %w", gate.ErrNotEnrolled)
	}
	if err := q.o.Prover.Prove(ctx, d.Proof, "an answer to "+d.ID, d.Decider); err != nil {
		return err
	}
	d.level = gate.LevelPresence
	return nil
}

// Void revokes what depends on a removed secret; why says what happened, and who did it.
// Waiting questions that need presence are withdrawn, and approvals of such questions
// that no call has taken yet become denials. With grants, all grants end too.
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

// maxApproverBytes is the maximum length of an approver's id, in bytes.
const maxApproverBytes = 64

// checkApprover checks that the current configuration allows the approver of d to answer asked. A
// refusal is recorded, whatever the answer is.
func (q *Queue) checkApprover(ctx context.Context, asked *Question, d *Decision) error {
	if !config.Surface(d.Surface).HasApprovers() {
		return fmt.Errorf("an approver was named on %q, but only Slack has approvers: %w", d.Surface, gate.ErrInvalid)
	}
	if len(d.Approver) > maxApproverBytes {
		return fmt.Errorf("the approver's id has %d bytes; the maximum is %d: %w", len(d.Approver), maxApproverBytes, gate.ErrInvalid)
	}
	if d.Approver != "" && q.o.Approves != nil && q.o.Approves(asked.Workflow, d.Approver) {
		return nil
	}
	why := fmt.Sprintf("%q is not an approver of the workflow %s on Slack", d.Approver, asked.Workflow)
	rec := recordOf(asked, record.KindDenied)
	rec.Verdict, rec.Reason = "deny", "an answer to "+asked.ID+": "+why
	rec.Decider, rec.Surface, rec.Approver = d.Decider, d.Surface, d.Approver
	if err := q.o.Recorder.Record(ctx, rec, nil, nil); err != nil {
		q.o.Logger.Error("record a denied answer", "component", "approval", "approval", asked.ID, "err", err)
	}
	return fmt.Errorf("%s: %w", why, gate.ErrForbidden)
}
