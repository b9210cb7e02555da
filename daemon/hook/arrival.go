package hook

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// A hook lets a call of a governed server pass, since the call is judged when it comes to the
// server. An agent may have another server of that name, to which the call goes instead: then it
// has run, and never came. An agent that asks its own user first may take any time, and never make
// the call, so it counts only if it says that the call has run.

const (
	// arrivalTimeout is how long a call that passed a hook may take to come to its server.
	arrivalTimeout = 30 * time.Second
	// askedTimeout is how long it is waited for one about which the agent may ask its user.
	askedTimeout = 24 * time.Hour
	// maxAwaited is the maximum number of calls of all agents that are waited for. Others are judged
	// at the hook as well.
	maxAwaited = 1024
)

// asksNobody is the permission mode in which an agent asks nobody, and makes each call.
const asksNobody = "bypassPermissions"

// awaited is a call that a hook has let pass.
type awaited struct {
	agent        *agent
	id           string // the agent's id of the call; may be empty
	server, tool string // as the agent calls them

	came chan struct{} // closed when the gate has the call
	ran  chan struct{} // closed when the agent says that the call has run
}

// arrivals are the calls that are waited for. It is safe for concurrent use.
type arrivals struct {
	mu  sync.Mutex // guards all
	all []*awaited // oldest first
}

// take removes the oldest call that fits, and calls f with it.
func (in *arrivals) take(fits func(*awaited) bool, f func(*awaited)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i := slices.IndexFunc(in.all, fits); i >= 0 {
		f(in.all[i])
		in.all = slices.Delete(in.all, i, i+1)
	}
}

// awaits waits for a call to come to its server, and reports false if too many are waited for.
func (a *agent) awaits(e *agenthook.Event, call *agenthook.Call) bool {
	w := &awaited{agent: a, id: e.ID, server: call.Server, tool: call.MCPTool, came: make(chan struct{}), ran: make(chan struct{})}
	in := &a.registry.arrivals
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.all) >= maxAwaited {
		return false
	}
	in.all = append(in.all, w)
	a.registry.wait.Go(func() { a.await(w, e.Mode == asksNobody) })
	return true
}

// await waits for w, and warns if it does not come. promptly says that nobody is asked first.
func (a *agent) await(w *awaited, promptly bool) {
	timeout := askedTimeout
	if promptly {
		timeout = arrivalTimeout
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	missing := promptly
	select {
	case <-w.came:
	case <-w.ran:
		missing = true
	case <-late.C:
	case <-a.life.Done():
	}
	select {
	case <-w.came:
		missing = false
	default:
	}
	a.registry.arrivals.take(func(other *awaited) bool { return other == w }, func(*awaited) {})
	if missing && a.registry.ctx.Err() == nil {
		what := shortened(a.registry.Redact(w.server + "/" + w.tool))
		a.warn("unjudged", Unseen{Count: 1, Calls: []string{what}, Text: "passed at the hook, never came to its server: `" + what + "`"})
	}
}

// Arrived notes that a call has come to the gate.
func (r *Registry) Arrived(c *gate.Call) {
	r.arrivals.take(func(w *awaited) bool {
		return c.Session != "" && w.agent.joined.Shim.Session == c.Session && w.server == c.Server && isNamed(w.tool, c.Subject)
	}, func(w *awaited) { close(w.came) })
}

// ran notes that the agent says that a call has run.
func (a *agent) ran(e *agenthook.Event) {
	call, err := a.contract.Call(e)
	if err != nil || call.Tool != agenthook.MCP {
		return
	}
	a.registry.arrivals.take(func(w *awaited) bool {
		return w.agent == a && w.id == e.ID && w.server == call.Server && w.tool == call.MCPTool
	}, func(w *awaited) { close(w.ran) })
}

// isNamed reports whether an agent may call a server's tool so: some replace what their models'
// interfaces don't allow in a name.
func isNamed(agents, servers string) bool {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}
	return strings.Map(plain, agents) == strings.Map(plain, servers)
}
