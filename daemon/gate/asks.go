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

// A server's request to the agent or its user is called an ask. In the legacy era it is a
// request of its own. In the modern era it is part of an answer: in inputRequests of a result
// or of a task notification. In both eras it may also be an error that requires the user to
// visit a page first. Each ask is judged as the equivalent request. The answer is forwarded
// whole or not at all.

// inputRequired is the resultType of an answer that carries asks.
const inputRequired = "input_required"

// maxAsks is how many asks one answer may carry: each is judged separately, and a person has
// to read them all.
const maxAsks = 64

var errTooManyAsks = fmt.Errorf("more than %d", maxAsks)

// carriesAsks reports whether c is a message that may carry asks.
func (c *Call) carriesAsks() bool {
	switch c.Envelope.Kind {
	case wire.Result, wire.Error:
		return true
	case wire.Notification:
		return mcp.Lookup(c.Side, &c.Envelope).Treatment == mcp.Inspect || c.Side == wire.FromServer && c.Envelope.InputRequests.Present()
	}
	return false
}

// weighAsks judges the asks in c. The first ask that is denied decides. If several need a
// person, they become one question: the answer is forwarded whole, so the approver must see
// all of it.
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

// join merges two questions for the same people into one.
func (r *Ruling) join(other Ruling) error {
	if r.Workflow != other.Workflow || r.Basis.Workflow != other.Basis.Workflow || !slices.Equal(r.Surfaces, other.Surfaces) {
		return fmt.Errorf("the server asks several things at once, and their workflows differ (%s, %s)", r.Workflow, other.Workflow)
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

// asks returns the asks in c, each as if the server had sent it as a request.
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
		return nil, fmt.Errorf("the server's result has the unknown type %q", kind)
	}
	if member, _ := mcp.ListOf(c.Method); member != "" {
		list, err := wire.Member(c.Line, e.Result, member)
		if err != nil || list.Present() && string(list.Of(c.Line)) != "null" {
			return nil, fmt.Errorf("the server's result is a list of %s and carries a question", member)
		}
	}
	if mcp.AsksWithin(c.Line, e, c.Method) {
		return nil, errors.New("the server's result contains another result that carries a question")
	}
	if !e.InputRequests.Present() {
		return nil, nil
	}
	var asks []*Call
	err = wire.Members(c.Line, e.InputRequests, func(_ []byte, value wire.Span) error {
		if len(asks) == maxAsks {
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

// pages returns the pages that the user must visit before the agent repeats the call that the
// error c answers.
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
	if len(items) > maxAsks {
		return nil, fmt.Errorf("the server's questions can't be read: %w", errTooManyAsks)
	}
	var pages []*Call
	for _, item := range items {
		mode, err := wire.Member(c.Line, item, "mode")
		if err != nil {
			return nil, fmt.Errorf("the server's questions can't be read: %w", err)
		}
		// A client that reads such an error opens the page, whatever mode the entry declares.
		if text, err := wire.Unquote(mode, c.Line); err != nil || text != "url" {
			return nil, fmt.Errorf("the server's error carries a question without a page")
		}
		page, err := c.inside([]byte(`"elicitation/create"`), item.Of(c.Line))
		if err != nil {
			return nil, fmt.Errorf("the server's questions can't be read: %w", err)
		}
		pages = append(pages, page)
	}
	return pages, err
}

// inside returns a call for an ask inside an answer, as if the server had sent it as a
// request. method and params are raw; params may be nil.
func (c *Call) inside(method, params []byte) (*Call, error) {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%s`, c.Seq, method)
	if params != nil {
		line = fmt.Appendf(line, `,"params":%s`, params)
	}
	ask, err := c.as(wire.FromServer, append(line, '}'))
	ask.Method, ask.Subject = ask.Envelope.Method, ""
	return ask, err
}

// as returns a copy of c with a line that side wrote.
func (c *Call) as(side wire.Side, line []byte) (*Call, error) {
	other := *c
	other.Line, other.Envelope = line, wire.Envelope{}
	return &other, wire.Read(line, side, &other.Envelope)
}

// together returns what a person is shown of several asks: the method and params of each,
// under the names of all methods.
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

// rulePage is the rule name of denials because of a page's address.
const rulePage = "built in: pages"

// page denies what c asks if it would send the user to a page whose address no agent should
// open, whatever the rules decide: the program that opens it may be a shell, and the address
// that the user sees may be another one.
func (c *Call) page(r Ruling) Ruling {
	if c.Method != "elicitation/create" || c.Side != wire.FromServer || r.Move == Deny {
		return r
	}
	err := c.checkPage()
	if err == nil {
		return r
	}
	return Ruling{
		Move: Deny, Gate: "rule", Rule: rulePage, Code: mcp.CodeRule, Redact: r.Redact,
		Reason: fmt.Sprintf("the server wants the user to visit a page, and %v", err),
	}
}

// checkPage returns what is wrong with the page of an elicitation, or nil. An elicitation with
// an address leads there, whatever mode it declares.
func (c *Call) checkPage() error {
	e := &c.Envelope
	address, err := wire.Member(c.Line, e.Params, "url")
	if e.Params.Present() && err != nil {
		return errors.New("its address is given twice")
	}
	if !address.Present() {
		if mode, err := wire.Unquote(e.Mode, c.Line); e.Mode.Present() && (err != nil || mode != "form") {
			return errors.New("its address is missing")
		}
		return nil
	}
	text, err := wire.Unquote(address, c.Line)
	if err != nil {
		return errors.New("its address is not a string")
	}
	return mcp.CheckPage(text)
}

// maxURIs is how many resources one subscriptions/listen may name: each is judged separately
// while later lines wait.
const maxURIs = 1024

// weighListen judges a subscriptions/listen. Resources that may not be read are removed from
// c. If nothing is left, the first denial denies the whole. What was removed stays removed,
// even if the rules change later.
func (g *Gate) weighListen(ctx context.Context, policy Policy, c *Call) weighed {
	items, uris, err := mcp.ListenURIs(&c.Envelope, c.Line)
	if err == nil && len(uris) > maxURIs {
		err = fmt.Errorf("it names more than %d resources", maxURIs)
	}
	if err != nil {
		return weighed{ruling: accident(err), shown: c}
	}
	refused := map[int]Ruling{}
	var first weighed
	for i := range items {
		one, err := c.listenTo(items[i])
		if err != nil {
			return weighed{ruling: accident(err), shown: c}
		}
		if facts, ruling := g.rule(ctx, policy, one); ruling.Move == Deny {
			if len(refused) == 0 {
				first = weighed{facts, ruling, c}
			}
			refused[i] = ruling
		}
	}
	if len(refused) > 0 {
		if len(refused) == len(items) && !c.listensToLists() {
			return first
		}
		if err := c.splice(items.Cut(func(i int) bool { _, no := refused[i]; return no })...); err != nil {
			return weighed{ruling: accident(err), shown: c}
		}
		for i, uri := range uris {
			if ruling, no := refused[i]; no {
				c.withheld = append(c.withheld, fmt.Sprintf("%q (%s)", uri, ruling.Reason))
			}
		}
	}
	facts, ruling := g.rule(ctx, policy, c)
	if ruling.Move == Forward && len(c.withheld) > 0 {
		ruling.Reason = "withheld " + strings.Join(c.withheld, ", ")
	}
	return weighed{facts, ruling, c}
}

// listenTo returns a copy of c that names one resource and nothing else.
func (c *Call) listenTo(uri wire.Span) (*Call, error) {
	return c.as(wire.FromAgent, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"_meta":%s,"notifications":{"resourceSubscriptions":[%s]}}}`,
		c.Seq, orEmpty(c.Envelope.Meta.Of(c.Line)), uri.Of(c.Line)))
}

// listensToLists reports whether a subscriptions/listen asks for anything besides resources.
func (c *Call) listensToLists() bool {
	lists := false
	err := wire.Members(c.Line, c.Envelope.Notifications, func(name []byte, value wire.Span) error {
		lists = lists || string(name) != "resourceSubscriptions" && string(value.Of(c.Line)) == "true"
		return nil
	})
	return err == nil && lists
}
