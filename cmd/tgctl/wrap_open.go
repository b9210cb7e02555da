package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// orphanLook is the interval at which the files of a killed wrap are checked.
const orphanLook = 20 * time.Millisecond

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
	plan, err := w.look()
	if w.dryRun || !isLeft(err) {
		return plan, err
	}
	c, failed := w.Dial(ctx) // a daemon that this starts restores the files first
	if failed != nil {
		return nil, err
	}
	defer c.Close()
	w.lasting = w.protections(ctx)
	ctx, cancel := context.WithTimeout(ctx, agentconf.BriefLockTimeout)
	defer cancel()
	tick := time.NewTicker(orphanLook)
	defer tick.Stop()
	for {
		sessions, failed := c.ListSessions(ctx)
		// Ask before reading the files: if no session will restore them, their current content
		// is final.
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

// protections returns the protections that a running daemon knows. Their lines are not
// leftovers.
func (w *wrapping) protections(ctx context.Context) []*agentconf.Protection {
	c, err := w.DialRunning(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	kept, err := knownProtections(ctx, c)
	if err != nil {
		w.detail("get the list of protected agents: %v", err)
	}
	return kept
}

// look reads the agent's files and makes a plan.
func (w *wrapping) look() (*agentconf.Plan, error) {
	return agentconf.NewPlan(w.agent, w.env(), w.shim)
}

// isLeft reports whether err, from look, may be about files that a killed wrap left and that
// are about to be restored.
func isLeft(err error) bool {
	var locked *agentconf.LockedError
	return errors.Is(err, agentconf.ErrWrapped) || errors.As(err, &locked) && locked.Brief()
}

// restores reports whether the end of session s restores a file that the agent reads. It need
// not be known whether its wrap is dead: the wrap no longer holds a lock.
func (w *wrapping) restores(s *pb.Session) bool {
	files := w.agent.Files(w.env())
	return s.GetProblem() == "" && slices.ContainsFunc(s.GetSpec().GetFiles(),
		func(f *pb.ConfigFile) bool { return slices.Contains(files, f.GetPath()) })
}

// open connects to a daemon, checks its configuration and opens a session. From then on the
// daemon restores the files if this process cannot.
func (w *wrapping) open(ctx context.Context) error {
	var err error
	if w.client, err = w.Dial(ctx); err != nil {
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
	w.ReportSkew() // now, while somebody reads it, and not after the agent has ended
	if err := w.plan.Prepare(w.line(status.GetShimSocket())); err != nil {
		return err
	}
	journals, err := w.plan.Journals()
	if err != nil {
		return err
	}
	spec := &pb.SessionSpec{
		Id: w.id, Agent: w.plan.Agent(), Command: w.argv, Project: w.cwd,
		Profile: profiles[w.wrapOptions.profile], Keep: w.keep, Outlasting: w.outlasts(), Files: ui.Map(journals, configFile),
	}
	if w.session, err = w.client.OpenSession(ctx, spec); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	opened := w.session.Opened()
	if opened.GetShimSocket() != status.GetShimSocket() {
		return fmt.Errorf("the daemon was replaced by one that listens on %s; try again", opened.GetShimSocket())
	}
	if err := w.namedIsInForce(opened.GetConfig()); err != nil {
		return err
	}
	w.profile = opened.GetProfile()
	w.detail("the daemon is thoughtgated %s, pid %d, its configuration %s", status.GetBuild(), status.GetPid(), cmp.Or(opened.GetConfig(), "the built-in default"))
	w.detail("session %s is open; servers connect to %s through %s", w.id[:8], opened.GetShimSocket(), w.shim)
	w.warn(opened.GetWarnings())
	return nil
}

// configFile returns a file and how to restore it, for the daemon.
func configFile(j agentconf.Journal) *pb.ConfigFile {
	return &pb.ConfigFile{Path: j.Path, Journal: j.Text}
}

// checkConfiguration returns an error if a configuration file has errors, since the rules in
// force would not be those in the file.
func (w *wrapping) checkConfiguration(ctx context.Context) error {
	paths := []string{""}
	named, err := w.NamedConfig()
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
		if n := ui.CountErrors(out.GetProblems()); n > 0 {
			_ = ui.PrintDiagnostics(w.Err, out.GetProblems(), w.Width())
			return &ui.HintError{
				Err:  errors.New("the configuration has errors; nothing was rewritten"),
				Hint: "Fix it, then run `tgctl policy check`.",
			}
		}
	}
	return nil
}

// namedIsInForce returns an error if the rules in force are not those of the configuration that
// the person named. The daemon has its own environment and does not take a file from this one.
func (w *wrapping) namedIsInForce(inForce string) error {
	what := w.ConfigMismatch(inForce)
	if what == "" {
		return nil
	}
	return &ui.HintError{Err: errors.New(what), Hint: "To use it, run `tgctl daemon restart`; otherwise unset " + connect.ConfigVar + "."}
}
