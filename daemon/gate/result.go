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

// result removes from a server's list what the agent may not know of. As with judge, the time
// is limited, and there is no verdict if ctx ends first.
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
	r.Verdict = record.Forward
	v := Verdict{Seq: c.Seq, Move: Forward, Line: line, Replaced: !bytes.Equal(line, c.Line)}
	if v.Replaced {
		r.Digest = hexOf(sha256.Sum256(line))
	}
	if err := g.Recorder.Record(ctx, r, nil, nil); err != nil {
		return g.unrecorded(c, err)
	}
	g.logVerdict(ctx, c, r)
	g.listed(c, &v, kind)
	return v
}

// list returns the line of the list c without what the agent may not know of, and notes in r
// what was removed. Every other byte stays, so that an unfiltered page arrives as it was sent.
func (g *Gate) list(ctx context.Context, a *Attachment, policy Policy, c *Call, r *record.Record) ([]byte, error) {
	limited, timeout := g.timeouts.context(ctx)
	defer timeout.end()
	member, kind := mcp.ListOf(c.Method)
	list, err := wire.ReadList(c.Line, &c.Envelope, member)
	if err != nil {
		return nil, fmt.Errorf("the server's list can't be read (%w)", err)
	}
	why, err := withheld(limited, policy, c, kind, list.Elements)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	held, facts, err := g.withholdPinned(context.WithoutCancel(ctx), c, &list, why)
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
	if c.Modern { // the agent must not keep a list that a reload may change
		short, err := shortLived(c.Line, c.Envelope.Result)
		if err != nil {
			return nil, err
		}
		edits = append(edits, short...)
	}
	return wire.Splice(c.Line, edits...)
}

// withheld returns for each element of a list why the agent may not know of it, or "" if it
// may. It fails if ctx ends.
func withheld(ctx context.Context, policy Policy, c *Call, kind string, elements []wire.Element) ([]string, error) {
	why := make([]string, len(elements))
	for i, e := range elements {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the server's list is too long: it could not be filtered within %v", judgeTimeout)
		}
		if why[i] = unfit(kind, e); why[i] == "" && !policy.Visible(c, kind, e.ID) {
			why[i] = notVisible
		}
	}
	return why, nil
}

// maxTTL is how long, in milliseconds, a client of the modern era may keep a filtered list.
const maxTTL = 60_000

// shortLived returns the edits that keep a filtered list out of shared caches and limit how
// long it is kept (MCP 2026-07-28, caching).
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

// notVisible is why an element that the agent may not know of is withheld.
const notVisible = "not visible"

// unfit returns why an element of a list of that kind is withheld whatever the rules decide. A
// name that two elements have, or a missing one, identifies nothing that can be judged. A name
// with invisible characters would be refused on use.
func unfit(kind string, e wire.Element) string {
	clear := mcp.ClearName
	if kind == "resources" {
		clear = mcp.ClearURI
	}
	switch {
	case e.Bad, !clear(e.ID):
		return "invalid name"
	case e.Twice:
		return "duplicate name"
	}
	return ""
}

// Listener receives the tools that an agent is shown. Listed must not block, and is safe for
// concurrent use.
type Listener interface {
	// Listed is called with the tools of one page of a list. c is the result that holds them.
	Listed(c *Call, tools []Definition)
}

// Definition is a tool as a server lists it.
type Definition struct {
	Name        string
	InputSchema []byte // raw; nil if there is none; valid during the call
}

// listed passes the tools in a forwarded list to the listener. Tools withheld from the agent
// are left out, since they were not shown.
func (g *Gate) listed(c *Call, v *Verdict, kind string) {
	if g.Listener == nil || kind != "tools" {
		return
	}
	e := &c.Envelope
	if v.Replaced {
		e = &wire.Envelope{}
		if err := wire.Read(v.Line, c.Side, e); err != nil {
			g.Logger.Error("read the filtered list", "server_id", c.Server, "method", c.Method, "err", err)
			return
		}
	}
	member, _ := mcp.ListOf(c.Method)
	list, err := wire.ReadList(v.Line, e, member)
	if err != nil {
		return // in development it passes unchanged
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

// Pins knows each tool's accepted definition, per server and launch. Its methods are safe for
// concurrent use.
type Pins interface {
	// Listed compares what the server of c has listed with what was accepted. c is the result
	// of a list method. Listed returns one Pinned for each element, in the same order. An
	// error means that the definitions could not be stored: then nothing of the list may be
	// shown.
	Listed(ctx context.Context, c *Call, offered []Offered) ([]Pinned, error)
	// Of returns the definition that a call is made under.
	Of(c *Call) Pinned
	// Holds reports whether the named element is withheld from the list that method returns.
	// Of c, only the caller and the server matter.
	Holds(c *Call, method, name string) bool
	// Relist reports that the server of an attachment has announced a change of the list that
	// method returns.
	Relist(attachment, method string)
	// Left forgets an attachment that will not come back.
	Left(attachment string)
}

// Offered is one element of a list, as the server sent it.
type Offered struct {
	Name  string // the name under which it is requested
	Raw   []byte // the whole element as it stands in the list; valid during the call
	Unfit string // why it is withheld whatever it holds; usually empty

	// Hidden says that the agent may not know of the element. Only its presence in the list is
	// recorded.
	Hidden bool
}

// Pinned is what is known of one definition.
type Pinned struct {
	Digest [32]byte // SHA-256 over its raw bytes; zero if no list has shown it
	Held   string   // why it is withheld until a person has reviewed it, for a model and a person; empty: it is not
	Final  bool     // Held, and a review does not help: nothing is called by that name
	Facts  []Fact   // changed, suspicious; for a call also unlisted, and acts if its definition says so
}

// gatePin is the gate that records name when a definition is the reason of a denial. It is a
// part of the gate visible, but the agent is told why, since it may know of the tool.
const gatePin = "pin"

// pinned returns the definition that c is made under. If that differs from the one c began
// with, because c waited for a person meanwhile, it is withheld: the approval was for a call
// of something else.
func (g *Gate) pinned(c *Call) Pinned {
	if g.Pins == nil || c.Side != wire.FromAgent {
		return Pinned{}
	}
	p := g.Pins.Of(c)
	switch {
	case c.Definition == [32]byte{}:
		c.Definition = p.Digest
	case p.Held == "" && p.Digest != c.Definition:
		p.Held = "the definition of what it calls changed while it waited; read the definition again and repeat the call"
	}
	return p
}

// over returns the ruling on a call whose definition may be withheld, when the policy ruled r.
// It does not reveal what the agent may not know of.
func (p Pinned) over(r Ruling) Ruling {
	if p.Held == "" || r.Hidden {
		return r
	}
	if p.Final {
		return Ruling{Move: Deny, Gate: "rule", Rule: "built in: names", Code: mcp.CodeRule, Reason: p.Held, Redact: r.Redact}
	}
	return Ruling{Move: Deny, Gate: gatePin, Rule: "built in: pins", Code: mcp.CodeRule, Reason: p.Held, Redact: r.Redact}
}

// withholdPinned compares the elements of a list with their pins. why gives for each element why it is
// withheld already, and hold sets it for the elements that the pins withhold. It reports
// whether there are any, and the facts of all elements.
func (g *Gate) withholdPinned(ctx context.Context, c *Call, list *wire.List, why []string) (held bool, facts []string, err error) {
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
		return false, nil, fmt.Errorf("the definitions could not be compared with the accepted ones: %w", err)
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
