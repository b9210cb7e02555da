package pin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// view is what one attachment's server has shown.
type view struct {
	launch launchID
	offers map[thing]offer
	hidden map[thing]bool // listed, and the agent was not to know of it
	full   []Kind         // of which more was shown than is kept
	whole  []Kind         // of which the last page was shown
}

// offer is a definition as an attachment's server has shown it.
type offer struct {
	def   *definition
	ok    bool   // it was accepted when it was shown; it stays so for this attachment until it shows another
	why   Reason // why it waits; empty also while pins are off
	unfit string // why it is withheld whatever anybody accepts
	stale bool   // the server has said since that its list is another one
}

// in place reports whether the agent may have been shown it.
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
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Digest string `json:"digest"`
	OK     bool   `json:"ok,omitempty"`
	Why    Reason `json:"why,omitempty"`
	Unfit  string `json:"unfit,omitempty"`
	Stale  bool   `json:"stale,omitempty"`
}

// toStore is v for the disk.
func (v *view) toStore(attachment string) (store.View, error) {
	kept := keptView{Full: v.full, Whole: v.whole, Offers: make([]keptOffer, 0, len(v.offers))}
	for t, o := range v.offers {
		kept.Offers = append(kept.Offers, keptOffer{t.kind, t.name, hex.EncodeToString(o.def.digest[:]), o.ok, o.why, o.unfit, o.stale})
	}
	for t := range v.hidden {
		kept.Hidden = append(kept.Hidden, keptName{t.kind, t.name})
	}
	slices.SortFunc(kept.Hidden, func(a, b keptName) int { return strings.Compare(string(a.Kind)+a.Name, string(b.Kind)+b.Name) })
	slices.SortFunc(kept.Offers, func(a, b keptOffer) int { return strings.Compare(string(a.Kind)+a.Name, string(b.Kind)+b.Name) })
	raw, err := json.Marshal(kept)
	return store.View{Attachment: attachment, Server: v.launch.server, Launch: v.launch.launch, Offers: raw}, err
}

func (b *Book) loadView(from *store.View) error {
	var kept keptView
	if err := json.Unmarshal(from.Offers, &kept); err != nil {
		return fmt.Errorf("what attachment %s has shown: %w", from.Attachment, err)
	}
	v := &view{launch: launchID{from.Server, from.Launch}, offers: map[thing]offer{}, hidden: map[thing]bool{}, full: kept.Full, whole: kept.Whole}
	for _, k := range kept.Hidden {
		v.hidden[thing{k.Kind, k.Name}] = true
	}
	l := b.launches[v.launch]
	for _, k := range kept.Offers {
		t := thing{k.Kind, k.Name}
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

// definitions are what is known of a thing: what was accepted, and what waits.
func (k *pinned) definitions() []*definition {
	var all []*definition
	if k != nil && k.accepted != nil {
		all = append(all, k.accepted)
	}
	if k != nil && k.offered != nil {
		all = append(all, k.offered)
	}
	return all
}

// Relist implements gate.Pins. What waits goes on waiting; what was accepted
// counts as not shown until the list comes.
func (b *Book) Relist(attachment, method string) {
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
	b.mu.Unlock()
	if marked && b.db != nil && b.pinning() { // a server that says so again and again writes once
		b.keepView(attachment, v)
	}
}

func (b *Book) pinning() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.mode != config.PinOff
}

func (b *Book) keepView(attachment string, v *view) {
	kept, err := v.toStore(attachment)
	if err == nil {
		err = b.db.KeepPins(context.Background(), store.PinChange{Views: []store.View{kept}})
	}
	if err != nil {
		b.o.Logger.Error("keep that a server's list changed", "component", "pin", "server_id", v.launch.server, "err", err)
	}
}

// Left implements gate.Pins.
func (b *Book) Left(attachment string) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	_, ok := b.views[attachment]
	delete(b.views, attachment)
	b.mu.Unlock()
	if ok {
		b.dropView(attachment)
	}
}

// Forget forgets the attachments that keep does not want, for when shims have
// had the time to come back to this daemon.
func (b *Book) Forget(keep func(attachment string) bool) {
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

func (b *Book) dropView(attachment string) {
	if b.db == nil {
		return
	}
	if err := b.db.DropView(context.Background(), attachment); err != nil {
		b.o.Logger.Error("forget what an attachment has shown", "component", "pin", "err", err)
	}
}
