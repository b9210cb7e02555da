package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var errGone = errors.New("the server has ended")

// lost handles the end of t: requests that were sent and not answered are answered with an error.
func (in *instance) lost(t *talk) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.talk != t {
		return
	}
	in.talk, in.ready, in.level = nil, false, 0
	if in.greeting != nil {
		in.greeting.told = false
	}
	for _, a := range in.asks {
		delete(a.m.asks, a.id)
		in.deliver(a.m, fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the server has ended"}}`, a.id))
	}
	clear(in.asks)
	for _, m := range in.members {
		m.tasks = nil
	}
	clear(in.tasks)
	clear(in.clientTasks)
	clear(in.elicitations)
	for _, n := range slices.Sorted(maps.Keys(in.open)) {
		r := in.open[n]
		if r == nil {
			continue
		}
		if r.cancelled && r.done == nil {
			r.m = nil // no answer is needed
		}
		in.fail(r, mcp.CodeServerExit, "The shared MCP server ended before it answered and is started again. The request may have been executed.")
	}
	maps.DeleteFunc(in.tokens, func(n int64, _ *token) bool {
		return !slices.ContainsFunc(in.waiting, func(r *request) bool { return r.number == n })
	})
	in.wake()
}

// part removes m from the instance: its requests to the server are cancelled, the server's requests
// to it are answered with an error, and its subscriptions are ended. mu must be held; so must the
// pool's mu, unless m is being removed for good.
func (in *instance) part(m *Member, why string) {
	at := slices.Index(in.members, m)
	if at < 0 {
		return
	}
	in.members = slices.Delete(in.members, at, at+1)
	if len(in.members) == 0 {
		in.idle = time.Now()
	}
	for _, r := range in.waitingOf(m) {
		in.withdraw(r)
	}
	for _, r := range in.open {
		if r.m == m {
			if !r.cancelled && in.withdraw(r) && in.talk != nil {
				in.talk.push(fmt.Appendf(nil,
					`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, r.number, why))
			}
			r.m = nil
		}
	}
	for _, r := range m.open { // those that wait for another client's request
		r.cancelled, r.m = true, nil
	}
	clear(m.open)
	for _, a := range m.asks {
		if !a.ours {
			delete(in.asks, a.key)
		}
		if in.talk != nil && !a.ours {
			in.talk.push(mcp.RefuseUnread(a.raw, mcp.CodeInternal, "The client has left"))
		}
	}
	clear(m.asks)
	for _, id := range m.tasks {
		in.forgetTask(id)
	}
	for _, owners := range []map[string]*Member{in.clientTasks, in.elicitations} {
		maps.DeleteFunc(owners, func(_ string, owner *Member) bool { return owner == m })
	}
	in.leaveTopics(m)
	in.updateServerLevel()
	in.pump()
	in.wake()
}

func (in *instance) waitingOf(m *Member) []*request {
	return slices.DeleteFunc(slices.Clone(in.waiting), func(r *request) bool { return r.m != m })
}

// runTimers does the timed work of the instance until ctx ends or the instance has been idle for
// long enough.
func (in *instance) runTimers(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, idle, movers := in.runDueWork(time.Now())
		in.notifyDepartures()
		for _, m := range movers {
			in.pool.moveToMatchingProcess(m)
		}
		if idle && in.pool.retire(in) {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-in.kick:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// runDueWork does what is due at now and returns when it must be called next. idle reports that the
// instance has had no members for long enough. movers are the members to move to another process.
func (in *instance) runDueWork(now time.Time) (next time.Time, idle bool, movers []*Member) {
	in.mu.Lock()
	defer in.mu.Unlock()
	next = now.Add(time.Hour)
	soon := func(t time.Time) bool {
		if t.After(now) {
			if t.Before(next) {
				next = t
			}
			return false
		}
		return true
	}
	settled := 0
	for _, r := range in.cancelled {
		if r.counted && soon(r.settled) {
			in.settle(r)
		}
		if !r.counted {
			settled++
		}
	}
	in.cancelled = slices.DeleteFunc(in.cancelled, func(r *request) bool {
		if r.counted || settled <= maxOpenRequests {
			return false
		}
		settled-- // a late answer is dropped
		delete(in.open, r.number)
		return true
	})
	for _, r := range slices.Clone(in.waiting) {
		switch {
		case in.failed != nil:
			in.fail(r, in.failedCode(), in.failedText())
		case (!in.ready || r.m != nil && r.m.held) && soon(r.since.Add(in.options.Restart)):
			in.fail(r, mcp.CodeServerSilent, "The shared MCP server is restarting and not ready yet. The request was not executed; repeat it later.")
		case in.ready:
			soon(r.since.Add(in.options.Turn))
		}
	}
	in.pump()
	if errors.Is(in.failed, ErrDisagrees) {
		for _, m := range slices.Clone(in.members) {
			in.letGo(m, in.failed)
		}
	}
	movers = in.movers(now, soon)
	return next, len(in.members) == 0 && soon(in.idle.Add(in.options.Idle)), movers
}

func (in *instance) failedCode() int {
	if errors.Is(in.failed, child.ErrNotFound) || errors.Is(in.failed, child.ErrNotExecutable) {
		return mcp.CodeServerStart
	}
	return mcp.CodeServerExit
}

func (in *instance) failedText() string {
	return fmt.Sprintf("The shared MCP server has failed and is not restarted automatically: %v. The request was not executed. `tgctl restart %s` starts the server.",
		in.failed, in.spec.Server)
}

// paramsOf returns the raw params of an initialize request that was read before.
func paramsOf(line []byte) []byte {
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil || !e.Params.Present() {
		return []byte("{}")
	}
	return e.Params.Of(line)
}
