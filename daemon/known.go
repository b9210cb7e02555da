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

// known tells policies who makes a call, as the system sees it. What it takes
// time to find out was found out when the shim joined.
func (d *Daemon) known(c *gate.Call) policy.Known {
	k := policy.Known{User: d.user, Annotations: d.pins.Annotations(c)}
	agent, ok := d.sessions.Known(c.Attachment)
	if !ok {
		return k // nobody has joined: a person asks what would be said of a call
	}
	k.Executable, k.Cwd, k.TTY, k.Project, k.Hash = agent.Executable, agent.Cwd, agent.TTY, agent.Project, agent.Hash
	k.Calls, k.Seconds, k.Servers = agent.Calls, max(0, int64(c.Received.Sub(agent.Since)/time.Second)), agent.Servers
	return k
}

// seen lists the ids of the servers that have listed something to this daemon or
// to one before it; nil when none has: then nothing can be said of any.
func (d *Daemon) seen() []string {
	launches, err := d.store.Launches(context.Background()) // it is local, and takes a moment
	if err != nil {
		d.log.Warn("rules about servers that nobody has seen can't be pointed out", "err", err)
	}
	var ids []string
	for _, l := range launches {
		ids = append(ids, l.Server)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// owner is the user that the daemon serves: who runs it, since nobody else can
// reach its sockets.
func owner() string {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// listed holds tools that are new or changed to the set in force. One that a
// policy doesn't fit is refused from its first call on; here it is said aloud.
func (d *Daemon) listed(tools []*shape.Tool) {
	set := d.policies.current.Load().set
	for _, t := range tools {
		for _, r := range set.Check(t) {
			d.log.Warn("calls of a tool are refused, since a policy doesn't fit it",
				"server_id", t.Server, "tool", t.Name, "policy", r.Policy, "at", r.Place.String(), "reason", r.Reason)
		}
	}
}
