package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Pins knows what each tool's definition was when it was accepted, per server
// and launch. Its methods are safe for concurrent use.
type Pins interface {
	// Listed compares what the server of c has listed with what was accepted;
	// c is the result of a list. The answer has one Pinned for each element, in
	// the same order. An error means that it could not be kept: then nothing of
	// the list may be shown.
	Listed(ctx context.Context, c *Call, offered []Offered) ([]Pinned, error)
	// Of tells of the definition that a call is made under.
	Of(c *Call) Pinned
	// Holds reports whether the element of that name is withheld from the list
	// that method gives; of c it matters whose call it is.
	Holds(c *Call, method, name string) bool
	// Relist notes that the server behind an attachment has said that the list
	// which method gives is no longer what it was.
	Relist(attachment, method string)
	// Left forgets an attachment that will not come back.
	Left(attachment string)
}

// Offered is one element of a list, as a server gives it.
type Offered struct {
	Name  string // what it is asked for by
	Raw   []byte // the whole element as it stands in the list; valid during the call
	Unfit string // why it is withheld whatever it holds; empty for most

	// Hidden says that the agent may not know of it. Only that it is in the list
	// is taken note of.
	Hidden bool
}

// Pinned is what is known of one definition.
type Pinned struct {
	Digest [32]byte // SHA-256 over its raw bytes; zero when no list has shown it
	Held   string   // why nothing may be called under it until a person has looked, for a model and a person; empty: nothing holds it
	Final  bool     // Held, and it does not help to look: nothing is called by that name
	Facts  []Fact   // changed, smelly; of a call also unlisted, and acts, when its definition says so
}

// gatePin is how records name a refusal because of a definition. It is a part
// of the gate visible, but the agent is told why: it may know of the tool.
const gatePin = "pin"

// pinned tells of the definition that c is made under. A definition that is not
// the one c began with, since it waited for a person meanwhile, is held: what
// was approved was a call of something else.
func (g *Gate) pinned(c *Call) Pinned {
	if g.Pins == nil || c.Side != wire.FromAgent {
		return Pinned{}
	}
	p := g.Pins.Of(c)
	switch {
	case c.Definition == [32]byte{}:
		c.Definition = p.Digest
	case p.Held == "" && p.Digest != c.Definition:
		p.Held = "the definition of what it calls changed while it waited; look at it again and repeat the call"
	}
	return p
}

// over is what becomes of a call that the policy ruled on, when its definition
// is held. What the agent may not even know of stays unknown to it.
func (p Pinned) over(r Ruling) Ruling {
	if p.Held == "" || r.Hidden {
		return r
	}
	if p.Final {
		return Ruling{Move: Deny, Gate: "rule", Rule: "built in: names", Code: mcp.CodeRule, Reason: p.Held, Redact: r.Redact}
	}
	return Ruling{Move: Deny, Gate: gatePin, Rule: "built in: pins", Code: mcp.CodeRule, Reason: p.Held, Redact: r.Redact}
}

// hold has the pins look at the elements of a list. why says of each why it is
// withheld already, and is filled in for those that are held. It reports whether
// any is, and what is true of them all.
func (g *Gate) hold(ctx context.Context, c *Call, list *wire.List, why []string) (held bool, facts []string, err error) {
	if g.Pins == nil {
		return false, nil, nil
	}
	var offered []Offered
	var at []int
	for i, e := range list.Elements {
		if e.Bad {
			continue
		}
		o := Offered{Name: e.ID, Raw: e.Span.Of(c.Line), Unfit: why[i]}
		if why[i] == notVisible {
			o = Offered{Name: e.ID, Hidden: true}
		}
		offered = append(offered, o)
		at = append(at, i)
	}
	pinned, err := g.Pins.Listed(ctx, c, offered)
	if err != nil {
		return false, nil, fmt.Errorf("the definitions could not be compared with those accepted: %w", err)
	}
	for n, p := range pinned {
		for _, f := range p.Facts {
			if !slices.Contains(facts, f.Name) {
				facts = append(facts, f.Name)
			}
		}
		if i := at[n]; p.Held != "" && why[i] == "" {
			why[i], held = p.Held, true
		}
	}
	return held, facts, nil
}
