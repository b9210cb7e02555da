package wrap

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// followInterval is the interval at which the configuration is checked while the agent runs. A
	// check costs a few stat calls if nothing has changed, and works on every file system and
	// however a file is replaced.
	followInterval = 500 * time.Millisecond

	// followRetryDelay is the delay before another attempt to govern servers.
	followRetryDelay = 5 * time.Second

	// amendTimeout is the timeout for the daemon to store a journal. The agent's own lock may
	// be held meanwhile; agents consider it stale after ten seconds.
	amendTimeout = 3 * time.Second
)

// follower watches the agent's configuration while the agent runs. Servers that are added or
// changed are reported to the daemon, and governed with --adopt. They are reported to the user
// only at the end, since the agent has the terminal until then. Only one goroutine may use a
// follower and its plan at a time.
type follower struct {
	w      *wrapping
	cancel context.CancelFunc
	done   sync.WaitGroup

	stamp    string            // state of the files at the last check
	unsure   bool              // something failed: check again even if the stamp is the same
	reported []agentconf.Drift // to the daemon
	seen     []drifted
	trouble  error // why the last attempt could not govern everything
	retry    time.Time
}

// drifted is a server that was ungoverned at some time.
type drifted struct {
	agentconf.Drift
	adopted bool // governed since
}

// follow starts to watch the files that were just rewritten.
func (w *wrapping) follow(ctx context.Context) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{w: w, cancel: cancel, unsure: true}
	f.done.Go(func() {
		tick := time.NewTicker(followInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f.check(ctx, w.adopt)
			}
		}
	})
	return f
}

// stop stops watching, after a final check.
func (f *follower) stop() {
	f.cancel()
	f.done.Wait()
	f.unsure = true
	f.check(context.Background(), false)
}

// check reports what has changed since the last check and, if adopt, governs it.
func (f *follower) check(ctx context.Context, adopt bool) {
	stamp := f.w.plan.Stamp()
	again := f.unsure || f.trouble != nil && time.Now().After(f.retry)
	if stamp == f.stamp && !again {
		return
	}
	drift, err := f.w.plan.Drift()
	if f.unsure = err != nil; err != nil {
		return // somebody is writing; restoring reports the result
	}
	f.stamp = stamp
	f.recordDrift(drift)
	if adopt && len(drift) > 0 {
		drift = f.adoptServers(ctx, drift)
	}
	if slices.Equal(drift, f.reported) {
		return
	}
	if err := f.amend(ctx, nil, drift); err != nil {
		f.unsure = true
		return
	}
	f.reported = drift
}

// recordDrift remembers the ungoverned servers for the end.
func (f *follower) recordDrift(drift []agentconf.Drift) {
	for _, d := range drift {
		i := slices.IndexFunc(f.seen, func(have drifted) bool { return have.Drift == d })
		if i < 0 {
			f.seen = append(f.seen, drifted{Drift: d})
		} else {
			f.seen[i].adopted = false
		}
	}
}

// adoptServers governs the ungoverned servers, and returns those that still are ungoverned.
func (f *follower) adoptServers(ctx context.Context, drift []agentconf.Drift) []agentconf.Drift {
	f.trouble = f.w.plan.Adopt(func(journals []agentconf.Journal) error { return f.amend(ctx, journals, f.reported) })
	f.retry = time.Now().Add(followRetryDelay)
	left, err := f.w.plan.Drift()
	if err != nil {
		f.unsure = true
		return drift
	}
	for i, d := range f.seen {
		if slices.Contains(drift, d.Drift) && !slices.Contains(left, d.Drift) {
			f.seen[i].adopted = true
		}
	}
	return left
}

// amend sends new journals and the ungoverned servers to the daemon.
func (f *follower) amend(ctx context.Context, journals []agentconf.Journal, drift []agentconf.Drift) error {
	ctx, cancel := context.WithTimeout(ctx, amendTimeout)
	defer cancel()
	past := ui.Map(drift, func(d agentconf.Drift) *pb.UngovernedServer {
		return &pb.UngovernedServer{Server: d.ID, Path: d.Path, How: string(d.How)}
	})
	return f.w.session.Amend(ctx, ui.Map(journals, configFile), ui.Map(f.w.plan.Remotes(), remoteServer), past)
}

// reportUngoverned reports the servers that were ungoverned.
func (f *follower) reportUngoverned() {
	for _, d := range f.seen {
		id := display.Text(d.ID)
		switch {
		case d.How == agentconf.Added && d.adopted:
			f.w.message("server %s was added during the session and governed as soon as it was seen; its entry is kept, without tg-shim", id)
		case d.How == agentconf.Added && f.w.adopt && f.trouble != nil:
			f.w.message("server %s was added during the session and could not be governed: %s", id, display.Text(f.trouble.Error()))
		case d.How == agentconf.Added:
			f.w.message("server %s was added during the session and was not governed; it is from the next session on, or at once with --adopt", id)
		case d.adopted:
			f.w.message("server %s was changed during the session and governed again as soon as that was seen; the change is kept", id)
		default:
			f.w.message("the entry of server %s no longer named tg-shim during the session; the server may have run ungoverned", id)
		}
	}
}
