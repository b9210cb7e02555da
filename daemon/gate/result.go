package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
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
	v := g.forwardResult(ctx, c, r, line)
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

// forwardResult lets line pass, which is what is left of the result c.
func (g *Gate) forwardResult(ctx context.Context, c *Call, r *record.Record, line []byte) Verdict {
	r.Verdict = "forward"
	replaced := !bytes.Equal(line, c.Line)
	if replaced {
		r.Digest = hexOf(sha256.Sum256(line))
	}
	if err := g.put(ctx, c, r, nil, nil); err != nil {
		return g.unrecorded(c, err)
	}
	return Verdict{Seq: c.Seq, Move: Forward, Line: line, Replaced: replaced}
}
