// Package pin knows what each tool's definition was when it was accepted, and
// notices when it is another one.
//
// A model acts on what a server says of its tools. So what a server says at
// first sight is accepted and remembered, to the byte, and from then on it may
// not change behind the user's back: a definition that differs waits until a
// person has looked at the difference. One that a person should see even at first
// sight waits too: it gives orders to a model, hides text, names a place where
// credentials are kept or another server's tool, or looks like a tool that is
// there already.
//
// A server is an id and what is started under it. An id that was seen before
// with another command is a stranger: of it passes only what is, to the byte,
// what was accepted of the one known by that name.
//
// Each attachment has a view: the definitions that its own server has shown. A
// call is judged by that; where its server has shown nothing, by the newest
// that any server of the same id and launch has.
package pin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Kind is what is defined.
type Kind string

const (
	Tool     Kind = "tool"
	Prompt   Kind = "prompt"
	Template Kind = "template" // of resources
)

// Reason is why a definition waits for a person.
type Reason string

const (
	Changed   Reason = "changed"    // it is not the one accepted
	Smelly    Reason = "smelly"     // a person should see it before a model acts on it
	LookAlike Reason = "look-alike" // its name looks like another's
	Stranger  Reason = "stranger"   // its server was started by another command than the one known
)

// What is kept is bounded, whatever servers say.
const (
	maxNames    = 1024    // of one kind and launch of a server
	maxBytes    = 8 << 20 // of definitions, likewise
	maxLaunches = 64      // of one id; the one not seen for longest is forgotten, and a stranger again when it returns
	maxServers  = 1024    // ids
	// lookBudget is how many bytes of definitions are looked at in one list:
	// half a second at worst, where the shim waits two.
	lookBudget = 2 << 20
	// seenEvery is how old the time may be at which a server was last seen.
	seenEvery = time.Hour
)

// Options say how pins are kept.
type Options struct {
	Mode     config.PinMode // hold when empty
	Recorder gate.Recorder
	Logger   *slog.Logger     // discards when nil
	Now      func() time.Time // time.Now when nil
	// Changed is called when other definitions count than before, so that agents
	// may see other things. It must not block, nor call back; nil: nobody is told.
	Changed func()
	// Redact returns a text without the secrets that are recognised in it: command
	// lines are kept to be shown. nil for none.
	Redact func(text string) string
}

// Book holds the pins. Its methods are safe for concurrent use. It is a
// gate.Pins.
type Book struct {
	db *store.DB // nil: nothing is kept beyond this process
	o  Options

	changing sync.Mutex // one change at a time; taken before mu

	mu       sync.RWMutex // guards what follows
	mode     config.PinMode
	launches map[launchID]*launch
	views    map[string]*view               // by attachment
	names    map[string]map[string]struct{} // servers by the names of their tools, in lower case
}

// launchID is what tells a server from another.
type launchID struct{ server, launch string }

// thing is what is defined, within a server.
type thing struct {
	kind Kind
	name string
}

// launch is one server, and what is known of what it offers.
type launch struct {
	store.Launch
	pins map[thing]*pinned
}

// pinned is what was accepted of a thing and what is offered in its place.
type pinned struct {
	accepted *definition // nil: none ever was
	since    time.Time
	decider  string // who accepted it; empty at first sight

	offered *definition // nil: nothing waits
	noticed time.Time
	why     Reason
}

// New takes up the pins that db holds; with a nil db nothing is kept beyond the
// life of the Book.
func New(db *store.DB, o Options) (*Book, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	b := &Book{
		db: db, o: o, launches: map[launchID]*launch{}, views: map[string]*view{}, names: map[string]map[string]struct{}{},
	}
	b.SetMode(o.Mode)
	if db == nil {
		return b, nil
	}
	if err := b.load(context.Background()); err != nil {
		return nil, fmt.Errorf("take up pins: %w", err)
	}
	return b, nil
}

// SetMode says what is done with a definition that was not accepted: hold (also
// when empty), warn, or off.
func (b *Book) SetMode(mode config.PinMode) {
	if mode == "" {
		mode = config.PinHold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = mode
}

func (b *Book) load(ctx context.Context) error {
	launches, err := b.db.Launches(ctx)
	if err != nil {
		return err
	}
	for _, l := range launches {
		b.launches[launchID{l.Server, l.Launch}] = &launch{Launch: l, pins: map[thing]*pinned{}}
	}
	pins, err := b.db.Pins(ctx)
	if err != nil {
		return err
	}
	for i := range pins {
		p := &pins[i]
		k := &pinned{since: p.Since, decider: p.Decider, noticed: p.Noticed, why: Reason(p.Why)}
		if k.accepted, err = fromStore(p.Accepted); err == nil {
			k.offered, err = fromStore(p.Offered)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", p.Name, p.Server, err)
		}
		b.set(b.launches[launchID{p.Server, p.Launch}], thing{Kind(p.Kind), p.Name}, k)
	}
	views, err := b.db.Views(ctx)
	if err != nil {
		return err
	}
	for i := range views {
		if err := b.loadView(&views[i]); err != nil {
			return err
		}
	}
	return nil
}

func fromStore(d store.Definition) (*definition, error) {
	if len(d.Digest) != sha256.Size {
		return nil, nil
	}
	a, err := decodeAbout(d.About)
	return &definition{digest: [sha256.Size]byte(d.Digest), about: a}, err
}

// set makes k what is known of a thing. b.mu is held, or nobody else knows b.
func (b *Book) set(l *launch, t thing, k *pinned) {
	l.pins[t] = k
	if t.kind == Tool && compound(t.name) {
		name := fold(t.name)
		if b.names[name] == nil {
			b.names[name] = map[string]struct{}{}
		}
		b.names[name][l.Server] = struct{}{}
	}
}
