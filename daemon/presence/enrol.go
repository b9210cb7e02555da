package presence

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Enrolment is a new secret. Whoever takes it wipes it.
type Enrolment struct {
	Passphrase []byte
	Key        []byte // of codes; nil for none
	Code       []byte // that Key makes now: the app has it, and the clocks agree
	Keep       bool   // Rotate: the key of codes stays; Key is nil then
}

func (e *Enrolment) wipe() {
	clear(e.Passphrase)
	clear(e.Key)
	clear(e.Code)
}

// Enrol makes e the secret where there is none, on behalf of who. Errors are
// gate.ErrEnrolled; gate.ErrInvalid, when it can't be a secret; and
// gate.ErrProofWrong, when the code is not one of its key.
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

// Rotate puts e in place of the secret, of which passphrase is the old one: a code
// that somebody has seen once is not enough. Errors are those of Prove and Enrol,
// but for gate.ErrEnrolled.
func (g *Guard) Rotate(ctx context.Context, passphrase []byte, e *Enrolment, who string) error {
	defer e.wipe()
	defer clear(passphrase)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(e); err != nil { // no try is spent on what can't be
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

// usable says why e can't be a secret.
func (g *Guard) usable(e *Enrolment) error {
	switch err := usable(e.Passphrase); {
	case err != nil || e.Key == nil:
		return err
	case e.Keep:
		return fmt.Errorf("a new key of codes and the old one: %w", gate.ErrInvalid)
	case len(e.Key) < shortestKey || len(e.Key) > longestKey:
		return fmt.Errorf("a key of codes has %d to %d bytes: %w", shortestKey, longestKey, gate.ErrInvalid)
	}
	if _, ok := stepOf(e.Key, e.Code, g.o.Now(), -1); !ok {
		return fmt.Errorf("%w: the code is not one that the app makes of this key now; compare the clocks", gate.ErrProofWrong)
	}
	return nil
}

// enrol makes e the secret, with what else next says. It is on record before.
func (g *Guard) enrol(ctx context.Context, next store.Presence, e *Enrolment, verdict, who string) error {
	if e.Key != nil && !e.Keep {
		next.Step, _ = stepOf(e.Key, e.Code, g.o.Now(), -1)
	}
	if err := closeWith(&next, e.Passphrase, e.Key); err != nil {
		return fmt.Errorf("make a verifier: %w", err)
	}
	next.Enrolled, next.Enroller = g.o.Now().UTC().Truncate(resolution), who
	next.Failures, next.Lock, next.Boot, next.Deadline = 0, 0, "", 0
	what := "a passphrase"
	if e.Key != nil {
		what = "a passphrase, and codes"
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

// Remove takes the secret away from who gives its passphrase. Open questions that
// need presence are withdrawn, since nobody could answer them. Errors are those of
// Prove.
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

// Recover takes the secret away without it, from who has been found to be its
// owner. All grants are void then, and questions that need presence are withdrawn.
// gate.ErrNotEnrolled means that there is none.
func (g *Guard) Recover(ctx context.Context, who string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept.Enrolled.IsZero() {
		return gate.ErrNotEnrolled
	}
	next := store.Presence{Recovered: g.o.Now().UTC().Truncate(resolution), Recoverer: who}
	return g.forget(ctx, next, "recovered", who, "presence was removed without its secret by "+who, true)
}

// forget removes the secret, on record and with what rests on it first.
func (g *Guard) forget(ctx context.Context, next store.Presence, verdict, who, why string, grants bool) error {
	ctx = context.WithoutCancel(ctx)
	if err := g.record(ctx, verdict, who, why); err != nil {
		return fmt.Errorf("record it: %w", err)
	}
	if err := g.o.Void(ctx, who, why, grants); err != nil {
		return fmt.Errorf("take back what rests on it: %w", err)
	}
	if err := g.put(ctx, next); err != nil {
		return err
	}
	g.until = time.Time{}
	clear(g.key)
	g.key = nil
	return nil
}
