package presence

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Enrolment is a new secret. The function that receives it wipes it.
type Enrolment struct {
	Passphrase []byte
	Key        []byte // of codes; nil for none
	Code       []byte // current code of Key: proves that the app has the key and that the clocks agree
	Keep       bool   // for Rotate: keep the key of codes; Key is nil then
}

func (e *Enrolment) wipe() {
	clear(e.Passphrase)
	clear(e.Key)
	clear(e.Code)
}

// Enrol sets the secret on behalf of who. The errors are gate.ErrEnrolled, if there is
// one already; gate.ErrInvalid, if e can't be a secret; and gate.ErrProofWrong, if the
// code does not belong to its key.
func (g *Guard) Enrol(ctx context.Context, e *Enrolment, who string) error {
	defer e.wipe()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.kept.Enrolled.IsZero() {
		return gate.ErrEnrolled
	}
	if err := g.usable(e); err != nil {
		return err
	}
	next := store.Presence{Recovered: g.kept.Recovered, Recoverer: g.kept.Recoverer}
	return g.enrol(ctx, next, e, "enrolled", who)
}

// Rotate replaces the secret with e. passphrase is the old one; a code is not accepted,
// since somebody may have seen it. The errors are those of Prove and Enrol, except
// gate.ErrEnrolled.
func (g *Guard) Rotate(ctx context.Context, passphrase []byte, e *Enrolment, who string) error {
	defer e.wipe()
	defer clear(passphrase)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(e); err != nil { // an impossible secret must not cost a try
		return err
	}
	if err := g.prove(ctx, &gate.Proof{Passphrase: passphrase}, "a rotation", who); err != nil {
		return err
	}
	next := g.kept
	if e.Keep {
		e.Key = bytes.Clone(g.key)
	}
	return g.enrol(ctx, next, e, "rotated", who)
}

// usable returns why e can't be a secret.
func (g *Guard) usable(e *Enrolment) error {
	switch err := usable(e.Passphrase); {
	case err != nil || e.Key == nil:
		return err
	case e.Keep:
		return fmt.Errorf("both a new key for codes and the old one: %w", gate.ErrInvalid)
	case len(e.Key) < shortestKey || len(e.Key) > longestKey:
		return fmt.Errorf("a key for codes must have %d to %d bytes: %w", shortestKey, longestKey, gate.ErrInvalid)
	}
	if _, ok := stepOf(e.Key, e.Code, g.o.Now(), -1); !ok {
		return fmt.Errorf("%w: the code does not match this key and the time; check the clocks", gate.ErrProofWrong)
	}
	return nil
}

// enrol makes e the secret and stores next. The change is recorded first.
func (g *Guard) enrol(ctx context.Context, next store.Presence, e *Enrolment, verdict, who string) error {
	if e.Key != nil && !e.Keep {
		next.Step, _ = stepOf(e.Key, e.Code, g.o.Now(), -1)
	}
	if err := sealSecret(&next, e.Passphrase, e.Key); err != nil {
		return fmt.Errorf("make a verifier: %w", err)
	}
	next.Enrolled, next.Enroller = g.o.Now().UTC().Truncate(resolution), who
	next.Failures, next.Lock, next.Boot, next.Deadline = 0, 0, "", 0
	what := "a passphrase"
	if e.Key != nil {
		what = "a passphrase and codes"
	}
	if err := g.record(ctx, verdict, who, what); err != nil {
		return fmt.Errorf("record it: %w", err)
	}
	if err := g.put(ctx, next); err != nil {
		return err
	}
	clear(g.key)
	g.key = bytes.Clone(e.Key)
	return nil
}

// Remove removes the secret, given its passphrase. Waiting questions that need presence
// are withdrawn, since nobody could answer them. The errors are those of Prove.
func (g *Guard) Remove(ctx context.Context, passphrase []byte, who string) error {
	defer clear(passphrase)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.prove(ctx, &gate.Proof{Passphrase: passphrase}, "a removal", who); err != nil {
		return err
	}
	next := store.Presence{Recovered: g.kept.Recovered, Recoverer: g.kept.Recoverer}
	return g.forget(ctx, next, "removed", who, "presence was removed by "+who, false)
}

// Recover removes the secret without it. The caller must have checked that who is its
// owner. All grants become void, and waiting questions that need presence are withdrawn.
// gate.ErrNotEnrolled means that there is no secret.
func (g *Guard) Recover(ctx context.Context, who string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept.Enrolled.IsZero() {
		return gate.ErrNotEnrolled
	}
	next := store.Presence{Recovered: g.o.Now().UTC().Truncate(resolution), Recoverer: who}
	return g.forget(ctx, next, "recovered", who, "presence was removed without its secret by "+who, true)
}

// forget removes the secret, after recording that and revoking what depends on it.
func (g *Guard) forget(ctx context.Context, next store.Presence, verdict, who, why string, grants bool) error {
	ctx = context.WithoutCancel(ctx)
	if err := g.record(ctx, verdict, who, why); err != nil {
		return fmt.Errorf("record it: %w", err)
	}
	if err := g.o.Void(ctx, who, why, grants); err != nil {
		return fmt.Errorf("revoke what depends on it: %w", err)
	}
	if err := g.put(ctx, next); err != nil {
		return err
	}
	g.until = time.Time{}
	clear(g.key)
	g.key = nil
	return nil
}
