package pin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// view is what one attachment's server has shown.
type view struct {
	launch launchID
	offers map[definitionKey]offer
	hidden map[definitionKey]bool // listed, but hidden from the agent
	full   []Kind                 // kinds of which more was shown than is kept
	whole  []Kind                 // kinds of which the last page was shown
}

// offer is a definition as an attachment's server has shown it.
type offer struct {
	def   *definition
	ok    bool   // accepted when shown; stays so for this attachment until it shows another
	why   Reason // why it waits; also empty while pins are off
	unfit string // why it is withheld regardless of acceptance
	stale bool   // the server has since said that its list changed
}

// inPlace reports whether the agent may have been shown the definition.
func (o offer) inPlace() bool { return o.unfit == "" && (o.ok || o.why == "") }

func (o offer) same(p offer) bool {
	return o.def.is(p.def) && o.ok == p.ok && o.why == p.why && o.unfit == p.unfit && o.stale == p.stale
}

// keptView is a view on disk.
type keptView struct {
	Full   []Kind      `json:"full,omitempty"`
	Whole  []Kind      `json:"whole,omitempty"`
	Hidden []keptName  `json:"hidden,omitempty"`
	Offers []keptOffer `json:"offers"`
}

type keptName struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

type keptOffer struct {
	keptName
	Digest string `json:"digest"`
	OK     bool   `json:"ok,omitempty"`
	Why    Reason `json:"why,omitempty"`
	Unfit  string `json:"unfit,omitempty"`
	Stale  bool   `json:"stale,omitempty"`
}

// toStore returns v in its form on disk.
func (v *view) toStore(attachment string) (store.View, error) {
	kept := keptView{Full: v.full, Whole: v.whole, Offers: make([]keptOffer, 0, len(v.offers))}
	for t, o := range v.offers {
		kept.Offers = append(kept.Offers, keptOffer{keptName{t.kind, t.name}, hex.EncodeToString(o.def.digest[:]), o.ok, o.why, o.unfit, o.stale})
	}
	for t := range v.hidden {
		kept.Hidden = append(kept.Hidden, keptName{t.kind, t.name})
	}
	slices.SortFunc(kept.Hidden, func(a, b keptName) int { return strings.Compare(string(a.Kind)+a.Name, string(b.Kind)+b.Name) })
	slices.SortFunc(kept.Offers, func(a, b keptOffer) int { return strings.Compare(string(a.Kind)+a.Name, string(b.Kind)+b.Name) })
	raw, err := json.Marshal(kept)
	return store.View{Attachment: attachment, Server: v.launch.server, Launch: v.launch.launch, Offers: raw}, err
}

func (b *Registry) loadView(from *store.View) error {
	var kept keptView
	if err := json.Unmarshal(from.Offers, &kept); err != nil {
		return fmt.Errorf("load what attachment %s has listed: %w", from.Attachment, err)
	}
	v := &view{launch: launchID{from.Server, from.Launch}, offers: map[definitionKey]offer{}, hidden: map[definitionKey]bool{}, full: kept.Full, whole: kept.Whole}
	for _, k := range kept.Hidden {
		v.hidden[definitionKey{k.Kind, k.Name}] = true
	}
	l := b.launches[v.launch]
	for _, k := range kept.Offers {
		t := definitionKey{k.Kind, k.Name}
		def := &definition{}
		if digest, err := hex.DecodeString(k.Digest); err == nil && len(digest) == sha256.Size {
			def.digest = [sha256.Size]byte(digest)
		}
		if l != nil {
			for _, same := range l.pins[t].definitions() {
				if same.is(def) {
					def = same
				}
			}
		}
		v.offers[t] = offer{def, k.OK, k.Why, k.Unfit, k.Stale}
	}
	b.views[from.Attachment] = v
	return nil
}

// definitions returns the known definitions of a thing: the accepted and the waiting one.
func (k *pinned) definitions() []*definition {
	if k == nil {
		return nil
	}
	return slices.DeleteFunc([]*definition{k.accepted, k.offered}, func(d *definition) bool { return d == nil })
}

