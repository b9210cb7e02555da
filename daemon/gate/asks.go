package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What a server asks of the agent or its user comes as a request of its own in
// the legacy era. In the modern one it lies inside of an answer: in inputRequests
// of a result, and of what is told of a task. And in both it may come as the error
// that wants somebody to visit a page first. Each ask is judged as the request
// that it could have been; the answer is let through as it is, or not at all.

// inputRequired is the resultType of an answer that asks for something.
const inputRequired = "input_required"

// mostAsks is how many asks one answer may carry: each is judged by itself, and a
// person has to read them all.
const mostAsks = 64

var errTooManyAsks = fmt.Errorf("there are more than %d", mostAsks)

// carriesAsks reports whether c is a message in which asks may lie.
func (c *Call) carriesAsks() bool {
	switch c.Envelope.Kind {
	case wire.Result, wire.Error:
		return true
	case wire.Notification:
		return mcp.Lookup(c.Side, &c.Envelope).Treatment == mcp.Inspect || c.Side == wire.FromServer && c.Envelope.InputRequests.Present()
	}
	return false
}

// weighAsks weighs what c asks. The first ask that may not pass decides. If some
// need a person, all of them are one question: the answer crosses whole, so
// whoever says yes has to see all that is in it.
func (g *Gate) weighAsks(ctx context.Context, policy Policy, c *Call) weighed {
	asks, err := c.asks()
	if err != nil {
		return weighed{ruling: accident(err)}
	}
	w := weighed{ruling: Ruling{Move: Forward, Gate: "rule"}, shown: c.together(asks)}
	for _, ask := range asks {
		facts, ruling := g.rule(ctx, policy, ask)
		w.facts = append(w.facts, facts...)
		switch ruling.Move {
		case Deny:
			w.ruling = ruling
			return w
		case Ask:
			if w.ruling.Move == Forward {
				w.ruling = ruling
			} else if err := w.ruling.join(ruling); err != nil {
				w.ruling = Ruling{Move: Deny, Gate: "ask", Rule: ruling.Rule, Code: mcp.CodeRule, Reason: err.Error()}
				return w
			}
		}
	}
	return w
}

// join makes one question of two to the same people.
func (r *Ruling) join(other Ruling) error {
	if r.Workflow != other.Workflow || r.Basis.Workflow != other.Basis.Workflow || !slices.Equal(r.Surfaces, other.Surfaces) {
		return fmt.Errorf("the server asks several things at once, about which different people have to be asked (%s, %s)", r.Workflow, other.Workflow)
	}
	if !strings.Contains(r.Reason, other.Reason) {
		r.Reason += "; " + other.Reason
	}
	if r.Rule != other.Rule && !slices.Contains(strings.Split(r.Rule, ", "), other.Rule) {
		r.Rule += ", " + other.Rule
	}
	switch {
	case r.By == "":
		r.By = other.By
	case other.By != "" && !slices.Contains(strings.Split(r.By, ", "), other.By):
		r.By += ", " + other.By
	}
	for _, id := range other.Policies {
		if !slices.Contains(r.Policies, id) {
			r.Policies = append(slices.Clip(r.Policies), id)
		}
	}
	if r.Basis.Rule != other.Basis.Rule {
		r.Basis.Rule = sha256.Sum256(slices.Concat(r.Basis.Rule[:], other.Basis.Rule[:]))
	}
	r.Timeout = min(r.Timeout, other.Timeout)
	if r.Unable == "" {
		r.Unable = other.Unable
	}
	if other.Level.Stricter(r.Level) {
		r.Level = other.Level
	}
	return nil
}

