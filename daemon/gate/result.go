package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// result takes out of a list that a server gives what the agent may not know of. As
// with judge there is a limit to how long that may take, and no verdict for nobody.
func (g *Gate) result(ctx context.Context, a *Attachment, c *Call) Verdict {
	policy := g.policy(c)
	c.Profile = c.inForce(policy)
	g.observe(c)
	_, kind := mcp.ListOf(c.Method)
	r := c.record(policy, nil, Ruling{Gate: "visible"})
	line, err := g.list(ctx, a, policy, c, r)
	if ctx.Err() != nil && line == nil {
		return Verdict{}
	}
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		return g.deny(ctx, c, r, accident(err))
	}
	r.Verdict = "forward"
	v := Verdict{Seq: c.Seq, Move: Forward, Line: line, Replaced: !bytes.Equal(line, c.Line)}
	if v.Replaced {
		r.Digest = hexOf(sha256.Sum256(line))
	}
	if err := g.Recorder.Record(ctx, r, nil, nil); err != nil {
		return g.unrecorded(c, err)
	}
	g.say(ctx, c, r)
	g.listed(c, &v, kind)
	return v
}

// list returns the list c without what the agent may not know of, and says in r what
// that is. Every other byte stays, so that an untouched page arrives as it was sent.
func (g *Gate) list(ctx context.Context, a *Attachment, policy Policy, c *Call, r *record.Record) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, longestJudging, errTooLong)
	defer cancel()
	member, kind := mcp.ListOf(c.Method)
	list, err := wire.ReadList(c.Line, &c.Envelope, member)
	if err != nil {
		return nil, fmt.Errorf("the server's list could not be read (%w)", err)
	}
	why, err := withheld(limited, policy, c, kind, list.Elements)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	held, facts, err := g.hold(context.WithoutCancel(ctx), c, &list, why)
	if err != nil {
		g.Logger.Error("compare definitions", "server_id", c.Server, "method", c.Method, "err", err)
		if c.Profile != Development {
			return nil, err
		}
	}
	r.Facts = facts
	a.shows(c, list.Elements, why)
	var names []string
	edits := list.Items.Cut(func(i int) bool {
		if why[i] != "" {
			names = append(names, fmt.Sprintf("%q (%s)", list.Elements[i].ID, why[i]))
		}
		return why[i] != ""
	})
	if len(names) == 0 {
		return c.Line, nil
	}
	r.Reason = "withheld " + strings.Join(names, ", ")
	if c.Profile == Development {
		word := wouldHide
		if held {
			word = wouldHold
		}
		would(r, word)
		return c.Line, nil
	}
	if c.Modern { // the agent must not hold on to a list that a reload may change
		short, err := shortLived(c.Line, c.Envelope.Result)
		if err != nil {
			return nil, err
		}
		edits = append(edits, short...)
	}
	return wire.Splice(c.Line, edits...)
}

// withheld returns for each element of a list why the agent may not know of it, ""
// where it may. It fails once ctx is done.
func withheld(ctx context.Context, policy Policy, c *Call, kind string, elements []wire.Element) ([]string, error) {
	why := make([]string, len(elements))
	for i, e := range elements {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the server's list is too long: what the agent may know of it was not found out within %v", longestJudging)
		}
		if why[i] = unfit(kind, e); why[i] == "" && !policy.Visible(c, kind, e.ID) {
			why[i] = notVisible
		}
	}
	return why, nil
}

// maxTTL is how long, in milliseconds, a client of the modern era may keep a
// list from which something was taken.
const maxTTL = 60_000

// shortLived returns the edits that keep a filtered list out of shared caches
// and bound how long it is kept (MCP 2026-07-28, caching).
func shortLived(line []byte, result wire.Span) ([]wire.Edit, error) {
	scope, err := wire.Set(line, result, "cacheScope", []byte(`"private"`))
	if err != nil {
		return nil, err
	}
	old, err := wire.Member(line, result, "ttlMs")
	if err != nil {
		return nil, err
	}
	if ttl, err := strconv.ParseUint(string(old.Of(line)), 10, 64); err == nil && ttl <= maxTTL {
		return []wire.Edit{scope}, nil
	}
	ttl, err := wire.Set(line, result, "ttlMs", strconv.AppendInt(nil, maxTTL, 10))
	return []wire.Edit{scope, ttl}, err
}

// notVisible is why an element is withheld of which the agent may not know.
const notVisible = "not visible"

// unfit says why an element of a list of that kind is withheld whatever the
// rules say: a name that two things have, or none that can be told apart, names
// nothing that can be judged, and one with characters that are not seen is
// refused when it is used.
func unfit(kind string, e wire.Element) string {
	clear := mcp.ClearName
	if kind == "resources" {
		clear = mcp.ClearURI
	}
	switch {
	case e.Bad, !clear(e.ID):
		return "no clear name"
	case e.Twice:
		return "its name comes twice"
	}
	return ""
}

// Listener is told what the tools take that an agent is shown. Listed must not
// block, and is safe for concurrent use.
type Listener interface {
	// Listed is called with the tools of one page of a list; c is its result.
	Listed(c *Call, tools []Definition)
}

// Definition is a tool as a server lists it.
type Definition struct {
	Name        string
	InputSchema []byte // raw, nil when it gives none; valid during the call
}

// listed tells the listener of the tools in a list that is passed on. What is
// withheld from the agent is left out: it was not shown.
func (g *Gate) listed(c *Call, v *Verdict, kind string) {
	if g.Listener == nil || kind != "tools" {
		return
	}
	e := &c.Envelope
	if v.Replaced {
		e = &wire.Envelope{}
		if err := wire.Read(v.Line, c.Side, e); err != nil {
			g.Logger.Error("read what was filtered", "server_id", c.Server, "method", c.Method, "err", err)
			return
		}
	}
	member, _ := mcp.ListOf(c.Method)
	list, err := wire.ReadList(v.Line, e, member)
	if err != nil {
		return // in development it passes as it is
	}
	var tools []Definition
	for _, element := range list.Elements {
		if element.Bad || element.Twice {
			continue
		}
		schema, err := wire.Member(v.Line, element.Span, "inputSchema")
		if err == nil {
			tools = append(tools, Definition{Name: element.ID, InputSchema: schema.Of(v.Line)})
		}
	}
	if len(tools) > 0 {
		g.Listener.Listed(c, tools)
	}
}

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
