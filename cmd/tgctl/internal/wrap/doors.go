package wrap

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// An agent acts through two doors: the tools of MCP servers, and tools of its own.
const (
	doorMCP   = "mcp"
	doorTools = "tools"
)

// doors says which doors of an agent are to be governed.
type doors struct {
	only     string // one of the doors; empty for both
	unproven bool
	one      bool // for one session only
}

func (d *doors) flags(flags *pflag.FlagSet) {
	flags.StringVar(&d.only, "only", "", "govern only `DOOR`: mcp (the servers' tools) or tools (the agent's own)")
	flags.BoolVar(&d.unproven, "unproven", false, "govern the agent's own tools even if that was not proven with this agent: it may lock you out of them")
}

func (d *doors) check() error {
	if d.only != "" && d.only != doorMCP && d.only != doorTools {
		return fmt.Errorf("--only must be mcp or tools, not %q", d.only)
	}
	return nil
}

// choose sets the doors in the environment of an agent. The agent's own tools are left alone if
// nobody has seen the real agent obey a hook, since an entry that it takes in another way locks a
// person out of every tool.
func (d *doors) choose(agent agentconf.Agent, env *agentconf.Env) error {
	c := agentconf.HookContract(agent, *env)
	switch {
	case d.only == doorMCP:
		return nil
	case d.one && d.only == "" && !d.unproven && agentconf.IsTold(agent):
		return nil // hooks would need a file, and a file can be held by one session only
	case c != nil && (c.Proven || d.unproven):
		env.Tools = true
	case d.only == "":
		return nil
	case env.Config != "":
		return fmt.Errorf("the own tools of %s are governed by a file of its own; leave out --config-path", agent.Name())
	case c == nil:
		return fmt.Errorf("the own tools of %s can't be governed: no hooks are known that it runs before it uses one", agent.Name())
	default:
		return fmt.Errorf("that %s obeys a hook was not proven with the real agent; to govern its own tools nevertheless, add --unproven", agent.Name())
	}
	env.NoServers = d.only == doorTools
	return nil
}

// unseen says what the gate does not see of an agent's own tools; empty if nothing is known.
func unseen(agent string) string {
	if c := agenthook.Of(agent); c != nil && len(c.Unseen) > 0 {
		return "not seen: " + strings.Join(c.Unseen, ", ")
	}
	return ""
}
