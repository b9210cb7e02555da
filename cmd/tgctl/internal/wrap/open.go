package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

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

// openSession opens the session, if the daemon is the one that is wanted and its configuration is
// valid.
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
		Profile: profiles[w.profile], Keep: w.keep, Outlasting: w.outlasts(), Tools: w.plan.HooksTools(), Files: ui.Map(journals, configFile),
		Remotes: ui.Map(w.plan.Remotes(), remoteServer),
		Left: ui.Map(w.plan.Left(), func(l agentconf.Left) *pb.LeftServer {
			return &pb.LeftServer{Server: l.ID, Path: l.Path, Why: l.Why}
		}),
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
	w.inForce = opened.GetProfile()
	w.detail("the daemon is thoughtgated %s, pid %d, its configuration %s", status.GetBuild(), status.GetPid(), cmp.Or(opened.GetConfig(), "the built-in default"))
	w.detail("session %s is open; servers connect to %s through %s", w.id[:8], opened.GetShimSocket(), w.shim)
	w.warn(opened.GetWarnings())
	return nil
}

// configFile returns a file and how to restore it, for the daemon.
func configFile(j agentconf.Journal) *pb.ConfigFile {
	return &pb.ConfigFile{Path: j.Path, Journal: j.Text}
}

// remoteServer returns a server behind an address, for the daemon.
func remoteServer(r agentconf.Remote) *pb.RemoteServer {
	return &pb.RemoteServer{
		Server: r.Server, Address: r.Address, Transport: string(r.Transport), From: r.From, Helper: r.Helper, Login: r.Login, Syntax: r.Syntax, Own: r.Own,
		Headers: ui.Map(r.Headers, func(h agentconf.Header) *pb.RemoteHeader {
			return &pb.RemoteHeader{Name: h.Name, Template: h.Template, Variable: h.Variable, Optional: h.Optional}
		}),
	}
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
