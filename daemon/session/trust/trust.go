// Package trust remembers which project servers a person has accepted for starting.
//
// A repository can name MCP servers. A clone of it contains both the file that names them and
// programs that the file leads to. To start such a server is to run untrusted code. So before the
// first start a person is shown what would run. They accept exactly that: the command and its
// arguments, the names of the variables that are set for it, and the content of the programs and
// scripts that the command line leads to. If any of these changes, the server is withheld until a
// person has looked again.
//
// The package examines what a shim is about to start: the program that was found, with the working
// directory and environment in which it was found. Only the origin of the server can't be seen
// there; it is in the shim's own arguments, which the wrap wrote. A server that is not said to come
// with a project, but whose program or script lies in one, is treated as if it did.
//
// What a program loads while it runs can't be seen. What could not be examined is part of what the
// person is shown.
package trust

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Options configures a Registry.
type Options struct {
	Home     string // of the user; what lies directly in it is not a project
	Recorder gate.Recorder
	Logger   *slog.Logger     // may be nil
	Now      func() time.Time // default: time.Now
}

// Registry holds the starts that people have accepted. Its methods are safe for concurrent use.
type Registry struct {
	db    *store.DB
	o     Options
	files hasher

	mu     sync.Mutex // guards the fields below; held during writes to disk
	starts map[key]*Kept
}

// key identifies a start by its project, server and digest.
type key struct {
	project, server string
	digest          [32]byte
}

// Kept is a known start.
type Kept struct {
	Start
	Digest   [32]byte
	Noticed  time.Time // when it was first seen, UTC
	Accepted time.Time // zero if nobody has accepted it
	Decider  string    // who accepted it, as the kernel showed the caller
}

// ID returns the name of a start for people: the beginning of its digest in hex.
func (k *Kept) ID() string { return hex.EncodeToString(k.Digest[:4]) }

// By says who accepted something.
type By struct {
	Decider string // the caller, as the kernel showed it
	Surface string // the surface, as the client claims
}

// New returns a Registry with the starts in db.
func New(db *store.DB, o Options) (*Registry, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Registry{db: db, o: o, starts: map[key]*Kept{}}
	all, err := db.Starts(context.Background())
	if err != nil {
		return nil, fmt.Errorf("load accepted starts: %w", err)
	}
	for i := range all {
		k, err := fromStore(&all[i])
		if err != nil {
			// An altered row is dropped: the person is asked again.
			o.Logger.Warn("delete an accepted start", "server_id", all[i].Server, "err", err)
			if err := db.DropStart(context.Background(), all[i].StartKey); err != nil {
				return nil, err
			}
			continue
		}
		b.starts[k.key()] = k
	}
	return b, nil
}

func (k *Kept) key() key { return key{k.Project, k.Server, k.Digest} }

// Judge decides whether a launch may be started. It returns nil without an error if the launch does
// not belong to a project, and the accepted start if a person has accepted it. Any other launch is
// kept, so that a person can accept it. Then the error wraps gate.ErrWithheld and says what to do.
func (b *Registry) Judge(ctx context.Context, l Launch) (*Kept, error) {
	k, err := b.Look(ctx, l)
	if k == nil || err != nil || !k.Accepted.IsZero() {
		return k, err
	}
	if err := b.record(ctx, "withheld", k, By{}); err != nil {
		b.o.Logger.Error("record a server that is withheld", "server_id", l.Server, "err", err)
	}
	return k, fmt.Errorf("%w: %s; `tgctl servers` shows what it would run; accept it with `tgctl servers accept %s --start %s`",
		gate.ErrWithheld, b.because(k), gate.ShellWord(k.Server), k.ID())
}

