// Package pin remembers the accepted definition of each tool, and detects when a server shows
// another one.
//
// A model acts on what a server says about its tools. So the definition that a server shows first
// is accepted and remembered byte for byte, and may not change unnoticed: a definition that differs
// waits until a person has seen the difference. Some definitions wait even at first sight, because
// a person should see them. Such a definition gives orders to a model, hides text, names a place
// where credentials are kept or another server's tool, or has a name that looks like that of an
// existing tool.
//
// A server is identified by its id and by what is started under it. If an id was seen before with
// another command, the server is a new server: only those of its definitions pass that were
// accepted, byte for byte, from a known server with that id.
//
// Each attachment has a view: the definitions that its own server has shown. A call is judged by
// the view. If its server has shown nothing, it is judged by the newest definition of any server
// with the same id and launch.
package pin

import (
	"cmp"
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

// Kind is the kind of a defined thing.
type Kind string

const (
	Tool     Kind = "tool"
	Prompt   Kind = "prompt"
	Template Kind = "template" // of resources
)

// Reason is why a definition waits for a person.
type Reason string

const (
	Changed    Reason = "changed"    // it differs from the accepted one
	Suspicious Reason = "smelly"     // a person should see it before a model acts on it
	LookAlike  Reason = "look-alike" // its name looks like another one
	NewServer  Reason = "stranger"   // its server was started by another command than the known one
)

// Limits of what is kept, whatever servers send.
const (
	maxNames    = 1024    // of one kind, for each launch of a server
	maxBytes    = 8 << 20 // of definitions, for each launch of a server
	maxLaunches = 64      // of one id; beyond that the one not seen for longest is forgotten
	maxServers  = 1024    // server ids
	// lookBudget is how many bytes of definitions are examined in one list. That takes half a
	// second at worst; the shim waits two seconds.
	lookBudget = 2 << 20
	// seenEvery is the precision of the time at which a server was last seen.
	seenEvery = time.Hour
)

// Options configures a Registry.
type Options struct {
	Mode     config.PinMode // default: hold
	Recorder gate.Recorder
	Logger   *slog.Logger     // may be nil
	Now      func() time.Time // default: time.Now
	// Changed is called when the definitions that apply have changed, so that agents may see other
	// ones. It must not block or call the Registry. It may be nil.
	Changed func()
	// Redact returns text without the secrets that are recognized in it. It is used for command
	// lines, which are kept for display. It may be nil.
	Redact func(text string) string
}

// Registry holds the pins and implements gate.Pins. Its methods are safe for concurrent use.
type Registry struct {
	db *store.DB // nil: nothing is stored
	o  Options

	changing sync.Mutex // held during a change; locked before mu

	mu       sync.RWMutex // guards the fields below
	mode     config.PinMode
	launches map[launchID]*launch
	views    map[string]*view               // by attachment
	names    map[string]map[string]struct{} // servers by the names of their tools, in lower case
}

// launchID identifies a server.
type launchID struct{ server, launch string }

// definitionKey identifies a tool, prompt or template of a server.
type definitionKey struct {
	kind Kind
	name string
}

// launch is one server, with the pins of its definitions.
type launch struct {
	store.Launch
	pins map[definitionKey]*pinned
}

// pinned is the accepted definition of a thing, and one that waits to replace it.
type pinned struct {
	accepted *definition // nil if none was accepted
	since    time.Time
	decider  string // who accepted it; empty at first sight

	offered *definition // nil if none waits
	noticed time.Time
	why     Reason
}

// New returns a Registry with the pins in db. If db is nil, nothing is stored.
func New(db *store.DB, o Options) (*Registry, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	b := &Registry{
		db: db, o: o, launches: map[launchID]*launch{}, views: map[string]*view{}, names: map[string]map[string]struct{}{},
	}
	b.SetMode(o.Mode)
	if db == nil {
		return b, nil
	}
	if err := b.load(context.Background()); err != nil {
		return nil, fmt.Errorf("load pins: %w", err)
	}
	return b, nil
}

// SetMode sets what is done with a definition that is not accepted: hold (also if empty), warn, or
// off.
func (b *Registry) SetMode(mode config.PinMode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = cmp.Or(mode, config.PinHold)
}

func (b *Registry) load(ctx context.Context) error {
	launches, err := b.db.Launches(ctx)
	if err != nil {
		return err
	}
	for _, l := range launches {
		b.launches[launchID{l.Server, l.Launch}] = &launch{Launch: l, pins: map[definitionKey]*pinned{}}
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
		b.set(b.launches[launchID{p.Server, p.Launch}], definitionKey{Kind(p.Kind), p.Name}, k)
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

// set sets the pin of a thing. b.mu must be held, or b not shared yet.
func (b *Registry) set(l *launch, t definitionKey, k *pinned) {
	l.pins[t] = k
	if t.kind == Tool && compound(t.name) {
		name := fold(t.name)
		if b.names[name] == nil {
			b.names[name] = map[string]struct{}{}
		}
		b.names[name][l.Server] = struct{}{}
	}
}
