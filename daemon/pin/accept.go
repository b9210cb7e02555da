package pin

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Acceptance is a person's approval of one definition.
type Acceptance struct {
	Ref
	Digest []byte // of the definition that was shown
}

// By says who accepted something.
type By struct {
	Decider string // the caller, as the kernel showed it
	Surface string // the surface, as the client claims
}

// Accept accepts waiting definitions: all of them, or none. When it returns, they are recorded and
// on disk.
//
// The errors are gate.ErrNotFound; gate.ErrDecided if a definition is already accepted;
// gate.ErrChanged if another definition waits than the one shown; and errors of the record and the
// disk.
func (b *Registry) Accept(ctx context.Context, accepted []Acceptance, by By) ([]Pin, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	now := b.o.Now().UTC().Truncate(time.Microsecond)
	decided := make([]decision, 0, len(accepted))
	for _, a := range accepted {
		d, err := b.decide(ctx, a, by, now)
		if err != nil {
			return nil, fmt.Errorf("accept %s %q of server %q: %w", a.Kind, a.Name, a.Server, err)
		}
		decided = append(decided, d)
	}
	return b.settle(ctx, nil, decided, by)
}

// decision is the new state of a pin.
type decision struct {
	id     launchID
	t      definitionKey
	k      *pinned
	record *record.Record // nil if it continues to wait
}

// decide checks one acceptance. b.changing must be held.
func (b *Registry) decide(ctx context.Context, a Acceptance, by By, now time.Time) (decision, error) {
	id, t := launchID{a.Server, a.Launch}, definitionKey{a.Kind, a.Name}
	b.mu.RLock()
	k := b.pinned(id, t)
	var p Pin
	if k != nil {
		p = b.describe(id, t, k)
	}
	b.mu.RUnlock()
	switch {
	case k == nil:
		return decision{}, gate.ErrNotFound
	case p.Why == "" && slices.Equal(a.Digest, p.Accepted[:]):
		return decision{}, fmt.Errorf("it is already accepted: %w", gate.ErrDecided)
	case p.Why == "" || !slices.Equal(a.Digest, p.Waiting[:]):
		return decision{}, fmt.Errorf("another definition is waiting now: %w", gate.ErrChanged)
	}
	d := k.offered
	if d == nil {
		d = k.accepted
	}
	r := withDefinition(by.record(id), t, d, p.Why)
	if p.Why == Changed {
		_, _, changes, err := b.changes(ctx, k.accepted, d)
		if err != nil {
			return decision{}, err
		}
		if len(changes) > 0 {
			r.Reason += fmt.Sprintf(" (%s): %s", grade(changes), summary(changes))
		}
	}
	if len(p.Suspicions) > 0 {
		r.Reason += ": " + sayAll(p.Suspicions)
	}
	return decision{id, t, &pinned{accepted: d, since: now, decider: by.Decider}, r}, nil
}

// AcceptServer accepts a new server, and the definitions that wait only because it was new: they
// are treated as if the server's id had not been known. It returns the number of accepted
// definitions. Errors are as for Accept.
func (b *Registry) AcceptServer(ctx context.Context, server, launchHash string, by By) (int, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	now := b.o.Now().UTC().Truncate(time.Microsecond)
	b.mu.RLock()
	l := b.launches[launchID{server, launchHash}]
	var decided []decision
	if l != nil {
		decided = b.passes(l, by, now)
	}
	b.mu.RUnlock()
	switch {
	case l == nil:
		return 0, fmt.Errorf("accept server %q: %w", server, gate.ErrNotFound)
	case l.Accepted:
		return 0, fmt.Errorf("accept server %q: %w", server, gate.ErrDecided)
	}
	row := l.Launch
	row.Accepted, row.Decider = true, by.Decider
	if _, err := b.settle(ctx, &row, decided, by); err != nil {
		return 0, fmt.Errorf("accept server %q: %w", server, err)
	}
	n := 0
	for _, d := range decided {
		if d.record != nil {
			n++
		}
	}
	return n, nil
}

// passes returns the decisions on a new server's definitions, as at first sight. b.mu must be held.
func (b *Registry) passes(l *launch, by By, now time.Time) []decision {
	id := launchID{l.Server, l.Launch.Launch}
	var decided []decision
	for t, k := range l.pins {
		if k.offered == nil || k.why != NewServer {
			continue
		}
		if len(b.suspicions(id.server, k.offered)) > 0 { // it continues to wait, for another reason
			waits := *k
			waits.why = Suspicious
			decided = append(decided, decision{id: id, t: t, k: &waits})
			continue
		}
		r := withDefinition(by.record(id), t, k.offered, NewServer)
		decided = append(decided, decision{id, t, &pinned{accepted: k.offered, since: now, decider: by.Decider}, r})
	}
	return decided
}

// record returns a record of an acceptance.
func (by By) record(id launchID) *record.Record {
	return &record.Record{
		Kind: record.KindPin, Verdict: "accepted", Server: id.server, Launch: id.launch,
		Decider: by.Decider, Surface: by.Surface,
	}
}

// withDefinition adds to r a definition and why it waited or waits, and returns r.
func withDefinition(r *record.Record, t definitionKey, d *definition, why Reason) *record.Record {
	r.Method, r.Tool, r.Digest, r.Reason = methodOf(t.kind), t.name, hex.EncodeToString(d.digest[:]), string(why)
	return r
}

// settle records decisions, stores them, and puts them into effect. b.changing must be held.
func (b *Registry) settle(ctx context.Context, server *store.Launch, decided []decision, by By) ([]Pin, error) {
	var change store.PinChange
	var records []*record.Record
	if server != nil {
		change.Launches = append(change.Launches, *server)
		r := by.record(launchID{server.Server, server.Launch})
		r.Reason = fmt.Sprintf("the server, started with %q", server.Command)
		records = append(records, r)
	}
	for _, d := range decided {
		p, err := d.k.toStore(d.id, d.t)
		if err != nil {
			return nil, err
		}
		change.Pins = append(change.Pins, p)
		if d.record != nil {
			records = append(records, d.record)
		}
	}
	if err := b.record(ctx, records); err != nil {
		return nil, err
	}
	if b.db != nil {
		if err := b.db.KeepPins(ctx, change); err != nil {
			return nil, err
		}
	}
	defer b.o.Changed()
	b.mu.Lock()
	defer b.mu.Unlock()
	if server != nil {
		b.launches[launchID{server.Server, server.Launch}].Launch = *server
	}
	var all []Pin
	for _, d := range decided {
		b.set(b.launches[d.id], d.t, d.k)
		all = append(all, b.describe(d.id, d.t, d.k))
	}
	return all, nil
}
