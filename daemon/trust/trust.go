// Package trust knows which servers that come with a project a person has agreed
// to start.
//
// A repository can name MCP servers, and a clone of it brings along both the file
// that names them and the programs that the file leads to. To start one is to run
// a stranger's code. So before the first start a person is shown what would run,
// and what they agree to is that and nothing else: the command and its arguments,
// the names of the variables that are set for it, and the content of the programs
// and scripts that the command line leads to. When any of this is another one, the
// server is withheld until a person has looked again.
//
// What is looked at is what a shim is about to start: the program that was found,
// in the folder and the environment that it was found in. Only where the server
// comes from can't be seen there; that stands in the shim's own arguments, which
// the wrap has written. A server that nobody says comes with a project, and whose
// program or script turns out to lie in one all the same, is treated like those
// that do.
//
// What a program loads once it runs can't be seen. What could not be looked at is
// part of what the person is shown.
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

// Options say what a Book needs of others.
type Options struct {
	Home     string // of the user: what lies in it directly is no project
	Recorder gate.Recorder
	Logger   *slog.Logger     // discards when nil
	Now      func() time.Time // time.Now when nil
}

// Book holds what people have agreed to. Its methods are safe for concurrent use.
type Book struct {
	db    *store.DB
	o     Options
	files hasher

	mu     sync.Mutex // guards what follows, and is held while it is written
	starts map[key]*Kept
}

// key names a start: what of it, under which name, in which project.
type key struct {
	project, server string
	digest          [32]byte
}

// Kept is a start that is known of.
type Kept struct {
	Start
	Digest   [32]byte
	Noticed  time.Time // it was first seen; UTC
	Accepted time.Time // zero: nobody has agreed
	Decider  string    // who did, as the kernel saw them
}

// ID is how a person names a start: the beginning of its digest in hex.
func (k *Kept) ID() string { return hex.EncodeToString(k.Digest[:4]) }

// By is whose word something is.
type By struct {
	Decider string // who, as the kernel saw them
	Surface string // where, as they say
}

// New takes up what db holds.
func New(db *store.DB, o Options) (*Book, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Book{db: db, o: o, starts: map[key]*Kept{}}
	all, err := db.Starts(context.Background())
	if err != nil {
		return nil, fmt.Errorf("take up what people agreed to start: %w", err)
	}
	for i := range all {
		k, err := fromStore(&all[i])
		if err != nil {
			// What can't be believed counts for nothing: the person is asked anew.
			o.Logger.Warn("forget what was agreed to of a server", "server_id", all[i].Server, "err", err)
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

// Judge says whether a launch may go on. It returns nil and no error for one that
// is none of a project, and what was agreed to for one that a person has accepted.
// Any other is kept, so that a person can accept it, and the error wraps
// gate.ErrWithheld and says to whoever wanted the server what to do.
func (b *Book) Judge(ctx context.Context, l Launch) (*Kept, error) {
	k, err := b.Look(ctx, l)
	if k == nil || err != nil || !k.Accepted.IsZero() {
		return k, err
	}
	if err := b.record(ctx, "withheld", k, By{}); err != nil {
		b.o.Logger.Error("record a server that is withheld", "server_id", l.Server, "err", err)
	}
	return k, fmt.Errorf("%w: %s; see what it would run with `tgctl servers`, and agree with `tgctl servers accept %s --start %s`",
		gate.ErrWithheld, b.because(k), gate.ShellWord(k.Server), k.ID())
}

// because says why a start is withheld. Whatever a project chose is quoted: a
// model reads this.
func (b *Book) because(k *Kept) string {
	why := fmt.Sprintf("what it runs lies in the project %q", k.Project)
	if k.From != "" {
		why = fmt.Sprintf("it comes with a project (%q)", k.From)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.starts {
		if other.project == k.Project && other.server == k.Server && !b.starts[other].Accepted.IsZero() {
			return why + ", and what it would run is not what a person agreed to"
		}
	}
	return why + ", and nobody has agreed to start it yet"
}

// Look looks at a launch and returns what is known of it, nil when it is none of
// a project. One that was not seen before is kept, and waits for a person.
func (b *Book) Look(ctx context.Context, l Launch) (*Kept, error) {
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

// covering returns the latest start, accepted or waiting, that covers k; nil for
// none. b.mu is held.
func (b *Book) covering(k *Kept, accepted bool) (best *Kept) {
	for _, other := range b.starts {
		if other.Project == k.Project && other.Server == k.Server && other.Accepted.IsZero() != accepted && other.covers(&k.Start) &&
			(best == nil || other.Noticed.After(best.Noticed)) {
			best = other
		}
	}
	return best
}

// Name says which start is meant.
type Name struct {
	Project string
	Server  string
	Digest  []byte // 32 bytes
}

// Accept agrees to a start that waits, which was shown. It is on record and on
// disk when it returns. Errors are gate.ErrNotFound, gate.ErrDecided when it is
// accepted already, and those of the record and the disk.
func (b *Book) Accept(ctx context.Context, n Name, by By) (*Kept, error) {
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

// Forget takes an agreement back. A server that runs goes on; the next one is asked
// about anew. Errors are gate.ErrNotFound, and those of the record and the disk.
func (b *Book) Forget(ctx context.Context, n Name, by By) error {
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

// named finds a start. b.mu is held.
func (b *Book) named(n Name) (*Kept, error) {
	if len(n.Digest) != 32 {
		return nil, fmt.Errorf("a digest has 32 bytes: %w", gate.ErrInvalid)
	}
	k := b.starts[key{n.Project, n.Server, [32]byte(n.Digest)}]
	if k == nil {
		return nil, gate.ErrNotFound
	}
	return k, nil
}

// record writes down what became of a start.
func (b *Book) record(ctx context.Context, verdict string, k *Kept, by By) error {
	err := b.o.Recorder.Record(ctx, &record.Record{
		Kind: record.KindPin, Verdict: verdict, Server: k.Server, Digest: hex.EncodeToString(k.Digest[:]),
		Reason: fmt.Sprintf("the start of %q in %s", k.Command, k.Project), Decider: by.Decider, Surface: by.Surface,
	}, nil, nil)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// List returns every start that is known of, those that wait first, then by
// server and age.
func (b *Book) List() []Kept {
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

// Waiting counts the starts that nobody has agreed to.
func (b *Book) Waiting() int {
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

func (b *Book) now() time.Time { return b.o.Now().UTC().Truncate(time.Microsecond) }
