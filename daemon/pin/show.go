package pin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Ref identifies a pin.
type Ref struct {
	Server string
	Launch string
	Kind   Kind
	Name   string
}

// Pin describes one tool, prompt or template.
type Pin struct {
	Ref
	Why        Reason // why it waits for a person; empty if it does not
	Held       bool   // it is withheld while it waits
	Suspicions []Suspicion

	Accepted [sha256.Size]byte // zero if none was accepted
	Since    time.Time
	Decider  string // who accepted it; empty at first sight

	Waiting [sha256.Size]byte // zero if none waits
	Noticed time.Time
}

// Server describes one launch of a server.
type Server struct {
	ID      string
	Launch  string
	Command []string
	First   time.Time
	Seen    time.Time // precise to the hour
	New     bool
	Decider string // who accepted it; empty for the first of its id
	Pins    int
	Waiting int
}

// Diff is a pin with its definitions.
type Diff struct {
	Pin
	Before  []byte // accepted definition; nil if there is none or it was too long to keep
	After   []byte // waiting definition; nil as for Before
	Changes []Change
}

// List returns the pins of a server, or of all servers if server is empty, sorted by server and
// name.
func (b *Registry) List(server string) []Pin {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var all []Pin
	for id, l := range b.launches {
		if server != "" && id.server != server {
			continue
		}
		for t, k := range l.pins {
			all = append(all, b.describe(id, t, k))
		}
	}
	slices.SortFunc(all, func(x, y Pin) int {
		return cmp.Or(cmp.Compare(x.Server, y.Server), cmp.Compare(x.Launch, y.Launch), -cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// describe returns the description of one pin. b.mu must be held.
func (b *Registry) describe(id launchID, t definitionKey, k *pinned) Pin {
	p := Pin{Ref: Ref{id.server, id.launch, t.kind, t.name}, Since: k.since, Decider: k.decider, Noticed: k.noticed}
	def := k.accepted
	if k.accepted != nil {
		p.Accepted = k.accepted.digest
		if p.Why = b.seen(id.server, k, k.accepted); p.Why != "" {
			p.Waiting = p.Accepted
		}
	}
	if k.offered != nil {
		p.Waiting, p.Why, def = k.offered.digest, k.why, k.offered
	}
	if def != nil {
		p.Suspicions = b.suspicions(id.server, def)
	}
	p.Held = p.Why != "" && (b.mode == config.PinHold || p.Why == LookAlike)
	return p
}

// Diff returns a pin and the differences between its definitions. The error is gate.ErrNotFound if
// there is no such pin.
func (b *Registry) Diff(ctx context.Context, r Ref) (Diff, error) {
	b.changing.Lock() // so that the texts match the pin
	defer b.changing.Unlock()
	b.mu.RLock()
	id, t := launchID{r.Server, r.Launch}, definitionKey{r.Kind, r.Name}
	k := b.pinned(id, t)
	if k == nil {
		b.mu.RUnlock()
		return Diff{}, fmt.Errorf("%s %q of server %q: %w", r.Kind, r.Name, r.Server, gate.ErrNotFound)
	}
	d := Diff{Pin: b.describe(id, t, k)}
	b.mu.RUnlock()
	var err error
	if d.Before, d.After, d.Changes, err = b.changes(ctx, k.accepted, k.offered); err != nil {
		return Diff{}, err
	}
	return d, nil
}

// Servers returns every known launch of every server, sorted by id and by when it was first seen.
func (b *Registry) Servers() []Server {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var all []Server
	for id, l := range b.launches {
		s := Server{
			ID: id.server, Launch: id.launch, Command: slices.Clone(l.Command), First: l.First, Seen: l.Seen,
			New: !l.Accepted, Decider: l.Decider, Pins: len(l.pins),
		}
		for t, k := range l.pins {
			if b.describe(id, t, k).Why != "" {
				s.Waiting++
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y Server) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), x.First.Compare(y.First), cmp.Compare(x.Launch, y.Launch))
	})
	return all
}

// Waiting returns how many definitions wait for a person.
func (b *Registry) Waiting() int {
	n := 0
	for _, s := range b.Servers() {
		n += s.Waiting
	}
	return n
}

// mostWarnings is how many servers are named in warnings.
const mostWarnings = 8

// Warnings returns warnings about the servers that a person should look at.
func (b *Registry) Warnings() []string {
	b.mu.RLock()
	mode := b.mode
	b.mu.RUnlock()
	if mode == config.PinOff {
		return nil
	}
	strangers, waiting := map[string]int{}, map[string]int{}
	for _, s := range b.Servers() {
		if s.New {
			strangers[s.ID]++
		}
		waiting[s.ID] += s.Waiting
	}
	maps.DeleteFunc(waiting, func(_ string, n int) bool { return n == 0 })
	var all []string
	for _, id := range slices.Sorted(maps.Keys(waiting)) {
		what := "withheld until a person accepts them"
		if mode == config.PinWarn {
			what = "shown nevertheless, because pins.mode is warn"
		}
		all = append(all, fmt.Sprintf("server %q has unaccepted definitions (%d); they are %s: `tgctl tools --server %s`",
			id, waiting[id], what, gate.ShellWord(id)))
	}
	for _, id := range slices.Sorted(maps.Keys(strangers)) {
		all = append(all, fmt.Sprintf("server %q is new: it was started with another command than the accepted one: `tgctl servers`", id))
	}
	if left := len(all) - mostWarnings; left > 1 {
		all = append(all[:mostWarnings], fmt.Sprintf("%d more servers are new or have waiting definitions: `tgctl servers`", left))
	}
	return all
}

// shownCommand returns a command line in the form in which it is kept.
func (b *Registry) shownCommand(command []string) []string {
	if b.o.Redact == nil {
		return command
	}
	shown := make([]string, len(command))
	for i, arg := range command {
		shown[i] = b.o.Redact(arg)
	}
	return shown
}