// because returns why a start is withheld. Text chosen by a project is quoted, because a model
// reads this.
func (b *Registry) because(k *Kept) string {
	why := fmt.Sprintf("what it runs is in the project %q", k.Project)
	if k.From != "" {
		why = fmt.Sprintf("it comes with a project (%q)", k.From)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.starts {
		if other.project == k.Project && other.server == k.Server && !b.starts[other].Accepted.IsZero() {
			return why + ", and what it would run is not what was accepted"
		}
	}
	return why + ", and it is not accepted yet"
}

// Look examines a launch and returns what is known of it, or nil if it does not belong to a
// project. A launch that was not seen before is kept, and waits for a person.
func (b *Registry) Look(ctx context.Context, l Launch) (*Kept, error) {
	s, ours := b.look(l)
	if !ours {
		return nil, nil
	}
	k := &Kept{Start: s, Digest: s.digest(), Noticed: b.now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.starts[k.key()]
	if have == nil || have.Accepted.IsZero() {
		have = cmp.Or(b.covering(k, true), have, b.covering(k, false))
	}
	if have != nil {
		copied := *have
		return &copied, nil
	}
	if err := b.keep(ctx, k); err != nil {
		return nil, fmt.Errorf("server %q: %w", l.Server, err)
	}
	copied := *k
	return &copied, nil
}

// covering returns the latest accepted or waiting start that covers k, or nil. b.mu must be held.
func (b *Registry) covering(k *Kept, accepted bool) (best *Kept) {
	for _, other := range b.starts {
		if other.Project == k.Project && other.Server == k.Server && other.Accepted.IsZero() != accepted && other.covers(&k.Start) &&
			(best == nil || other.Noticed.After(best.Noticed)) {
			best = other
		}
	}
	return best
}

// Name identifies a start.
type Name struct {
	Project string
	Server  string
	Digest  []byte // 32 bytes
}

// Accept accepts a waiting start that was shown. When it returns, that is recorded and on disk. The
// errors are gate.ErrNotFound, gate.ErrDecided if the start is already accepted, and errors of the
// record and the disk.
func (b *Registry) Accept(ctx context.Context, n Name, by By) (*Kept, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, err := b.named(n)
	if err == nil && !old.Accepted.IsZero() {
		err = gate.ErrDecided
	}
	if err != nil {
		return nil, fmt.Errorf("accept server %q: %w", n.Server, err)
	}
	k := *old
	k.Accepted, k.Decider = b.now(), by.Decider
	if err = b.record(ctx, "accepted", &k, by); err == nil {
		err = b.keep(ctx, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("accept server %q: %w", n.Server, err)
	}
	copied := k
	return &copied, nil
}

// Forget withdraws an acceptance. A running server continues; a person is asked about the next
// start. The errors are gate.ErrNotFound, and errors of the record and the disk.
func (b *Registry) Forget(ctx context.Context, n Name, by By) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.named(n)
	if err == nil {
		err = b.record(ctx, "forgotten", k, by)
	}
	if err == nil {
		err = b.db.DropStart(ctx, store.StartKey{Project: n.Project, Server: n.Server, Digest: n.Digest})
	}
	if err != nil {
		return fmt.Errorf("forget server %q: %w", n.Server, err)
	}
	delete(b.starts, k.key())
	return nil
}

// named returns a start by its name. b.mu must be held.
func (b *Registry) named(n Name) (*Kept, error) {
	if len(n.Digest) != 32 {
		return nil, fmt.Errorf("the digest must have 32 bytes: %w", gate.ErrInvalid)
	}
	k := b.starts[key{n.Project, n.Server, [32]byte(n.Digest)}]
	if k == nil {
		return nil, gate.ErrNotFound
	}
	return k, nil
}

// named returns the command, or for a server behind an address its host.
func (s *Start) named() []string {
	if s.Remote != nil {
		return append([]string{s.Remote.Host}, s.Command...)
	}
	return s.Command
}

// record records what happened to a start.
func (b *Registry) record(ctx context.Context, verdict string, k *Kept, by By) error {
	err := b.o.Recorder.Record(ctx, &record.Record{
		Kind: record.KindPin, Verdict: verdict, Server: k.Server, Digest: hex.EncodeToString(k.Digest[:]),
		Reason: fmt.Sprintf("the start of %q in %s", k.named(), k.Project), Decider: by.Decider, Surface: by.Surface,
	}, nil, nil)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// List returns every known start, waiting ones first, then by server and age.
func (b *Registry) List() []Kept {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Kept
	for _, k := range b.starts {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(x, y Kept) int {
		return cmp.Or(waitingFirst(&x, &y), strings.Compare(x.Server, y.Server), x.Noticed.Compare(y.Noticed), strings.Compare(x.ID(), y.ID()))
	})
	return all
}

// Waiting returns how many starts are not accepted.
func (b *Registry) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, k := range b.starts {
		if k.Accepted.IsZero() {
			n++
		}
	}
	return n
}

func (b *Registry) now() time.Time { return b.o.Now().UTC().Truncate(time.Microsecond) }
