package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// orphanLook is the pause between two looks at what a killed wrap has left.
const orphanLook = 20 * time.Millisecond

// sessionsFolder is where the folders of sessions lie, in the runtime folder.
const sessionsFolder = "sessions"

// makePlan reads what is to be governed, and decides which way.
func (w *wrapping) makePlan(ctx context.Context) error {
	plan, err := w.readPlan(ctx)
	if err != nil {
		return err
	}
	plan.OnStep(w.step)
	w.plan = plan
	if w.rewrite || w.keep || w.adopt {
		return plan.Reaches()
	}
	paths, err := sock.DefaultPaths(w.getenv)
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

// readPlan reads the agent's files. What a killed wrap has left rewritten is the
// daemon's to put back, which it may not have had the time for yet.
func (w *wrapping) readPlan(ctx context.Context) (*agentconf.Plan, error) {
	w.lasting = w.protections(ctx)
	plan, err := w.look()
	if w.dryRun || !isLeft(err) {
		return plan, err
	}
	c, failed := w.dial(ctx) // a daemon that is started for this puts it back first
	if failed != nil {
		return nil, err
	}
	defer c.Close()
	w.lasting = w.protections(ctx)
	ctx, cancel := context.WithTimeout(ctx, agentconf.BriefPatience)
	defer cancel()
	tick := time.NewTicker(orphanLook)
	defer tick.Stop()
	for {
		sessions, failed := c.ListSessions(ctx)
		// Asked before the look: when nobody is left to put the files back, what
		// they hold now is what they will hold.
		expected := failed == nil && slices.ContainsFunc(sessions, w.restores)
		plan, err = w.look()
		var locked *agentconf.LockedError
		if !isLeft(err) || !expected && !errors.As(err, &locked) {
			return plan, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// protections is what a daemon that runs knows to be protected: lines of that are
// no leftovers.
func (w *wrapping) protections(ctx context.Context) []*agentconf.Protection {
	c, err := w.dialRunning(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	kept, err := lasting(ctx, c)
	if err != nil {
		w.detail("what is protected is not known: %v", err)
	}
	return kept
}

// look reads the agent's files, and plans.
func (w *wrapping) look() (*agentconf.Plan, error) {
	return agentconf.NewPlan(w.agent, w.env(), w.shim)
}

// isLeft reports whether err, of look, may be about what a killed wrap has left,
// which somebody puts back or is about to.
func isLeft(err error) bool {
	var locked *agentconf.LockedError
	return errors.Is(err, agentconf.ErrWrapped) || errors.As(err, &locked) && locked.Brief()
}

// restores reports whether the end of a session puts back a file that the agent
// reads. Its wrap need not be known to be dead: it holds no lock any more.
func (w *wrapping) restores(s *pb.Session) bool {
	files := w.agent.Files(w.env())
	return s.GetProblem() == "" && slices.ContainsFunc(s.GetSpec().GetFiles(),
		func(f *pb.ConfigFile) bool { return slices.Contains(files, f.GetPath()) })
}

// open makes sure that a daemon runs whose configuration is sound, and has it
// take the session on: it will put the files back should we not be able to.
func (w *wrapping) open(ctx context.Context) error {
	var err error
	if w.client, err = w.dial(ctx); err != nil {
		return err
	}
	if err := w.openSession(ctx); err != nil {
		return err
	}
	w.step("opened")
	return nil
}

func (w *wrapping) openSession(ctx context.Context) error {
	if err := w.checkConfiguration(ctx); err != nil {
		return err
	}
	status, err := w.client.Status(ctx)
	if err != nil {
		return err
	}
	w.tellSkew() // while somebody looks, not when the agent has ended
	if err := w.plan.Prepare(w.line(status.GetShimSocket())); err != nil {
		return err
	}
	journals, err := w.plan.Journals()
	if err != nil {
		return err
	}
	spec := &pb.SessionSpec{
		Id: w.id, Agent: w.plan.Agent(), Command: w.argv, Project: w.cwd,
		Profile: profileNamed(w.wrapOptions.profile), Keep: w.keep, Outlasting: w.outlasts(),
	}
	for _, j := range journals {
		spec.Files = append(spec.Files, &pb.ConfigFile{Path: j.Path, Journal: j.Text})
	}
	if w.session, err = w.client.OpenSession(ctx, spec); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	opened := w.session.Opened()
	if opened.GetShimSocket() != status.GetShimSocket() {
		return fmt.Errorf("the daemon was replaced by one that listens elsewhere (%s); try again", opened.GetShimSocket())
	}
	if err := w.namedIsInForce(opened.GetConfig()); err != nil {
		return err
	}
	w.profile = opened.GetProfile()
	w.detail("the daemon is thoughtgated %s, pid %d, its configuration %s", status.GetBuild(), status.GetPid(), cmp.Or(opened.GetConfig(), "the built-in default"))
	w.detail("session %s is open; servers report to %s through %s", w.id[:8], opened.GetShimSocket(), w.shim)
	w.warn(opened.GetWarnings())
	return nil
}

// checkConfiguration refuses to begin under rules that are not those that are
// written down: a file that the daemon could not load, or not any more.
func (w *wrapping) checkConfiguration(ctx context.Context) error {
	paths := []string{""}
	named, err := w.namedConfig()
	if err != nil {
		return err
	}
	if named != "" {
		paths = append(paths, named)
	}
	for _, path := range paths {
		out, err := w.client.Validate(ctx, path)
		if err != nil {
			return fmt.Errorf("check the configuration: %w", err)
		}
		if n := countErrors(out.GetProblems()); n > 0 {
			_ = printDiagnostics(w.err, out.GetProblems(), w.width())
			return &hintError{
				err:  errors.New("the configuration has errors; nothing was rewritten"),
				hint: "Correct it, and check with `tgctl policy check`.",
			}
		}
	}
	return nil
}

// namedIsInForce refuses to begin under other rules than those that the person
// has named: the daemon has its own environment, and takes no file from ours.
func (w *wrapping) namedIsInForce(inForce string) error {
	what := w.elsewhere(inForce)
	if what == "" {
		return nil
	}
	return &hintError{err: errors.New(what), hint: "Use yours with `tgctl daemon restart`, or unset " + configVar + "."}
}
