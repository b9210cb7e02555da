package gate

import (
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

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
	if g.Listener == nil || kind != "tools" || v.Move != Forward {
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
