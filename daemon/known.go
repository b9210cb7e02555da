package daemon

import (
	"context"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// known returns what policies may know of the agent that makes a call, as the system sees it. What
// takes time to determine was determined when the shim attached.
func (d *Daemon) known(c *gate.Call) policy.Known {
	k := policy.Known{User: d.user, Annotations: d.pins.Annotations(c)}
	agent, ok := d.sessions.Known(c.Attachment)
	if !ok {
		return k // no shim is attached: a person asks how a call would be judged
	}
	k.Executable, k.Cwd, k.TTY, k.Project, k.Hash = agent.Executable, agent.Cwd, agent.TTY, agent.Project, agent.Hash
	k.Calls, k.Seconds, k.Servers = agent.Calls, max(0, int64(c.Received.Sub(agent.Since)/time.Second)), agent.Servers
	return k
}

// seen returns the ids of the servers that have listed definitions to this daemon or a previous
// one. It returns nil if there are none; then no server can be called unknown.
func (d *Daemon) seen() []string {
	launches, err := d.store.Launches(context.Background()) // local and fast
	if err != nil {
		d.log.Warn("rules about unseen servers can't be reported", "err", err)
	}
	var ids []string
	for _, l := range launches {
		ids = append(ids, l.Server)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// owner returns the name of the user that the daemon runs as. Nobody else can reach its sockets.
func owner() string {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// listed checks new and changed tools against the set in force. Calls of a tool that a policy does
// not fit are denied; listed logs that before the first call.
func (d *Daemon) listed(tools []*shape.Tool) {
	set := d.policies.current.Load().set
	for _, t := range tools {
		for _, r := range set.Check(t) {
			d.log.Warn("calls of a tool are denied because a policy does not fit it",
				"server_id", t.Server, "tool", t.Name, "policy", r.Policy, "at", r.Place.String(), "reason", r.Reason)
		}
	}
}
