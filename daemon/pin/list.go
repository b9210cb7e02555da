package pin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// sight is the processing of one page of a list: what was known before, and what is known after it.
// Registry.changing is held throughout, so that nothing else changes meanwhile.
type sight struct {
	b    *Registry
	c    *gate.Call
	kind Kind
	mode config.PinMode
	now  time.Time
	id   launchID
	l    *launch // a new one if fresh is set
	view *view   // of the attachment, before; may be nil

	fresh   bool
	page    map[string]bool           // names on the page, folded
	twins   map[string]string         // names that look like other names
	pins    map[definitionKey]*pinned // changed pins
	offers  map[definitionKey]offer   // new or changed offers
	hidden  map[definitionKey]bool    // on the page, but hidden from the agent
	full    bool
	whole   bool     // this is the last page
	first   []string // accepted at first sight, for the record
	records []*record.Record
}

// Listed implements gate.Pins. When it returns, its results are recorded and on disk. If it fails,
// definitions that are not accepted are still withheld.
func (b *Registry) Listed(ctx context.Context, c *gate.Call, offered []gate.Offered) ([]gate.Pinned, error) {
	kind, ok := listed[c.Method]
	if !ok {
		return make([]gate.Pinned, len(offered)), nil
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	s, err := b.sight(c, kind)
	if err != nil {
		return nil, err
	}
	s.look(offered, s.definitions(offered))
	if err := s.keep(ctx); err != nil {
		s.holdAll()
		return nil, err
	}
	s.apply()
	b.mu.RLock()
	defer b.mu.RUnlock()
	answer := make([]gate.Pinned, len(offered))
	for i := range offered {
		if !offered[i].Hidden {
			answer[i] = b.status(c, definitionKey{kind, offered[i].Name})
		}
	}
	return answer, nil
}

// sight starts the processing of a page.
func (b *Registry) sight(c *gate.Call, kind Kind) (*sight, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := &sight{
		b: b, c: c, kind: kind, mode: b.mode, now: b.o.Now().UTC().Truncate(time.Microsecond), id: launchID{c.Server, c.Launch},
		view: b.view(c), page: map[string]bool{}, pins: map[definitionKey]*pinned{}, offers: map[definitionKey]offer{}, hidden: map[definitionKey]bool{}, whole: isLast(c),
	}
	if s.l = b.launches[s.id]; s.l != nil || s.mode == config.PinOff {
		return s, nil
	}
	ids := map[string]bool{}
	for id := range b.launches {
		ids[id.server] = true
	}
	if len(ids) >= maxServers && !ids[c.Server] {
		return nil, fmt.Errorf("the definitions of %d servers are stored already, which is the maximum", maxServers)
	}
	s.fresh = true
	s.l = &launch{
		Launch: store.Launch{Server: c.Server, Launch: c.Launch, Command: b.shownCommand(c.Command), First: s.now, Seen: s.now, Accepted: !ids[c.Server]},
		pins:   map[definitionKey]*pinned{},
	}
	if !s.l.Accepted {
		r := s.record("stranger")
		r.Reason = fmt.Sprintf("a server with this id was started with another command before; this one is %q", c.Command)
		s.records = append(s.records, r)
	}
	return s, nil
}

// look judges every element; defs are their definitions.
func (s *sight) look(offered []gate.Offered, defs []*definition) {
	s.b.mu.RLock()
	defer s.b.mu.RUnlock()
	names := make([]string, 0, len(offered))
	for i := range offered {
		if offered[i].Hidden {
			continue
		}
		s.page[fold(offered[i].Name)] = true
		if offered[i].Unfit == "" && len(offered[i].Name) <= maxName {
			names = append(names, offered[i].Name)
		}
	}
	if s.kind != Template {
		s.twins = twins(s.inPlace(), names)
	}
	known, size := s.count(), s.size()
	for i := range offered {
		o := &offered[i]
		t := definitionKey{s.kind, o.Name}
		if len(o.Name) > maxName {
			continue // a call by that name is denied too
		}
		if o.Hidden {
			if len(s.hidden) < maxNames {
				s.hidden[t] = true
			}
			continue
		}
		if !s.knows(t) {
			if known >= maxNames || size+len(o.Raw) > maxBytes {
				s.full = true
				continue
			}
			known++
			size += min(len(o.Raw), maxKept)
		}
		s.offers[t] = s.offer(t, o.Unfit, defs[i])
	}
	if len(s.first) > 0 {
		r := s.record("accepted")
		r.Reason = "at first sight: " + strings.Join(s.first, ", ")
		s.records = append(s.records, r)
	}
}

// known returns the pins of the server, and what it has shown to this agent. Both may be nil.
func (s *sight) known() (pins map[definitionKey]*pinned, shown map[definitionKey]offer) {
	if s.l != nil {
		pins = s.l.pins
	}
	if s.view != nil {
		shown = s.view.offers
	}
	return pins, shown
}

// inPlace returns the names that were accepted, or shown to the agent, before.
func (s *sight) inPlace() []string {
	var names []string
	pins, shown := s.known()
	for t, k := range pins {
		if t.kind == s.kind && k.accepted != nil && s.mode != config.PinOff {
			names = append(names, t.name)
		}
	}
	for t, o := range shown {
		if t.kind == s.kind && o.inPlace() {
			names = append(names, t.name)
		}
	}
	return names
}

func (s *sight) knows(t definitionKey) bool {
	pins, shown := s.known()
	_, ok := shown[t]
	return ok || pins[t] != nil
}

// count returns how many names of this kind are known.
func (s *sight) count() int {
	n := 0
	pins, shown := s.known()
	for t := range pins {
		if t.kind == s.kind {
			n++
		}
	}
	for t := range shown {
		if t.kind == s.kind && pins[t] == nil {
			n++
		}
	}
	return n
}

// size returns how many bytes of definitions are kept for this server.
func (s *sight) size() int {
	n := 0
	pins, _ := s.known()
	for _, k := range pins {
		for _, d := range k.definitions() {
			n += min(d.Size, maxKept)
		}
	}
	return n
}

// offer judges one element.
func (s *sight) offer(t definitionKey, unfit string, d *definition) offer {
	if unfit != "" {
		return offer{def: d, unfit: unfit}
	}
	_, twin := s.twins[t.name]
	if s.mode == config.PinOff {
		if twin {
			return offer{def: d, why: LookAlike}
		}
		return offer{def: d}
	}
	k := s.l.pins[t]
	if k == nil {
		k = &pinned{}
	}
	if k.accepted.is(d) {
		if k.offered != nil && !s.b.shows(s.c.Attachment, s.id, t, k.offered) { // the server has withdrawn the change
			s.pins[t] = &pinned{accepted: k.accepted, since: k.since, decider: k.decider}
		}
		return offer{def: d, ok: true}
	}
	if old, _ := s.view.shown(t); old.ok && !old.stale && old.def.is(d) {
		return offer{def: d, ok: true}
	}
	why, decider := s.judge(t, k, d, twin)
	if why == "" {
		s.first = append(s.first, fmt.Sprintf("%q %x", t.name, d.digest[:8]))
		s.pins[t] = &pinned{accepted: d, since: s.now, decider: decider}
		return offer{def: d, ok: true}
	}
	if !k.offered.is(d) || k.why != why {
		s.pins[t] = &pinned{accepted: k.accepted, since: k.since, decider: k.decider, offered: d, noticed: s.now, why: why}
		r := withDefinition(s.record("held"), t, d, why)
		if suspicions := s.b.suspicions(s.id.server, d); len(suspicions) > 0 {
			r.Reason += ": " + sayAll(suspicions)
		}
		s.records = append(s.records, r)
	}
	return offer{def: d, why: why}
}

// judge returns why a definition that is not accepted must wait, or "". The second result is who
// accepted the same definition from a server with this id.
func (s *sight) judge(t definitionKey, k *pinned, d *definition, twin bool) (Reason, string) {
	switch {
	case twin:
		return LookAlike, ""
	case k.accepted != nil:
		return Changed, ""
	case !s.l.Accepted:
		if decider, ok := s.b.acceptedElsewhere(s.id.server, t, d); ok {
			return "", decider
		}
		return NewServer, ""
	case len(d.Suspicions) > 0, s.b.shadowed(s.id.server, d, s.page) != "":
		return Suspicious, ""
	}
	return "", ""
}

// acceptedElsewhere reports whether the same definition was accepted from another launch of this
// server, and by whom. b.mu must be held.
func (b *Registry) acceptedElsewhere(server string, t definitionKey, d *definition) (decider string, ok bool) {
	for id, l := range b.launches {
		if id.server == server && l.Accepted {
			if k := l.pins[t]; k != nil && k.accepted.is(d) {
				return k.decider, true
			}
		}
	}
	return "", false
}

// shows reports whether the server of an attachment other than but shows d. b.mu must be held.
func (b *Registry) shows(but string, id launchID, t definitionKey, d *definition) bool {
	for attachment, v := range b.views {
		if attachment != but && v.launch == id && v.offers[t].def.is(d) {
			return true
		}
	}
	return false
}

// mostForeign is how many names with letters that resemble ASCII ones are compared with all other
// names, one by one. If there are more, all of them are withheld.
const mostForeign = 256

// twins returns which of names look like another of them, or like a name in inPlace, and which name
// that is. A name in inPlace is never reported: a server harms only itself by listing a twin of its
// own tool.
func twins(inPlace, names []string) map[string]string {
	found := map[string]string{}
	index := twinIndex{shapes: map[string]display.Shape{}, folded: map[string][]string{}, similar: map[string][]string{}}
	stays := map[string]bool{}
	for _, name := range inPlace {
		index.add(name)
		stays[name] = true
	}
	for _, name := range names {
		index.add(name)
	}
	for _, name := range names {
		if stays[name] {
			continue
		}
		if other, is := index.twin(name); is {
			found[name] = other
		}
	}
	return found
}

// twinIndex finds names by their appearance.
type twinIndex struct {
	names   []string // without duplicates
	shapes  map[string]display.Shape
	folded  map[string][]string // by key; at most two names for a key
	similar map[string][]string
	foreign []string // names with letters that resemble ASCII ones
}

func (x *twinIndex) add(name string) {
	if _, ok := x.shapes[name]; ok {
		return
	}
	s := display.ShapeOf(name)
	x.shapes[name] = s
	x.names = append(x.names, name)
	if s.HasTwins() {
		x.foreign = append(x.foreign, name)
		return
	}
	folded, similar := s.Keys()
	if len(x.folded[folded]) < 2 {
		x.folded[folded] = append(x.folded[folded], name)
	}
	if len(x.similar[similar]) < 2 {
		x.similar[similar] = append(x.similar[similar], name)
	}
}

// twin returns another name that looks like this one.
func (x *twinIndex) twin(name string) (other string, is bool) {
	s := x.shapes[name]
	candidates := x.foreign
	if s.HasTwins() {
		if len(x.foreign) > mostForeign {
			return "", true
		}
		candidates = x.names
	} else {
		folded, similar := s.Keys()
		for _, of := range [][]string{x.folded[folded], x.similar[similar]} {
			for _, other := range of {
				if other != name {
					return other, true
				}
			}
		}
		if len(x.foreign) > mostForeign {
			candidates = nil // they are withheld themselves
		}
	}
	for _, other := range candidates {
		if other != name && s.Like(x.shapes[other]) {
			return other, true
		}
	}
	return "", false
}
