// Package presence checks that an approval comes from a person.
//
// A person enrolls a secret that no agent has: a passphrase and, optionally, a key from
// which an authenticator app computes codes. Either proves presence. Of the passphrase
// only a verifier derived with Argon2id is stored. The key of codes is stored encrypted
// under the passphrase, so reading the file reveals neither. After a start of the daemon,
// codes are accepted once the passphrase was given.
//
// Wrong proofs are counted, and after a few of them no proof is checked for a while.
// Counter and lock are on disk before a proof is checked, so restarting the daemon does
// not give another try. A lock is measured on the clock of how long the machine has been
// running, which nobody can set. If the machine is rebooted during a lock, the lock
// starts over.
//
// A person who has lost the secret can remove it at a terminal without giving it. That
// revokes everything that depends on it and is reported afterwards.
package presence

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// maxWrongProofs is the number of consecutive wrong proofs that cause a lock. Each further one
	// doubles the lock.
	maxWrongProofs        = 5
	firstLock             = time.Minute
	longestLock           = time.Hour
	warningPeriod         = 7 * 24 * time.Hour // how long Warnings reports a recovery
	resolution            = time.Microsecond   // of times on disk
	mostWrong      uint32 = 1 << 20            // maximum of the counter
	byPassphrase          = "with the passphrase"
	byCode                = "with a code"
)

// Options configures a Guard.
type Options struct {
	Recorder gate.Recorder
	Logger   *slog.Logger     // discards if nil
	Now      func() time.Time // time.Now if nil
	// Boot is store.Boot if nil.
	Boot func() (id string, up time.Duration)
	// Void revokes what depends on a removed secret: by is who removes it, why explains
	// it to a person, and grants says that grants end too. It does nothing if nil.
	Void func(ctx context.Context, by, why string, grants bool) error
}

// Guard stores the secret and checks proofs. Its methods are safe for concurrent use.
// Their changes are on disk when they return. It is a gate.Presence.
type Guard struct {
	db       *store.DB
	o        Options
	enrolled atomic.Bool

	mu    sync.Mutex // guards the fields below, and serializes the checking of proofs
	kept  store.Presence
	key   []byte    // of codes; nil if there are none, or the passphrase was not given yet
	until time.Time // end of the lock, with the monotonic clock
}

// New loads what a previous daemon left.
func New(db *store.DB, o Options) (*Guard, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == nil {
		o.Boot = store.Boot
	}
	if o.Void == nil {
		o.Void = func(context.Context, string, string, bool) error { return nil }
	}
	ctx := context.Background() // it is local and short
	kept, err := db.Presence(ctx)
	if err != nil {
		return nil, err
	}
	g := &Guard{db: db, o: o, kept: kept}
	g.enrolled.Store(!kept.Enrolled.IsZero())
	if kept.Lock > 0 {
		left := kept.Lock
		if boot, up := o.Boot(); boot != "" && boot == kept.Boot {
			left = min(left, kept.Deadline-up)
		}
		next := g.kept
		g.lock(&next, kept.Lock, left)
		if err := g.put(ctx, next); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// lock sets a lock in p whose full length is whole and of which left remains.
func (g *Guard) lock(p *store.Presence, whole, left time.Duration) {
	var up time.Duration
	p.Boot, up = g.o.Boot()
	p.Lock, p.Deadline = whole, up+left
	g.until = g.o.Now().Add(left)
}

// locked returns how long proofs are not checked; 0 or less if they are.
func (g *Guard) locked() time.Duration {
	if g.kept.Lock == 0 {
		return 0
	}
	left := g.until.Sub(g.o.Now())
	if boot, up := g.o.Boot(); boot != "" && boot == g.kept.Boot {
		left = min(left, g.kept.Deadline-up)
	}
	return left
}

// put stores next on disk and then in memory.
func (g *Guard) put(ctx context.Context, next store.Presence) error {
	if err := g.db.PutPresence(ctx, &next); err != nil {
		return err
	}
	g.kept = next
	g.enrolled.Store(!next.Enrolled.IsZero())
	return nil
}

// Enrolled implements gate.Presence.
func (g *Guard) Enrolled() bool { return g.enrolled.Load() }

// State is the state of the secret.
type State struct {
	Enrolled  bool
	Since     time.Time // UTC
	By        string    // who enrolled, as the kernel showed it
	Codes     bool      // there is a key of codes
	Asleep    bool      // codes are not accepted until the passphrase was given
	Failures  uint32    // wrong proofs since the last valid one
	Locked    time.Duration
	Recovered time.Time // when a secret was removed without giving it; zero: never
	Recoverer string
}

// State returns the state of the secret.
func (g *Guard) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.kept
	return State{
		Enrolled: !p.Enrolled.IsZero(), Since: p.Enrolled, By: p.Enroller, Codes: p.Sealed != nil, Asleep: p.Sealed != nil && g.key == nil,
		Failures: p.Failures, Locked: max(0, g.locked()), Recovered: p.Recovered, Recoverer: p.Recoverer,
	}
}

// Warnings reports for a week that a secret was removed without giving it.
func (g *Guard) Warnings() []string {
	st := g.State()
	if st.Recovered.IsZero() || g.o.Now().Sub(st.Recovered) > warningPeriod {
		return nil
	}
	return []string{fmt.Sprintf("the presence secret was removed on %s by %s, who did not enter it, and all grants were revoked; if that was not you, see: tgctl presence status",
		st.Recovered.Local().Format("2006-01-02 15:04"), st.Recoverer)}
}

// Close erases the secrets in memory.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.key)
	g.key = nil
}

// record records an event of the secret and who caused it. The record contains nothing of
// the secret.
func (g *Guard) record(ctx context.Context, verdict, who, why string) error {
	g.o.Logger.Info("presence", "component", "presence", "what", verdict, "by", who, "reason", why)
	return g.o.Recorder.Record(context.WithoutCancel(ctx), &record.Record{Kind: record.KindPresence, Verdict: verdict, Decider: who, Reason: why}, nil, nil)
}

// recordAnyway records a refusal. A failure is only logged, since the refusal stands
// anyway.
func (g *Guard) recordAnyway(ctx context.Context, verdict, who, why string) {
	if err := g.record(ctx, verdict, who, why); err != nil {
		g.o.Logger.Error("record a wrong proof", "component", "presence", "err", err)
	}
}
