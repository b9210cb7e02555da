package pin

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// listed maps the methods of pinned lists to the kind of their elements. Resources are not pinned:
// they change with their content.
var listed = map[string]Kind{"tools/list": Tool, "prompts/list": Prompt, "resources/templates/list": Template}

// methodOf returns the method by which records show a kind. For a tool it is empty.
func methodOf(kind Kind) string {
	for method, k := range listed {
		if k == kind && k != Tool {
			return method
		}
	}
	return ""
}

// called returns what a call uses: a tool, a prompt or a template.
func called(c *gate.Call) (definitionKey, bool) {
	switch c.Method {
	case "tools/call":
		return definitionKey{Tool, c.Subject}, true
	case "prompts/get":
		return definitionKey{Prompt, c.Subject}, true
	case "completion/complete":
		switch mcp.ReferenceKind(&c.Envelope, c.Line) {
		case mcp.Prompt:
			return definitionKey{Prompt, c.Subject}, true
		case mcp.Resource:
			return definitionKey{Template, c.Subject}, true
		}
	}
	return definitionKey{}, false
}

// Of implements gate.Pins.
func (b *Registry) Of(c *gate.Call) gate.Pinned {
	t, ok := called(c)
	if !ok {
		return gate.Pinned{}
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.status(c, t)
	b.named(c, t, &p)
	if a := b.about(c, t); t.kind == Tool && a != nil && a.Destroys {
		p.Facts = append(p.Facts, gate.Fact{Name: gate.FactActs, Detail: "its definition says that it is destructive", By: c.Server})
	}
	return p
}

// Holds implements gate.Pins.
func (b *Registry) Holds(c *gate.Call, method, name string) bool {
	kind, ok := listed[method]
	if !ok {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.status(c, definitionKey{kind, name}).Held != ""
}

// Annotations returns the annotations in the definition that c uses, a raw JSON object or nil. They
// are those of the accepted definition, or of the one shown if pins are off.
func (b *Registry) Annotations(c *gate.Call) []byte {
	t, ok := called(c)
	if !ok {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if a := b.about(c, t); a != nil {
		return a.Annotations
	}
	return nil
}

// about returns what is known of the definition that Annotations uses, or nil. b.mu must be held.
func (b *Registry) about(c *gate.Call, t definitionKey) *about {
	if k := b.pinned(launchID{c.Server, c.Launch}, t); k != nil && k.accepted != nil && b.mode != config.PinOff {
		return &k.accepted.about
	}
	if o, ok := b.view(c).shown(t); ok {
		return &o.def.about
	}
	return nil
}

// destructive reports whether a tool's annotations say that it destroys. Nothing follows from
// missing annotations, or from a claim that the tool only reads: a claim can make rules stricter,
// never looser.
func destructive(annotations []byte) bool {
	if len(annotations) == 0 {
		return false
	}
	hint, err := wire.Member(annotations, wire.Span{End: len(annotations)}, "destructiveHint")
	return err != nil || string(hint.Of(annotations)) == "true" // an ambiguous name is an error
}

// pinned returns what is known of a thing, or nil. b.mu must be held.
func (b *Registry) pinned(id launchID, t definitionKey) *pinned {
	if l := b.launches[id]; l != nil {
		return l.pins[t]
	}
	return nil
}

// view returns what the server behind a call or list has shown, or nil. b.mu must be held.
func (b *Registry) view(c *gate.Call) *view {
	v := b.views[c.Attachment]
	if v == nil || v.launch != (launchID{c.Server, c.Launch}) {
		return nil
	}
	return v
}

// shown returns the definition that was shown for a thing.
func (v *view) shown(t definitionKey) (offer, bool) {
	if v == nil {
		return offer{}, false
	}
	o, ok := v.offers[t]
	return o, ok
}

// status returns the pin status of a thing for an attachment that may call it. b.mu must be held.
func (b *Registry) status(c *gate.Call, t definitionKey) gate.Pinned {
	if len(t.name) > maxName {
		return gate.Pinned{Held: fmt.Sprintf("its name is longer than %d bytes", maxName)}
	}
	k := b.pinned(launchID{c.Server, c.Launch}, t)
	v := b.view(c)
	o, shown := v.shown(t)
	switch {
	case shown && o.unfit != "":
		return gate.Pinned{Digest: o.def.digest, Held: fmt.Sprintf("the server's list does not identify this %s (%s)", t.kind, o.unfit)}
	case !shown && v.isFull(t.kind):
		return gate.Pinned{Held: fmt.Sprintf("its server lists too many %ss", t.kind)}
	}
	def, why := b.standing(launchID{c.Server, c.Launch}, k, o, shown)
	if def == nil {
		return gate.Pinned{}
	}
	p := gate.Pinned{Digest: def.digest}
	if b.mode == config.PinHold && why != "" || why == LookAlike {
		p.Held = b.because(c, t, why)
	}
	if why == Changed {
		p.Facts = append(p.Facts, gate.Fact{Name: gate.FactChanged, Detail: "its definition is not the accepted one", By: c.Server})
	}
	if suspicions := b.suspicions(c.Server, def); len(suspicions) > 0 {
		p.Facts = append(p.Facts, gate.Fact{Name: gate.FactSmelly, Detail: sayAll(suspicions), By: c.Server})
	}
	return p
}

// standing returns the definition that applies to an attachment, and the reason if it waits. b.mu
// must be held.
func (b *Registry) standing(id launchID, k *pinned, o offer, shown bool) (*definition, Reason) {
	if b.mode == config.PinOff {
		if o.why != LookAlike {
			return o.def, ""
		}
		return o.def, LookAlike
	}
	if k == nil {
		k = &pinned{}
	}
	switch {
	case !shown || o.stale: // the newest definition from any attachment applies
	case o.ok || k.accepted.is(o.def):
		return o.def, b.seen(id.server, k, o.def)
	case k.offered.is(o.def):
		return o.def, k.why
	case o.why != "":
		return o.def, o.why
	case k.accepted != nil: // shown while pins were off
		return o.def, Changed
	}
	if k.offered != nil {
		return k.offered, k.why
	}
	return k.accepted, b.seen(id.server, k, k.accepted)
}

// seen returns a reason if an accepted definition waits all the same: it was accepted at first
// sight, and names a tool that has since appeared at another server. A definition that a person
// accepted does not wait. b.mu must be held.
func (b *Registry) seen(server string, k *pinned, d *definition) Reason {
	if d != nil && k.decider == "" && b.shadowed(server, d, nil) != "" {
		return Suspicious
	}
	return ""
}

// suspicions returns what a person should know about a definition. b.mu must be held.
func (b *Registry) suspicions(server string, d *definition) []Suspicion {
	suspicions := d.Suspicions
	if name := b.shadowed(server, d, nil); name != "" {
		suspicions = append(slices.Clip(suspicions), Suspicion{What: shadows, Quote: name})
	}
	return suspicions
}

// shadowed returns a name in d that is the name of another server's tool, and not of one of the
// server's own tools, including those on page. It returns "" if there is none. b.mu must be held.
func (b *Registry) shadowed(server string, d *definition, page map[string]bool) string {
	for _, word := range d.Mentions {
		servers := b.names[word]
		if _, own := servers[server]; !own && len(servers) > 0 && !page[word] {
			return word
		}
	}
	return ""
}

func (v *view) isFull(kind Kind) bool { return v != nil && slices.Contains(v.full, kind) }

// because returns the reason why a definition waits, for a model and for the record. It contains
// nothing that the server wrote except the name.
func (b *Registry) because(c *gate.Call, t definitionKey, why Reason) string {
	look := fmt.Sprintf("a person must review it: `tgctl tools diff %s`", gate.ShellWord(c.Server+"/"+t.name))
	switch why {
	case Changed:
		return fmt.Sprintf("the definition of this %s changed since it was accepted, and %s", t.kind, look)
	case LookAlike:
		return fmt.Sprintf("the name of this %s looks like another name, and %s", t.kind, look)
	case NewServer:
		return fmt.Sprintf("the server %s was started with another command than the accepted one, and a person must accept it: `tgctl servers`", gate.ShellWord(c.Server))
	}
	return fmt.Sprintf("the definition of this %s is suspicious: it may mislead a model, and %s", t.kind, look)
}

// isLast reports whether c is the last page of its list.
func isLast(c *gate.Call) bool {
	next, err := wire.Member(c.Line, c.Envelope.Result, "nextCursor")
	raw := string(next.Of(c.Line))
	return err == nil && (raw == "" || raw == "null" || raw == `""`)
}

// named adds to p what follows from a name that is not in the server's list. b.mu must be held.
func (b *Registry) named(c *gate.Call, t definitionKey, p *gate.Pinned) {
	if t.kind == Template {
		return
	}
	v := b.view(c)
	if _, shown := v.shown(t); shown || v != nil && v.hidden[t] {
		return
	}
	if other, is := b.otherCase(c, v, t); is {
		p.Final = true
		p.Held = fmt.Sprintf("its server lists no %s with this name, only one whose name differs in case", t.kind)
		if other != "" {
			p.Held = fmt.Sprintf("its server lists no %s with this name, but %q: use the listed name", t.kind, other)
		}
		return
	}
	if t.kind == Tool && v != nil && slices.Contains(v.whole, Tool) {
		p.Facts = append(p.Facts, gate.Fact{Name: gate.FactUnlisted, Detail: "its server lists no tool with this name", By: c.Server})
	}
}

// otherCase reports whether the server of c has listed a thing whose name differs from that of t
// only in case. It returns that name if the agent may see it. What the server listed to other
// agents counts if it does not include the name of t. b.mu must be held.
func (b *Registry) otherCase(c *gate.Call, v *view, t definitionKey) (name string, is bool) {
	same := display.NewCaseless(t.name)
	differs := func(other definitionKey) bool {
		return other.kind == t.kind && other.name != t.name && same.Is(other.name)
	}
	if v != nil {
		for other := range v.offers {
			if differs(other) {
				return other.name, true
			}
		}
		for other := range v.hidden {
			if differs(other) {
				return "", true
			}
		}
	}
	l := b.launches[launchID{c.Server, c.Launch}]
	if l == nil || l.pins[t] != nil || b.mode == config.PinOff {
		return "", false
	}
	for other := range l.pins {
		if differs(other) {
			return "", true
		}
	}
	return "", false
}
