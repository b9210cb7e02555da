package presence

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// WrongProofError reports that a proof is invalid. It wraps gate.ErrProofWrong.
type WrongProofError struct {
	Left uint32 // number of further wrong proofs until a lock
}

func (w *WrongProofError) Error() string {
	if w.Left == 1 {
		return gate.ErrProofWrong.Error() + "; after one more, presence is locked for a while"
	}
	return fmt.Sprintf("%v; after %d more, presence is locked for a while", gate.ErrProofWrong, w.Left)
}

func (w *WrongProofError) Unwrap() error { return gate.ErrProofWrong }

// LockedOutError reports that a proof was not checked, or that it was wrong once too often. It
// wraps gate.ErrLockedOut.
type LockedOutError struct {
	Until time.Time // on the wall clock
	left  time.Duration
	count uint32
}

func (l *LockedOutError) Error() string {
	return fmt.Sprintf("%v for %v, after %d wrong passphrases or codes in a row", gate.ErrLockedOut, l.left.Round(time.Second), l.count)
}

func (l *LockedOutError) Unwrap() error { return gate.ErrLockedOut }

func (g *Guard) lockedOut(left time.Duration) *LockedOutError {
	return &LockedOutError{Until: g.o.Now().Add(left), left: left, count: g.kept.Failures}
}

// Prove checks a proof given by who, as the kernel showed it, for what, such as "an
// answer to A-17". It wipes the proof. The errors are gate.ErrNotEnrolled;
// gate.ErrProofNeeded, if codes are not accepted and no passphrase was given; *Wrong; and
// *Locked.
func (g *Guard) Prove(ctx context.Context, proof *gate.Proof, what, who string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.prove(ctx, proof, what, who)
}

func (g *Guard) prove(ctx context.Context, proof *gate.Proof, what, who string) error {
	defer clear(proof.Passphrase)
	defer clear(proof.Code)
	if g.kept.Enrolled.IsZero() {
		return gate.ErrNotEnrolled
	}
	if left := g.locked(); left > 0 {
		return g.lockedOut(left)
	}
	switch code := len(proof.Code) > 0; {
	case code == (len(proof.Passphrase) > 0):
		return gate.ErrProofNeeded
	case code && g.kept.Sealed == nil:
		return fmt.Errorf("%w: codes are not set up, enter the passphrase", gate.ErrProofNeeded)
	case code && g.key == nil:
		return fmt.Errorf("%w: the daemon was restarted; enter the passphrase once before codes are accepted again", gate.ErrProofNeeded)
	}
	return g.try(ctx, proof, what, who)
}

// try checks a proof. It is counted as wrong on disk before it is checked.
func (g *Guard) try(ctx context.Context, proof *gate.Proof, what, who string) error {
	ctx = context.WithoutCancel(ctx) // an attempt counts even if the caller has left
	next := g.kept
	next.Failures = min(next.Failures+1, mostWrong)
	next.Lock, next.Boot, next.Deadline = 0, "", 0
	if over := next.Failures; over >= maxWrongProofs {
		span := min(firstLock<<min(over-maxWrongProofs, 10), longestLock)
		g.lock(&next, span, span)
	}
	if err := g.put(ctx, next); err != nil {
		return fmt.Errorf("count an attempt: %w", err)
	}
	right, how, err := false, byPassphrase, error(nil)
	if len(proof.Code) > 0 {
		how = byCode
		next.Step, right = stepOf(g.key, proof.Code, g.o.Now(), g.kept.Step)
	} else {
		right, err = g.passphrase(proof.Passphrase)
	}
	if err != nil {
		return err
	}
	if right {
		next.Failures, next.Lock, next.Boot, next.Deadline = 0, 0, "", 0
		if err := g.put(ctx, next); err != nil { // otherwise a code could be used twice
			return fmt.Errorf("save that a proof was valid: %w", err)
		}
		return nil
	}
	g.recordAnyway(ctx, "wrong", who, what+" "+how)
	if g.kept.Lock > 0 {
		out := g.lockedOut(g.kept.Lock)
		g.recordAnyway(ctx, "locked", who, out.Error())
		return out
	}
	return &WrongProofError{Left: maxWrongProofs - g.kept.Failures}
}

// passphrase reports whether a passphrase is the enrolled one. If it is, codes are
// accepted from then on.
func (g *Guard) passphrase(given []byte) (bool, error) {
	if len(given) > longest {
		return false, nil
	}
	k, err := keysOf(given, &g.kept)
	if err != nil {
		return false, err
	}
	defer clear(k.verifier)
	defer clear(k.seal)
	if !k.opens(&g.kept) {
		return false, nil
	}
	key, err := k.codesOf(&g.kept)
	if err == nil {
		clear(g.key)
		g.key = key
	}
	return true, err
}
