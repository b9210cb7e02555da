package pin

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// keep writes down and puts on disk what was seen. Nothing of it counts before.
func (s *sight) keep(ctx context.Context) error {
	for _, r := range s.records {
		if err := s.b.o.Recorder.Record(ctx, r, nil, nil); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	if s.mode == config.PinOff || s.b.db == nil {
		return nil
	}
	change, err := s.change()
	if err != nil || len(change.Launches)+len(change.Pins)+len(change.Views) == 0 {
		return err
	}
	s.makeRoom(ctx)
	return s.b.db.KeepPins(ctx, change)
}

// record begins a record about the server of this list.
func (s *sight) record(verdict string) *record.Record {
	return &record.Record{
		Kind: record.KindPin, Verdict: verdict, Attachment: s.c.Attachment, Session: s.c.Session, Agent: s.c.Agent,
		Server: s.id.server, Launch: s.id.launch, Method: s.c.Method, Profile: string(s.c.Profile),
	}
}

// change is what is to be put on disk.
func (s *sight) change() (store.PinChange, error) {
	var change store.PinChange
	if s.fresh || s.now.Sub(s.l.Seen) > seenEvery {
		l := s.l.Launch
		l.Seen = s.now
		change.Launches = append(change.Launches, l)
	}
	for t, k := range s.pins {
		p, err := k.toStore(s.id, t)
		if err != nil {
			return change, err
		}
		change.Pins = append(change.Pins, p)
	}
	s.b.mu.RLock()
	after, changed := s.after()
	s.b.mu.RUnlock()
	if changed {
		v, err := after.toStore(s.c.Attachment)
		if err != nil {
			return change, err
		}
		change.Views = append(change.Views, v)
	}
	return change, nil
}

// toStore is k for the disk.
func (k *pinned) toStore(id launchID, t thing) (store.Pin, error) {
	p := store.Pin{
		Server: id.server, Launch: id.launch, Kind: string(t.kind), Name: t.name,
		Since: k.since, Decider: k.decider, Noticed: k.noticed, Why: string(k.why),
	}
	var err error
	if p.Accepted, err = toStore(k.accepted); err != nil {
		return p, err
	}
	p.Offered, err = toStore(k.offered)
	return p, err
}

// toStore is d for the disk, with its text if it still has it.
func toStore(d *definition) (store.Definition, error) {
	if d == nil {
		return store.Definition{}, nil
	}
	about, err := d.about.encode()
	return store.Definition{Digest: bytes.Clone(d.digest[:]), Raw: d.raw, About: about}, err
}

// after is the attachment's view as it will be, and whether it is another one.
// Book.mu is held.
func (s *sight) after() (*view, bool) {
	after, changed := &view{launch: s.id, offers: map[thing]offer{}, hidden: map[thing]bool{}}, s.view == nil
	if s.view != nil {
		after.offers, after.hidden = maps.Clone(s.view.offers), maps.Clone(s.view.hidden)
		after.full, after.whole = slices.Clone(s.view.full), slices.Clone(s.view.whole)
	}
	for t := range s.hidden {
		if !after.hidden[t] && len(after.hidden) < maxNames {
			after.hidden[t], changed = true, true
		}
	}
	for t, o := range s.offers {
		old, ok := after.offers[t]
		changed = changed || !ok || !o.same(old)
		after.offers[t] = o
	}
	if s.full && !after.isFull(s.kind) {
		after.full, changed = append(after.full, s.kind), true
	}
	if s.whole && !slices.Contains(after.whole, s.kind) {
		after.whole, changed = append(after.whole, s.kind), true
	}
	return after, changed
}

// apply makes what was seen count.
func (s *sight) apply() {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.db != nil {
		for _, o := range s.offers {
			o.def.raw = nil // it is on disk
		}
	}
	b.views[s.c.Attachment], _ = s.after()
	if s.mode == config.PinOff {
		return
	}
	if s.now.Sub(s.l.Seen) > seenEvery {
		s.l.Seen = s.now
	}
	b.launches[s.id] = s.l
	for t, k := range s.pins {
		b.set(s.l, t, k)
	}
	if len(s.pins) > 0 {
		b.o.Changed()
	}
}

// holdAll makes only that count which holds something: it is for when the rest
// could not be kept.
func (s *sight) holdAll() {
	maps.DeleteFunc(s.offers, func(_ thing, o offer) bool { return o.ok })
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, o := range s.offers {
		o.def.raw = nil
	}
	s.b.views[s.c.Attachment], _ = s.after()
}

// makeRoom forgets the launch of this id that was not seen for longest, when
// there are too many. When it comes back it is a stranger, of which nothing
// passes that was not accepted of another: nothing is lost by it. One launch
// that was accepted always stays, and those that are in use do.
func (s *sight) makeRoom(ctx context.Context) {
	b := s.b
	if !s.fresh {
		return
	}
	b.mu.RLock()
	used := map[launchID]bool{}
	for _, v := range b.views {
		used[v.launch] = true
	}
	n, accepted := 0, 0
	var oldest *launch
	for id, l := range b.launches {
		if id.server != s.id.server {
			continue
		}
		n++
		if l.Accepted {
			accepted++
		}
		if !used[id] && (oldest == nil || older(l, oldest)) {
			oldest = l
		}
	}
	b.mu.RUnlock()
	if n < maxLaunches || oldest == nil || oldest.Accepted && accepted == 1 {
		return
	}
	if err := b.db.DropLaunch(ctx, oldest.Server, oldest.Launch.Launch); err != nil {
		b.o.Logger.Error("forget an old launch", "component", "pin", "server_id", oldest.Server, "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.launches, launchID{oldest.Server, oldest.Launch.Launch})
}

// older reports whether a is to be forgotten before b: strangers first.
func older(a, b *launch) bool {
	if a.Accepted != b.Accepted {
		return !a.Accepted
	}
	return a.Seen.Before(b.Seen)
}
