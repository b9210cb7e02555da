package gate

import (
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostURIs is how many resources one subscriptions/listen may name: each is
// judged by itself, and the shim waits.
const mostURIs = 1024

// weighListen weighs a subscriptions/listen. Resources that may not be read are
// cut out of it, and c is what is left; where nothing is, what refused the first
// of them refuses the whole. What was cut out stays out, whatever the rules say
// later.
func (g *Gate) weighListen(ctx context.Context, policy Policy, c *Call) weighed {
	items, uris, err := mcp.ListenURIs(&c.Envelope, c.Line)
	if err == nil && len(uris) > mostURIs {
		err = fmt.Errorf("it names more than %d resources", mostURIs)
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

// listenTo is c as if it named one resource and nothing else.
func (c *Call) listenTo(uri wire.Span) (*Call, error) {
	one := *c
	one.Line = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"_meta":%s,"notifications":{"resourceSubscriptions":[%s]}}}`,
		c.Seq, orEmpty(c.Envelope.Meta.Of(c.Line)), uri.Of(c.Line))
	one.Envelope = wire.Envelope{}
	return &one, wire.Read(one.Line, wire.FromAgent, &one.Envelope)
}

// listensToLists reports whether a subscriptions/listen asks for anything beside
// resources.
func (c *Call) listensToLists() bool {
	lists := false
	err := wire.Members(c.Line, c.Envelope.Notifications, func(name []byte, value wire.Span) error {
		lists = lists || string(name) != "resourceSubscriptions" && string(value.Of(c.Line)) == "true"
		return nil
	})
	return err == nil && lists
}
