package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// orphanInterval is the interval at which the files of a killed wrap are checked.
const orphanInterval = 20 * time.Millisecond

// sessionsFolder is the directory of the sessions' directories, in the runtime directory.
const sessionsFolder = "sessions"

// makePlan plans what to govern, and whether to rewrite files.
func (w *wrapping) makePlan(ctx context.Context) error {
	plan, err := w.readPlan(ctx)
	if err != nil {
		return err
	}
	plan.OnStep(w.step)
	w.plan = plan
	if w.rewrite || w.keep || w.adopt {
		return plan.CheckUnreached()
	}
	paths, err := sock.DefaultPaths(w.Getenv)
	if err != nil {
		return err
	}
	var pointing *agentconf.Pointing
	pointing, w.why, err = plan.Point(filepath.Join(paths.Runtime, sessionsFolder))
	if pointing == nil || err != nil {
		return err
	}
	w.plan = pointing
	if w.dryRun {
		return nil
	}
	return paths.Prepare()
}

// readPlan reads the agent's files. If a killed wrap has left them rewritten, the daemon
// restores them; readPlan waits for that.
func (w *wrapping) readPlan(ctx context.Context) (*agentconf.Plan, error) {
	w.lasting = w.protections(ctx)
	plan, err := w.newPlan()
	switch {
	case !isLeft(err):
		return plan, planFailure(err)
	case w.dryRun:
		return plan, err
	}
	c, failed := w.Dial(ctx) // a daemon that this starts restores the files first
	if failed != nil {
		return nil, notRestored(err, failed)
	}
	defer c.Close()
	w.lasting = w.protections(ctx)
	ctx, cancel := context.WithTimeout(ctx, agentconf.BriefLockTimeout)
	defer cancel()
	tick := time.NewTicker(orphanInterval)
	defer tick.Stop()
	for waiting := false; ; waiting = true {
		// Ask before reading the files: if no session will restore them, their current content
		// is final. Their lock does not show that: the daemon may not have taken it yet, or may
		// have restored them after they were read.
		expected, failed := w.willBeRestored(ctx, c)
		plan, err = w.newPlan()
		var locked *agentconf.LockedError
		if !isLeft(err) || !expected && !errors.As(err, &locked) {
			return plan, notRestored(err, failed)
		}
		if !waiting {
			w.detail("waiting until the daemon has restored what a killed wrap has left")
		}
		select {
		case <-ctx.Done():
			return nil, notRestored(err, cmp.Or(failed, ctx.Err()))
		case <-tick.C:
		}
	}
}

// protections returns the protections that a running daemon knows. Their lines are not
// leftovers.
func (w *wrapping) protections(ctx context.Context) []*agentconf.Protection {
	c, err := w.DialRunning(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	kept, err := agentenv.Protections(ctx, c)
	if err != nil {
		w.detail("get the list of protected agents: %v", err)
	}
	return kept
}

// newPlan reads the agent's files and makes a plan.
func (w *wrapping) newPlan() (*agentconf.Plan, error) {
	return agentconf.NewPlan(w.agent, w.env(), w.shim)
}

// planFailure adds to an error about an agent's files what to do.
func planFailure(err error) error {
	if err == nil {
		return nil
	}
	return &ui.HintError{Err: err, Hint: "Correct the file, or name the agent's own with --config-path FILE; docs/agents.md lists what each agent reads."}
}

// isLeft reports whether err, from newPlan, may be about files that a killed wrap left and that
// are about to be restored.
func isLeft(err error) bool {
	var locked *agentconf.LockedError
	return errors.Is(err, agentconf.ErrWrapped) || errors.As(err, &locked) && locked.Brief()
}

// notRestored adds to err, from newPlan, why the daemon has not restored what a killed wrap left.
func notRestored(err, why error) error {
	if why == nil || !isLeft(err) {
		return err
	}
	return fmt.Errorf("%w; the daemon has not restored it: %w", err, why)
}

// willBeRestored reports whether the end of a session restores a file that the agent reads. It need
// not be known whether its wrap is dead: the wrap no longer holds a lock. The error says why a file
// can't be restored.
func (w *wrapping) willBeRestored(ctx context.Context, c *client.Client) (bool, error) {
	sessions, err := c.ListRestoring(ctx)
	files := agentconf.Files(w.agent, w.env())
	expected := false
	for _, s := range sessions {
		reads := func(f *pb.ConfigFile) bool { return slices.Contains(files, f.GetPath()) }
		switch {
		case !slices.ContainsFunc(s.GetSpec().GetFiles(), reads):
		case s.GetProblem() != "":
			err = errors.New(s.GetProblem())
		default:
			expected = true
		}
	}
	return expected, err
}
