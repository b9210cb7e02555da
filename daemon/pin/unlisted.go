package pin

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// isLast reports whether no page comes behind the one that c is.
func isLast(c *gate.Call) bool {
	next, err := wire.Member(c.Line, c.Envelope.Result, "nextCursor")
	raw := string(next.Of(c.Line))
	return err == nil && (raw == "" || raw == "null" || raw == `""`)
}

// named says what is to be said of a call by a name that no list of its server's has.
// b.mu is held.
func (b *Book) named(c *gate.Call, t thing, p *gate.Pinned) {
	if t.kind == Template {
		return
	}
	v := b.view(c)
	if _, shown := v.shown(t); shown || v != nil && v.hidden[t] {
		return
	}
	if other, is := b.otherCase(c, v, t); is {
		p.Final = true
		p.Held = fmt.Sprintf("its server lists no %s of this name, and one whose name differs only in case", t.kind)
		if other != "" {
			p.Held = fmt.Sprintf("its server lists no %s of this name, but %q: call it by the name that is listed", t.kind, other)
		}
		return
	}
	if t.kind == Tool && v != nil && slices.Contains(v.whole, Tool) {
		p.Facts = append(p.Facts, gate.Fact{Name: "unlisted", Detail: "its server lists no tool of this name", By: c.Server})
	}
}

// otherCase reports whether the server of c has listed a thing whose name differs
// from that of t only in case, and what it is called, if the agent may know. What
// it had listed to others counts where the name of t is none of these. b.mu is held.
func (b *Book) otherCase(c *gate.Call, v *view, t thing) (name string, is bool) {
	same := display.NewCaseless(t.name)
	differs := func(other thing) bool {
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
