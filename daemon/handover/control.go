package handover

import (
	"context"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// signal ends the session in order, or skips a step of its end.
func (a *attachment) signal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.relay == nil {
		a.asked++
		return
	}
	a.relay.Signal()
}

// drain ends the session for a reason of the daemon's. It does not block.
func (a *attachment) drain(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason = reason
	if a.relay != nil {
		a.relay.Drain(reason)
	}
}

// serverEnded records how the server's process has ended.
func (a *attachment) serverEnded(how child.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.how != nil {
		return // reported before
	}
	a.how = &how
	if a.relay != nil {
		a.relay.ServerEnded(how.String())
	}
	a.registry.ServerEnded(a.server, &how)
}

// letGo drops a kept descriptor.
func (a *attachment) letGo(f *os.File) {
	if err := a.registry.Keep.Drop(context.WithoutCancel(a.registry.ctx), a.name, f); err != nil {
		a.registry.Logger.Error("drop a kept descriptor", "server_id", a.server, "err", err)
	}
}

// leave leaves the attachment to the next daemon, or ends it if it is not kept.
func (a *attachment) leave() {
	a.turn.Lock()
	a.leaving = a.kept && !a.registry.Keep.KeeperLost() // otherwise no daemon would recover it
	leaving, s := a.leaving, a.session()
	if s == nil {
		a.end(a.registry.ctx, "left", "")
	}
	a.turn.Unlock()
	switch {
	case s == nil:
	case leaving:
		s.Leave()
		close(a.left)
	default:
		s.Drain("the daemon is stopping")
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-s.Done():
		case <-timer.C:
			s.Close()
		}
	}
}