// Relist implements gate.Pins. Waiting definitions continue to wait. Accepted ones count as not
// shown until the new list arrives.
func (b *Registry) Relist(attachment, method string) {
	kind, ok := listed[method]
	if !ok {
		return
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	v, marked := b.views[attachment], false
	if v == nil {
		b.mu.Unlock()
		return
	}
	for t, o := range v.offers {
		if t.kind == kind && o.ok && !o.stale {
			o.stale, marked = true, true
			v.offers[t] = o
		}
	}
	pinning := b.mode != config.PinOff
	b.mu.Unlock()
	if marked && b.db != nil && pinning { // a server that repeats this causes one write
		b.keepView(attachment, v)
	}
}

func (b *Registry) keepView(attachment string, v *view) {
	kept, err := v.toStore(attachment)
	if err == nil {
		err = b.db.KeepPins(context.Background(), store.PinChange{Views: []store.View{kept}})
	}
	if err != nil {
		b.o.Logger.Error("save that a server's list changed", "component", "pin", "server_id", v.launch.server, "err", err)
	}
}

// Left implements gate.Pins.
func (b *Registry) Left(attachment string) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	_, ok := b.views[attachment]
	delete(b.views, attachment)
	b.mu.Unlock()
	if !ok || b.db == nil {
		return
	}
	if err := b.db.DropView(context.Background(), attachment); err != nil {
		b.o.Logger.Error("delete what an attachment has listed", "component", "pin", "err", err)
	}
}

// Forget removes the attachments for which keep returns false. It is called when shims have had
// time to reattach to this daemon.
func (b *Registry) Forget(keep func(attachment string) bool) {
	b.mu.RLock()
	var gone []string
	for attachment := range b.views {
		if !keep(attachment) {
			gone = append(gone, attachment)
		}
	}
	b.mu.RUnlock()
	for _, attachment := range gone {
		b.Left(attachment)
	}
}

// keep records and stores the result. It has no effect before that.
func (s *sight) keep(ctx context.Context) error {
	if err := s.b.record(ctx, s.records); err != nil {
		return err
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

// record writes records to the audit log.
func (b *Registry) record(ctx context.Context, records []*record.Record) error {
	for _, r := range records {
		if err := b.o.Recorder.Record(ctx, r, nil, nil); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
	return nil
}

// record returns a new record about the server of this list.
func (s *sight) record(verdict string) *record.Record {
	return &record.Record{
		Kind: record.KindPin, Verdict: verdict, Attachment: s.c.Attachment, Session: s.c.Session, Agent: s.c.Agent,
		Server: s.id.server, Launch: s.id.launch, Method: s.c.Method, Profile: string(s.c.Profile),
	}
}

// change returns what must be stored.
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

// toStore returns k in its form on disk.
func (k *pinned) toStore(id launchID, t definitionKey) (store.Pin, error) {
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

// toStore returns d in its form on disk, with its text if it still has it.
func toStore(d *definition) (store.Definition, error) {
	if d == nil {
		return store.Definition{}, nil
	}
	about, err := json.Marshal(d.about)
	return store.Definition{Digest: bytes.Clone(d.digest[:]), Raw: d.raw, About: about}, err
}

// after returns the attachment's new view, and whether it differs from the old one. Registry.mu must be
// held.
func (s *sight) after() (*view, bool) {
	after, changed := &view{launch: s.id, offers: map[definitionKey]offer{}, hidden: map[definitionKey]bool{}}, s.view == nil
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

// apply puts the result into effect.
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

// holdAll puts only those offers into effect that withhold something. It is used if the result
// could not be stored.
func (s *sight) holdAll() {
	maps.DeleteFunc(s.offers, func(_ definitionKey, o offer) bool { return o.ok })
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, o := range s.offers {
		o.def.raw = nil
	}
	s.b.views[s.c.Attachment], _ = s.after()
}

// makeRoom removes the launch of this id that was not seen for longest, if there are too many. If
// it returns it is a new server, of which only definitions pass that were accepted from another
// launch. The last accepted launch always stays, and so do launches in use.
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
		b.o.Logger.Error("delete an old launch", "component", "pin", "server_id", oldest.Server, "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.launches, launchID{oldest.Server, oldest.Launch.Launch})
}

// older reports whether a is to be removed before b: servers that are not accepted come first.
func older(a, b *launch) bool {
	if a.Accepted != b.Accepted {
		return !a.Accepted
	}
	return a.Seen.Before(b.Seen)
}