// asks returns what c asks, each as if the server had sent it as a request.
func (c *Call) asks() ([]*Call, error) {
	if c.Envelope.Kind == wire.Error {
		return c.pages()
	}
	e := &c.Envelope
	kind, err := "", error(nil)
	if e.ResultType.Present() {
		if kind, err = wire.Unquote(e.ResultType, c.Line); err != nil {
			return nil, fmt.Errorf("the server's result has a type that can't be read: %w", err)
		}
	}
	switch kind {
	case "", "complete", inputRequired, "task":
	default:
		return nil, fmt.Errorf("the server's result is of the unknown type %q", kind)
	}
	if member, _ := mcp.ListOf(c.Method); member != "" {
		list, err := wire.Member(c.Line, e.Result, member)
		if err != nil || list.Present() && string(list.Of(c.Line)) != "null" {
			return nil, fmt.Errorf("the server's result is a list of %s and asks for something", member)
		}
	}
	if mcp.AsksWithin(c.Line, e, c.Method) {
		return nil, errors.New("the server's result holds another one that asks for something")
	}
	if !e.InputRequests.Present() {
		return nil, nil
	}
	var asks []*Call
	err = wire.Members(c.Line, e.InputRequests, func(_ []byte, value wire.Span) error {
		if len(asks) == mostAsks {
			return errTooManyAsks
		}
		method, err := wire.Member(c.Line, value, "method")
		if err != nil {
			return err
		}
		params, err := wire.Member(c.Line, value, "params")
		if err != nil {
			return err
		}
		ask, err := c.inside(method.Of(c.Line), params.Of(c.Line))
		asks = append(asks, ask)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the server's questions can't be read: %w", err)
	}
	return asks, nil
}

// pages returns the pages that somebody is to visit before the call that the
// error c answers is made again.
func (c *Call) pages() ([]*Call, error) {
	if c.Envelope.Code != mcp.CodeURLRequired {
		return nil, nil
	}
	data, err := wire.Member(c.Line, c.Envelope.Error, "data")
	if err != nil || !data.Present() {
		return nil, err
	}
	array, err := wire.Member(c.Line, data, "elicitations")
	if err != nil || !array.Present() {
		return nil, err
	}
	items, err := wire.Elements(c.Line, array)
	if len(items) > mostAsks {
		return nil, fmt.Errorf("the server's questions can't be read: %w", errTooManyAsks)
	}
	var pages []*Call
	for _, item := range items {
		mode, err := wire.Member(c.Line, item, "mode")
		if err != nil {
			return nil, fmt.Errorf("the server's questions can't be read: %w", err)
		}
		// Whoever reads such an error opens what is in it, whatever that calls itself.
		if text, err := wire.Unquote(mode, c.Line); err != nil || text != "url" {
			return nil, fmt.Errorf("the server's error has a question that leads to no page")
		}
		page, err := c.inside([]byte(`"elicitation/create"`), item.Of(c.Line))
		if err != nil {
			return nil, fmt.Errorf("the server's questions can't be read: %w", err)
		}
		pages = append(pages, page)
	}
	return pages, err
}

// inside makes a call of a question inside an answer, as if the server had sent
// it as a request of its own. method and params are raw; params may be nil.
func (c *Call) inside(method, params []byte) (*Call, error) {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%s`, c.Seq, method)
	if params != nil {
		line = fmt.Appendf(line, `,"params":%s`, params)
	}
	ask := *c
	ask.Line = append(line, '}')
	ask.Envelope = wire.Envelope{}
	if err := wire.Read(ask.Line, wire.FromServer, &ask.Envelope); err != nil {
		return nil, err
	}
	ask.Method, ask.Subject = ask.Envelope.Method, ""
	return &ask, nil
}

// together is what a person is shown of several asks: each with its method and
// its params, under the names of all methods.
func (c *Call) together(asks []*Call) *Call {
	switch len(asks) {
	case 0:
		return c
	case 1:
		return asks[0]
	}
	all := *asks[0]
	var methods []string
	var params bytes.Buffer
	for i, ask := range asks {
		if !slices.Contains(methods, ask.Method) {
			methods = append(methods, ask.Method)
		}
		if i > 0 {
			params.WriteByte(',')
		}
		fmt.Fprintf(&params, `"%d":{"method":%q,"params":%s}`, i+1, ask.Method, orEmpty(ask.Params()))
	}
	all.Method = strings.Join(methods, ", ")
	all.Line = fmt.Appendf(nil, `{"params":{%s}}`, &params)
	all.Envelope = wire.Envelope{Params: wire.Span{Start: len(`{"params":`), End: len(all.Line) - 1}}
	return &all
}

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("{}")
	}
	return params
}
