// Package presence checks that whoever says yes is a person.
//
// A person enrols a secret that no agent has: a passphrase, and if they like a key
// that an authenticator app makes codes of. Either of the two proves that they are
// there. Of the passphrase only what Argon2id makes of it is kept. The key of codes
// is kept encrypted under the passphrase, so that who reads the file has neither:
// after a start of the daemon codes count once the passphrase was given.
//
// Wrong proofs are counted, and past a few nothing is looked at for a while. Count
// and lock are on disk before a proof is looked at, so that ending the daemon does
// not give another try. A lock runs on the machine's own running time, which nobody
// can set; one that the machine was started anew under begins once more.
//
// Who has lost the secret can remove it without, at a terminal. That takes back all
// that rests on it, and is told from then on.
package presence

import (
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
	// tries is how many wrong proofs in a row it takes for a lock. Each further one
	// doubles it.
	tries               = 5
	firstLock           = time.Minute
	longestLock         = time.Hour
	told                = 7 * 24 * time.Hour // for how long Warnings tells of a recovery
	resolution          = time.Microsecond   // of times on disk
	mostWrong    uint32 = 1 << 20            // counted
	byPassphrase        = "with the passphrase"
	byCode              = "with a code"
)

// Options say how a guard is kept.
type Options struct {
	Recorder gate.Recorder
	Logger   *slog.Logger     // discards when nil
	Now      func() time.Time // time.Now when nil
	// Boot is store.Boot when nil.
	Boot func() (id string, up time.Duration)
	// Void takes back what rests on a secret that is removed: by is who removes it,
	// why says so to a person, and grants that grants go as well. Nil for nothing.
	Void func(ctx context.Context, by, why string, grants bool) error
}

// Guard keeps the secret and checks proofs. Its methods are safe for concurrent
// use; what they have changed is on disk when they return. It is a gate.Presence.
type Guard struct {
	db       *store.DB
	o        Options
	enrolled atomic.Bool

	mu    sync.Mutex // guards what follows, and has one proof looked at at a time
	kept  store.Presence
	key   []byte    // of codes; nil when there are none, or the passphrase was not given yet
	until time.Time // of the lock, with the monotonic clock
}

// New takes up what an earlier daemon left.
func New(db *store.DB, o Options) (*Guard, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == nil {
		o.Boot = store.Boot
	}
	if o.Void == nil {
		o.Void = func(context.Context, string, string, bool) error { return nil }
	}
	ctx := context.Background() // it is local, and takes a moment
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

// lock makes p one that is locked for what is left of a lock.
func (g *Guard) lock(p *store.Presence, whole, left time.Duration) {
	var up time.Duration
	p.Boot, up = g.o.Boot()
	p.Lock, p.Deadline = whole, up+left
	g.until = g.o.Now().Add(left)
}

// locked is how long nothing is looked at; 0 or less when proofs are.
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

// put brings next to disk, and makes it what is kept.
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

// State is how it stands with the secret.
type State struct {
	Enrolled  bool
	Since     time.Time // UTC
	By        string    // who enrolled, as the kernel saw them
	Codes     bool      // there is a key of codes
	Asleep    bool      // codes do not count before the passphrase was given
	Failures  uint32    // wrong proofs since the last right one
	Locked    time.Duration
	Recovered time.Time // when a secret was removed by who did not give it; zero: never
	Recoverer string
}

// State returns how it stands.
func (g *Guard) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.kept
	return State{
		Enrolled: !p.Enrolled.IsZero(), Since: p.Enrolled, By: p.Enroller, Codes: p.Sealed != nil, Asleep: p.Sealed != nil && g.key == nil,
		Failures: p.Failures, Locked: max(0, g.locked()), Recovered: p.Recovered, Recoverer: p.Recoverer,
	}
}

// Warnings tells for a week that a secret was removed by who did not give it.
func (g *Guard) Warnings() []string {
	st := g.State()
	if st.Recovered.IsZero() || g.o.Now().Sub(st.Recovered) > told {
		return nil
	}
	return []string{fmt.Sprintf("the secret that proves your presence was removed without it on %s, by %s, and every grant with it; if that was not you, see: tgctl presence status",
		st.Recovered.Local().Format("2006-01-02 15:04"), st.Recoverer)}
}

// Close forgets what is held in memory.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.key)
	g.key = nil
}

// record writes down what happened to the secret, and who did it. Nothing of the
// secret is in it.
func (g *Guard) record(ctx context.Context, verdict, who, why string) error {
	g.o.Logger.Info("presence", "component", "presence", "what", verdict, "by", who, "reason", why)
	return g.o.Recorder.Record(context.WithoutCancel(ctx), &record.Record{Kind: record.KindPresence, Verdict: verdict, Decider: who, Reason: why}, nil, nil)
}

// recordAnyway is record for what refuses: when it can't be written down it is
// refused all the same.
func (g *Guard) recordAnyway(ctx context.Context, verdict, who, why string) {
	if err := g.record(ctx, verdict, who, why); err != nil {
		g.o.Logger.Error("record a wrong proof", "component", "presence", "err", err)
	}
}
