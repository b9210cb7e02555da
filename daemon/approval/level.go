package approval

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

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
