package sampling

import (
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// box holds the tools of extensions that a model may use for one answer.
type box struct {
	clients []*client
	tools   map[string]*client // by the name of the tool
}

// open offers r the tools that the globs name, as far as the agent itself could
// see them. A tool whose name another one has already is left out.
func (a *Answerer) open(ctx context.Context, c *gate.Call, globs []config.Glob, r *request) (*box, error) {
	b := &box{tools: map[string]*client{}}
	if len(globs) == 0 || r.required {
		return b, nil
	}
	for _, o := range a.Extensions.Offers() {
		named := func(t string) bool {
			return slices.ContainsFunc(globs, func(g config.Glob) bool { return g.Match(o.Name + "/" + t) })
		}
		if !slices.ContainsFunc(o.Tools(), func(t protocol.Tool) bool { return named(t.Name) }) {
			continue
		}
		cl, err := a.attach(ctx, c, o)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("attach to the tools of %s: %w", o.Name, err)
		}
		b.clients = append(b.clients, cl)
		tools, err := cl.list(ctx)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("list the tools of %s: %w", o.Name, err)
		}
		for _, t := range tools {
			switch {
			case !named(t.Name):
			case b.tools[t.Name] != nil || slices.Contains(r.theirs, t.Name):
				a.Logger.Warn("a tool is left out, since another one has its name", "extension", o.Name, "tool", t.Name)
			default:
				b.tools[t.Name] = cl
				r.Tools = append(r.Tools, t)
			}
		}
	}
	return b, nil
}

// Call implements provider.Tools.
func (b *box) Call(ctx context.Context, name string, input []byte) (string, bool) {
	return b.tools[name].call(ctx, name, input)
}

var _ provider.Tools = (*box)(nil)

func (b *box) close() {
	for _, c := range b.clients {
		c.close()
	}
}
